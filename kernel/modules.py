# SPDX-License-Identifier: GPL-2.0-only
"""Out-of-tree modules: built against a guest kernel, loaded once on trial, kept in the cache.

The sources are copied into the cache and built there: nothing is written to the user's
folder, and the sources of a run that has been made stay at hand.
"""
from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Callable

from kernel import compiling, trial
from kernel.build import Kernel
from kernel.source import KernelError, cache_dir

_NOT_SOURCES = ("*.md", "*.o", "*.ko", "*.mod", "*.mod.c", ".*.cmd", "*.a", "Module.symvers",
                "modules.order", ".git", ".gitignore", ".tmp_versions")
_MOST_BYTES = 32 << 20
#: what may be a path, a label of a figure and a word on the command line
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,14}")


class ModuleError(KernelError):
    """A module cannot be built or loaded; the message has the compiler's or the kernel's words."""


@dataclasses.dataclass(frozen=True)
class Module:
    """A module that was built and has been loaded on trial."""
    name: str                                   # as in lsmod: tcp_mine
    file: pathlib.Path                          # the .ko
    source: str                                 # where the sources were
    sha256: str                                 # of the sources
    congestion_controls: tuple[str, ...]        # names that it registers
    warnings: str = ""                          # what the compiler warned of


def build(kernel: Kernel, source: str | pathlib.Path, report: Callable[[str], None] = print) -> Module:
    """The module of `source` for a guest kernel: a .c file, or a folder with a Kbuild or Makefile.

    Raises ModuleError, with paths as the user knows them.
    """
    return build_for(kernel, source, report, lambda built: trial.load(kernel, built))


