# SPDX-License-Identifier: GPL-2.0-only
"""Out-of-tree modules: built against a guest kernel, loaded once on trial, kept in the cache.

The sources are copied into the cache and built there: nothing is written to the user's
folder, and the sources of a run that has been made stay at hand.
"""
import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from kernel import crash
from kernel.build import make_command, make_environment
from kernel.source import KernelError, cache_dir

_HERE = pathlib.Path(__file__).parent
_NOT_SOURCES = ("*.md", "*.o", "*.ko", "*.mod", "*.mod.c", ".*.cmd", "*.a", "Module.symvers",
                "modules.order", ".git", ".gitignore", ".tmp_versions")
_MOST_BYTES = 32 << 20
#: a guest that does nothing but load a module takes half a second
_TRIAL_S = 60


class ModuleError(KernelError):
    """A module cannot be built or loaded; the message has the compiler's or the kernel's words."""


@dataclasses.dataclass(frozen=True)
class Module:
    """A module that was built and has been loaded on trial."""
    name: str                       # as in lsmod: tcp_mine
    file: pathlib.Path              # the .ko
    source: str                     # where the sources were
    sha256: str                     # of the sources
    congestion_controls: tuple      # names that it registers
    warnings: str = ""              # what the compiler warned of


def build(kernel, source, report=print):
    """The module of `source` for `kernel`: a .c file, or a folder with a Kbuild or Makefile.

    Raises ModuleError, with paths as the user knows them.
    """
    source = pathlib.Path(source).resolve()
    files = _files(source)
    digest = _digest(source, files)
    key = hashlib.sha256(f"{kernel.key}\0{digest}".encode()).hexdigest()[:16]
    folder = cache_dir() / "modules" / f"{source.stem}-{key}"
    found = _load(folder, source)
    if found:
        return found
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / f".{folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _load(folder, source)
        if found:
            return found
        shutil.rmtree(folder, ignore_errors=True)
        partial = pathlib.Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            _copy(source, files, partial)
            report(f"compiling {source.name} for {kernel.release}, loading it once")
            built, warnings = _make(kernel, partial, source)
            names = _try(kernel, built, source)
            (partial / "module.json").write_text(json.dumps(
                {"file": built.name, "source": str(source), "sha256": digest, "congestion_controls": names,
                 "warnings": warnings}, indent=1))
            os.replace(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return _load(folder, source)


def find(kernel_key, sha256):
    """The built module with these sources for this kernel, wherever they came from; None if there is none."""
    for folder in sorted((cache_dir() / "modules").glob("[!.]*")):
        module = _load(folder, None)
        if module and module.sha256 == sha256 and folder.name.endswith(
                hashlib.sha256(f"{kernel_key}\0{sha256}".encode()).hexdigest()[:16]):
            return module
    return None


def digest_of(source):
    """SHA-256 of the sources of a module, as `Module.sha256`. Raises ModuleError."""
    source = pathlib.Path(source).resolve()
    return _digest(source, _files(source))


def _load(folder, source):
    try:
        facts = json.loads((folder / "module.json").read_text())
    except FileNotFoundError:
        return None
    return Module(name=facts["file"].removesuffix(".ko"), file=folder / facts["file"],
                  source=str(source or facts["source"]), sha256=facts["sha256"],
                  congestion_controls=tuple(facts["congestion_controls"]), warnings=facts["warnings"])


def _files(source):
    """Relative paths of the files a module is built from."""
    if source.is_file():
        if source.suffix != ".c":
            raise ModuleError(f"{source}: a .c file or a folder with a Kbuild or Makefile expected")
        return [pathlib.Path(source.name)]
    if not source.is_dir():
        raise ModuleError(f"{source}: no such file or folder")
    if not any((source / name).is_file() for name in ("Kbuild", "Makefile")):
        raise ModuleError(f"{source}: neither a Kbuild nor a Makefile in it (a line such as `obj-m := {source.name}.o` will do)")
    files, size = [], 0
    for path in sorted(source.rglob("*")):
        relative = path.relative_to(source)
        if path.is_file() and not any(part.match(p) for part in (relative, *relative.parents) for p in _NOT_SOURCES):
            files.append(relative)
            size += path.stat().st_size
            if size > _MOST_BYTES:
                raise ModuleError(f"{source}: more than {_MOST_BYTES >> 20} MB of files: is this the folder of a module?")
    return files


def _digest(source, files):
    digest = hashlib.sha256()
    for relative in files:
        data = (source if source.is_file() else source / relative).read_bytes()
        digest.update(f"{relative}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def _copy(source, files, target):
    for relative in files:
        (target / relative).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source if source.is_file() else source / relative, target / relative)
    if source.is_file():
        (target / "Kbuild").write_text(f"obj-m := {source.stem}.o\n")


def _make(kernel, folder, source):
    """The .ko that is built in `folder`, and the compiler's warnings."""
    done = subprocess.run(make_command(kernel.source_dir, kernel.build_dir) + [f"M={folder}", "modules"],
                          capture_output=True, text=True, errors="replace", env=make_environment(), stdin=subprocess.DEVNULL)
    words = _readable(done.stderr, folder, source)
    if done.returncode:
        raise ModuleError(f"{source} does not build:\n{words or done.stdout.strip()}")
    built = sorted(folder.rglob("*.ko"))
    if len(built) != 1:
        raise ModuleError(f"{source} builds {len(built)} modules ({', '.join(b.name for b in built) or 'is there an obj-m line?'}): "
                          "one expected")
    if built[0].parent != folder:
        built[0] = built[0].rename(folder / built[0].name)
    return built[0], words


def _readable(text, folder, source):
    """What the compiler said, with the user's paths and without make's own words."""
    shown = source.parent if source.is_file() else source
    lines = [line.replace(str(folder), str(shown)) for line in text.splitlines()
             if not re.match(r"make(\[\d+\])?: (Entering|Leaving|\*\*\*)|WARNING: Module.symvers|\s*Symbol info of vmlinux", line)]
    if any("modpost" in line and "undefined!" in line for line in lines):
        lines.append("(a kernel exports to modules only what is marked EXPORT_SYMBOL)")
    return "\n".join(lines).strip()


def _try(kernel, built, source):
    """Load a module in a guest that does nothing else; the congestion controls it registers.

    An `init` that fails, crashes or never ends is found here, in a second, and not in every run.
    """
    with tempfile.TemporaryDirectory(prefix="testbed-uml-") as scratch:
        command = ["setpriv", "--pdeathsig", "KILL", "setarch", "-R", str(kernel.program),
                   "mem=64M", "root=none", "rootfstype=hostfs", "rootflags=/", "ro", "time-travel=inf-cpu", "loglevel=8", "con=null", "con0=null,fd:2", f"uml_dir={scratch}", "umid=trial",
                   "init=/usr/bin/python3", "--", "-I", "-S", str(_HERE / "module_boot.py"), str(built)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            log = process.communicate(timeout=_TRIAL_S)[0].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            log = None
        finally:
            _kill_session(process)
    if log is None:
        raise ModuleError(f"{source}: loading {built.name} does not end: its init function computes without end")
    log = log.replace("\r", "").partition("loading\n")[2]              # what comes before is the kernel's start
    match = re.search(r"^registered(.*)$", log, re.M)
    if match:
        names = match.group(1).split()
        if not names:
            raise ModuleError(f"{source}: {built.name} loads, but registers no congestion control "
                              "(tcp_register_congestion_control in its init function?)")
        return names
    refused = re.search(r"^refused (.*)$", log, re.M)
    if not refused:
        raise ModuleError(f"{source}: the kernel crashed while {built.name} was loaded: "
                          + (crash.describe(log) or log.strip()[-2000:]).replace("\n", "\n  "))
    words = [re.sub(r"^\[ *\d+\.\d+\] ", "", line) for line in log.splitlines()]
    words = [w for w in words if w and not re.search(r"^refused |taints kernel|reboot: ", w)]
    raise ModuleError(f"{source}: {built.name} cannot be loaded: {refused.group(1)}"
                      + (f" (the kernel says: {'; '.join(words[-5:])})" if words else ""))


def _kill_session(process):
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        pass
    process.wait()