def build_for(kernel: compiling.Target, source: str | pathlib.Path, report: Callable[[str], None],
              load: Callable[[pathlib.Path], list[str]]) -> Module:
    """The same for any kernel; load(file): loads a module on trial -> names that it registers, or TrialError.

    Raises ModuleError, with paths as the user knows them.
    """
    source = pathlib.Path(os.path.realpath(source))
    files = _files(source)
    digest = _digest(source, files)
    folder = cache_dir() / "modules" / f"{_safe(source.stem)}-{_key(kernel.key, digest)}"
    found = _load(folder, source)
    if found:
        return found
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _load(folder, source)
        if found:
            return found
        shutil.rmtree(folder, ignore_errors=True)
        for left in folder.parent.glob(".new-*"):           # of a build that was killed: this one has the lock
            shutil.rmtree(left, ignore_errors=True)
        partial = pathlib.Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
        try:
            report(f"compiling {source.name} for {kernel.release}, loading it once")
            try:
                try:
                    built, warnings, names = _built(kernel, source, files, partial, _safe(source.stem), load)
                except trial.TakenName:
                    if not source.is_file():
                        raise
                    # such as a copy of the kernel's own tcp_cubic.c that registers another name
                    built, warnings, names = _built(kernel, source, files, partial, f"{_safe(source.stem)}_given", load)
            except (compiling.CompileError, trial.TrialError) as problem:
                raise ModuleError(f"{source}{problem}") from None
            for name in names:
                if not _NAME.fullmatch(name):
                    raise ModuleError(f"{source}: registers a congestion control of the name {name!r}: small letters, "
                                      "digits, - and _ expected, at most 15, a letter or digit first")
            (partial / "module.json").write_text(json.dumps(
                {"file": built.name, "source": str(source), "sha256": digest, "congestion_controls": names,
                 "warnings": warnings}, indent=1), encoding="utf-8")
            os.replace(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    found = _load(folder, source)
    if not found:
        raise ModuleError(f"{source}: what was built has gone from {folder}")
    return found


def find(kernel_key: str, sha256: str) -> Module | None:
    """The built module with these sources for this kernel, wherever they came from; None if there is none."""
    for folder in sorted((cache_dir() / "modules").glob(f"*-{_key(kernel_key, sha256)}")):
        module = _load(folder, None)
        if module and module.sha256 == sha256:
            return module
    return None


def digest_of(source: str | pathlib.Path) -> str:
    """SHA-256 of the sources of a module, as `Module.sha256`. Raises ModuleError."""
    source = pathlib.Path(os.path.realpath(source))
    return _digest(source, _files(source))


def _key(kernel_key: str, digest: str) -> str:
    return hashlib.sha256(f"{kernel_key}\0{digest}".encode()).hexdigest()[:16]


def _safe(stem: str) -> str:
    """`stem` as a name that neither make nor a shell nor C takes for anything else."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", stem)[:40]
    return name if re.match("[A-Za-z]", name) else f"tcp_{name}"


def _load(folder: pathlib.Path, source: pathlib.Path | None) -> Module | None:
    """The module in this folder of the cache; None if there is none, or not a whole one."""
    try:
        facts = json.loads((folder / "module.json").read_text(encoding="utf-8"))
        names = facts["congestion_controls"]
        module = Module(name=facts["file"].removesuffix(".ko"), file=folder / facts["file"],
                        source=str(source or facts["source"]), sha256=facts["sha256"],
                        congestion_controls=tuple(map(str, names)), warnings=str(facts["warnings"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return module if module.file.is_file() else None


def _files(source: pathlib.Path) -> list[pathlib.Path]:
    """Relative paths of the files a module is built from."""
    if source.is_file():
        if source.suffix != ".c":
            raise ModuleError(f"{source}: a .c file or a folder with a Kbuild or Makefile expected")
        if source.stat().st_size > _MOST_BYTES:
            raise ModuleError(f"{source}: more than {_MOST_BYTES >> 20} MB: is this the source of a module?")
        return [pathlib.Path(source.name)]
    if not source.is_dir():
        raise ModuleError(f"{source}: no such file or folder")
    if not any((source / name).is_file() for name in ("Kbuild", "Makefile")):
        raise ModuleError(f"{source}: neither a Kbuild nor a Makefile in it "
                          f"(a line such as `obj-m := {_safe(source.name)}.o` will do)")
    files, size = [], 0
    for path in sorted(source.rglob("*")):
        relative = path.relative_to(source)
        if path.is_file() and not any(part.match(p) for part in (relative, *relative.parents) for p in _NOT_SOURCES):
            files.append(relative)
            size += path.stat().st_size
            if size > _MOST_BYTES:
                raise ModuleError(f"{source}: more than {_MOST_BYTES >> 20} MB of files: "
                                  "is this the folder of a module?")
    return files


def _digest(source: pathlib.Path, files: list[pathlib.Path]) -> str:
    digest = hashlib.sha256()
    for relative in files:
        try:
            data = (source if source.is_file() else source / relative).read_bytes()
        except OSError as problem:
            raise ModuleError(f"{problem.filename}: {problem.strerror}") from None
        digest.update(os.fsencode(relative) + f"\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def _built(kernel: compiling.Target, source: pathlib.Path, files: list[pathlib.Path], folder: pathlib.Path, name: str,
           load: Callable[[pathlib.Path], list[str]]) -> tuple[pathlib.Path, str, list[str]]:
    """(file, warnings of the compiler, names that it registers) of a module, built in `folder`.

    name: what the module is called, if its source is a file.
    """
    shutil.rmtree(folder)
    folder.mkdir(mode=0o700)
    _copy(source, files, folder, name)
    built, warnings = compiling.make_module(kernel, folder, _readable(source, folder, name))
    return built, warnings, load(built)


def _copy(source: pathlib.Path, files: list[pathlib.Path], target: pathlib.Path, name: str) -> None:
    if source.is_file():
        shutil.copyfile(source, target / f"{name}.c")
        (target / "Kbuild").write_text(f"obj-m := {name}.o\n", encoding="utf-8")
        return
    for relative in files:
        (target / relative).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / relative, target / relative)


def _readable(source: pathlib.Path, folder: pathlib.Path, name: str) -> Callable[[str], str]:
    """What turns paths of the copy in `folder` into those the user knows."""
    if source.is_file():
        built = str(folder / f"{name}.c")
        return lambda text: text.replace(built, str(source)).replace(str(folder), str(source.parent))
    return lambda text: text.replace(str(folder), str(source))
