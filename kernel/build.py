# SPDX-License-Identifier: GPL-2.0-only
"""Configuring, building and caching the guest kernel."""
from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import glob
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kernel import configuration, crash, guest, host, patching, source as sources
from kernel.source import KernelError, NoSuchKernel

_HERE = pathlib.Path(__file__).parent
#: compiler calls and the like of a trimmed build, for the progress shown
_ABOUT_STEPS = 1250
_FIRST_BOOT_S = 120
#: the banner of a kernel ends up in its random number generator: the same for every build
_BUILD_ENVIRONMENT = {"KBUILD_BUILD_TIMESTAMP": "2024-11-17", "KBUILD_BUILD_USER": "testbed",
                      "KBUILD_BUILD_HOST": "testbed", "KBUILD_BUILD_VERSION": "1"}

#: jiffies per second that kernels can be built with, and the one of kernels that nobody asked anything else of
HZ = (100, 250, 300, 1000)
USUAL_HZ = 1000

#: what engines may want to know of a kernel: "seccomp": it can run its user space without ptrace; "dualpi2": it has
#: this queue; "accecn": its TCP does Accurate ECN (what its first boot has tried)
_OF_OPTIONS, _OF_CONFIG = {"seccomp": r"^seccomp="}, {"dualpi2": "CONFIG_NET_SCH_DUALPI2=y"}

#: specs of kernels that kernel/revisions.py has put into the cache begin so; their key follows
BUILT = "build:"
#: beside their work tree: the key of the build that it is at
STATE = "at"

Report = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A built guest kernel."""
    program: pathlib.Path        # the `linux` executable
    source_dir: pathlib.Path
    build_dir: pathlib.Path
    release: str
    source: str
    key: str
    config_sha256: str
    congestion_controls: tuple[str, ...]
    features: frozenset[str] = frozenset()     # what not every kernel has, see _OF_OPTIONS
    hz: int = USUAL_HZ
    options: tuple[str, ...] = ()              # what it was built with beyond uml.config: configuration.option_names()

    def make_command(self) -> list[str]:
        """make for this kernel, to be followed by its target."""
        return make_command(self.source_dir, self.build_dir)

    def make_reads(self) -> list[pathlib.Path]:
        """Folders that a build of a module has to read."""
        return [self.source_dir, self.build_dir]


def find(spec: str | None = None, hz: int = USUAL_HZ, options: Sequence[str] = ()) -> Kernel | None:
    """The built kernel for `spec` with so many jiffies per second and these options if it is in the cache, else None.

    A cache with kernels/given.json has one kernel, built elsewhere: it is that, whatever the spec.
    """
    given = _given()
    if given:
        return given
    if spec is not None and spec.startswith(BUILT):
        return _built(spec)
    try:
        name, identity = sources.identify(spec)
        return _load(build_dir(spec, identity, hz, options), name)
    except KernelError:
        return None


def ensure(spec: str | None = None, report: Report = print, hz: int = USUAL_HZ,
           options: Sequence[str] = ()) -> Kernel:
    """The kernel for `spec`, built if need be (some minutes). Raises KernelError.

    report(text) is called with what is being done; hz: jiffies per second, one of HZ; options: names of
    configuration.option_names().
    """
    options = configuration.ordered(options)
    spec = spec if _given() else sources.resolve(spec, report)
    built = find(spec, hz, options)
    if built:
        _note_use(built)
        return built
    if spec is not None and spec.startswith(BUILT):
        raise NoSuchKernel(f"--kernel {spec}: no such build in {sources.cache_dir()}; `testbed bisect` makes them")
    sources.look_up(spec, report)
    name, identity = sources.identify(spec)
    target = build_dir(spec, identity, hz, options)
    missing = sources.missing_tools()
    if missing:
        raise KernelError(f"to build a kernel, first: apt-get install {' '.join(p for _, p in missing)}")
    if re.search(r"[\s:]", str(sources.cache_dir())):
        raise KernelError(f"{sources.cache_dir()}: kernels are not built in folders with spaces or colons in their "
                          "names; set TESTBED_CACHE")
    with lock(report):
        built = _load(target, name)            # somebody else may have built it meanwhile
        if built:
            return built
        source_dir = _source_dir(spec, identity, options)
        if not source_dir.is_dir():
            source_dir.parent.mkdir(parents=True, exist_ok=True)
            fresh = source_dir.with_name(source_dir.name + ".unpatched")
            shutil.rmtree(fresh, ignore_errors=True)
            try:
                sources.fetch(spec, fresh, report)
                patching.put_all(fresh, report, options)
                os.replace(fresh, source_dir)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
        build_once(source_dir, target, report, hz, options)
    built = _load(target, name)
    if not built:
        raise KernelError(f"{target}: what was built has gone")
    return built


def _built(spec: str) -> Kernel | None:
    """A build in the cache, by its key; modules can be built for it while its work tree is still that commit's."""
    key = spec.removeprefix(BUILT)
    if not re.fullmatch(r"commit-[0-9a-f]{16}-[0-9a-f]{12}", key):
        return None
    found = _load(sources.cache_dir() / "kernels" / key, f"commit {key.split('-')[1]}")
    if found is None:
        return None
    folder = found.source_dir.parent
    try:
        at = (folder / STATE).read_text(encoding="utf-8")
    except (OSError, ValueError):
        at = ""
    return dataclasses.replace(found, build_dir=folder / "build") if at == key else found


def build_once(source_dir: pathlib.Path, build_dir: pathlib.Path, report: Report, hz: int = USUAL_HZ,
               options: Sequence[str] = ()) -> None:
    """Build a patched tree in a folder, new or of an earlier build of the same tree, and boot it. KernelError."""
    (build_dir / "testbed.json").unlink(missing_ok=True)
    _build(source_dir, build_dir, report, hz, options)
    report("booting it once")
    _describe(source_dir, build_dir, hz, options)


def build_dir(spec: str | None, identity: str, hz: int = USUAL_HZ, options: Sequence[str] = ()) -> pathlib.Path:
    """Where the build of `spec`, which has this identity, is or will be."""
    return build_dir_of(identity, sources.version_of(spec), hz, options)


def build_dir_of(identity: str, version: tuple[int, ...] | None, hz: int = USUAL_HZ,
                 options: Sequence[str] = ()) -> pathlib.Path:
    """A build is known by its source, configuration, patches and compiler. KernelError for unknown options.

    Where there is no compiler, whichever made one that is there: the newest of them.
    """
    kernels = sources.cache_dir() / "kernels"
    compilers = [subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=False).stdout] \
        if shutil.which("gcc") else [*_compilers_of(kernels.glob(f"{glob.escape(identity)}-*/.config")), ""]
    of_hz = [f"CONFIG_HZ={hz}"] if hz != USUAL_HZ else []
    before = [identity, configuration.CONFIG.read_text(), patching.digest(version, options)]
    after = [*of_hz, *configuration.fragments(options)]
    keys = [hashlib.sha256("\0".join([*before, compiler, *after]).encode()).hexdigest() for compiler in compilers]
    folders = [kernels / f"{identity}-{key[:12]}" for key in keys]
    return next((folder for folder in folders if folder.is_dir()), folders[-1])


def _compilers_of(configs: Iterable[pathlib.Path]) -> list[str]:
    """What the compilers of builds with these configurations said of their version, the newest first."""
    found = set()
    for path in configs:
        try:
            said = re.search(r"^CONFIG_GCC_VERSION=(\d+)$", path.read_text(encoding="utf-8"), re.M)
        except (OSError, ValueError):
            continue
        if said:
            found.add(int(said.group(1)))
    return [f"{number // 10_000}.{number // 100 % 100}.{number % 100}\n" for number in sorted(found, reverse=True)]


def _source_dir(spec: str | None, identity: str, options: Sequence[str]) -> pathlib.Path:
    """A patched tree is known by its source and patches."""
    return sources.cache_dir() / "sources" / f"{identity}-{patching.digest(sources.version_of(spec), options)[:8]}"


class Facts(NamedTuple):
    """What testbed.json says of a finished build."""
    source_dir: str
    release: str
    config_sha256: str
    congestion_controls: tuple[str, ...]
    features: tuple[str, ...]
    #: jiffies per second; older builds do not say what was usual
    hz: int
    #: that it was made with; older builds have none and do not say so
    options: tuple[str, ...]


def facts_of(build_dir: pathlib.Path) -> Facts | None:
    """What is known of a finished build, else None: also if its testbed.json is not whole."""
    try:
        said = json.loads((build_dir / "testbed.json").read_text(encoding="utf-8"))
        facts = Facts(said["source_dir"], said["release"], said["config_sha256"], tuple(said["congestion_controls"]),
                      tuple(said["features"]), said.get("hz", USUAL_HZ), tuple(said.get("options", ())))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    texts = (facts.source_dir, facts.release, facts.config_sha256, *facts.congestion_controls, *facts.features,
             *facts.options)
    return facts if all(isinstance(text, str) for text in texts) and isinstance(facts.hz, int) else None


def _load(build_dir: pathlib.Path, name: str) -> Kernel | None:
    facts = facts_of(build_dir)
    if not facts or not os.access(build_dir / "linux", os.X_OK):
        return None
    return Kernel(program=build_dir / "linux", source_dir=pathlib.Path(facts.source_dir), build_dir=build_dir,
                  release=facts.release, source=name, key=build_dir.name, config_sha256=facts.config_sha256,
                  congestion_controls=facts.congestion_controls, features=frozenset(facts.features), hz=facts.hz,
                  options=facts.options)


def write_given(built: Kernel, path: pathlib.Path) -> None:
    """The given.json of a cache that is to have this kernel only."""
    path.write_text(json.dumps({"key": built.key, "source": built.source}), encoding="utf-8")


def _given() -> Kernel | None:
    """The one kernel of a cache that was given it."""
    folder = sources.cache_dir() / "kernels"
    try:
        given = json.loads((folder / "given.json").read_text(encoding="utf-8"))
        return _load(folder / given["key"], given["source"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _note_use(built: Kernel) -> None:
    """For kernel/pruning.py: when a kernel was last wanted."""
    try:
        os.utime(built.build_dir / "testbed.json")
    except OSError:
        pass                                      # somebody else's cache


@contextlib.contextmanager
def lock(report: Report, name: str = "lock") -> Iterator[None]:
    """One build at a time per cache, of those that use the same name."""
    sources.cache_dir().mkdir(parents=True, exist_ok=True)
    with open(sources.cache_dir() / name, "a+", encoding="utf-8") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            f.seek(0)
            report(f"waiting for another build in {sources.cache_dir()} (process {f.read().strip() or 'unknown'})")
            fcntl.flock(f, fcntl.LOCK_EX)
        f.truncate(0)
        f.write(str(os.getpid()))
        f.flush()
        yield


def make_command(source_dir: pathlib.Path, build_dir: pathlib.Path) -> list[str]:
    """make for a guest kernel, to be followed by its target."""
    return ["make", "-C", str(source_dir), f"O={build_dir}", "ARCH=um"]


def make_environment() -> dict[str, str]:
    """Environment of a kernel build: nothing of the user's but where programs are."""
    keep = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "TMPDIR")}
    return {**keep, "LC_ALL": "C", **_BUILD_ENVIRONMENT}


def _build(source_dir: pathlib.Path, build_dir: pathlib.Path, report: Report, hz: int = USUAL_HZ,
           options: Sequence[str] = ()) -> None:
    build_dir.mkdir(parents=True, exist_ok=True)
    log_path = build_dir / "build.log"
    make = make_command(source_dir, build_dir)
    wanted = build_dir / "wanted.config"
    wanted.write_text(configuration.text(options))
    if hz != USUAL_HZ:
        make.append(f"KBUILD_KCONFIG={_kconfig(source_dir, build_dir, hz)}")
    with open(log_path, "w", encoding="utf-8") as log:
        configured = subprocess.run(make + ["allnoconfig", f"KCONFIG_ALLCONFIG={wanted}"], stdout=log,
                                    stderr=subprocess.STDOUT, env=make_environment(), check=False)
    if configured.returncode:
        raise KernelError(f"configuring failed, see {log_path}")
    configuration.check(build_dir / ".config", options, report)
    if hz != USUAL_HZ and f"CONFIG_HZ={hz}" not in (build_dir / ".config").read_text().splitlines():
        raise KernelError(f"this kernel refuses CONFIG_HZ={hz}")
    process = subprocess.Popen(make + [f"-j{os.cpu_count()}", "all"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", env=make_environment())
    steps, began = 0, time.monotonic()
    report(f"building the guest kernel, once for this source and machine (all output: {log_path})")
    try:
        with open(log_path, "a", encoding="utf-8") as log:
            for line in process.stdout or ():
                log.write(line)
                if re.match(r"  [A-Z]{2,}", line):
                    steps += 1
                    if steps % 25 == 0:
                        left_s = (time.monotonic() - began) * max(0, _ABOUT_STEPS / steps - 1)
                        report(f"building: {min(99, 100 * steps // _ABOUT_STEPS)} %, "
                               f"about {int(left_s) // 60}:{int(left_s) % 60:02d} left")
    except BaseException:
        process.terminate()
        raise
    finally:
        process.wait()
    if process.returncode:
        errors = [l for l in log_path.read_text().splitlines() if "error" in l.lower()][:5]
        raise KernelError(f"the kernel does not build; the log is {log_path}" + "".join("\n  " + e for e in errors))


def _kconfig(source_dir: pathlib.Path, build_dir: pathlib.Path, hz: int) -> pathlib.Path:
    """The tree's Kconfig with another default of HZ in front of its own, which is no matter of choice in arch/um."""
    path = build_dir / "Kconfig.hz"
    path.write_text(re.sub(r"^mainmenu .*$", lambda match: f"{match.group()}\n\nconfig HZ\n\tint\n\tdefault {hz}",
                           (source_dir / "Kconfig").read_text(), count=1, flags=re.M))
    return path


def _describe(source_dir: pathlib.Path, build_dir: pathlib.Path, hz: int, options: Sequence[str]) -> None:
    """Boot the kernel once: it works, and says what congestion controls it has."""
    config = (build_dir / ".config").read_bytes()
    with tempfile.TemporaryDirectory(prefix="testbed-uml-") as name:
        scratch = pathlib.Path(name)
        shutil.copyfile(_HERE / "first_boot.py", scratch / "init.py")
        log = guest.run_briefly(build_dir / "linux", scratch, ["init.py"], scratch, _FIRST_BOOT_S)
    if log is None:
        raise KernelError(f"the kernel was built, but its first boot did not end within {_FIRST_BOOT_S} s")
    match = re.search(r"^release (\S+)\ncongestion controls (.+)\nfeatures(.*)$", log, re.M)
    if not match:
        raise KernelError("the kernel was built but does not boot:\n" + (crash.describe(log) or log.strip()[-2000:])
                          + "".join(f"\n{message}; {fix}" for message, fix in host.problems()))
    facts = {"release": match.group(1), "congestion_controls": sorted(match.group(2).split()),
             "features": sorted([*_features(build_dir), *match.group(3).split()]), "hz": hz,
             "options": list(options),
             "config_sha256": hashlib.sha256(config).hexdigest(), "source_dir": str(source_dir)}
    temporary = build_dir / "testbed.json.part"
    temporary.write_text(json.dumps(facts, indent=1), encoding="utf-8")
    os.replace(temporary, build_dir / "testbed.json")


def _features(build_dir: pathlib.Path) -> list[str]:
    """What engines may want to know of a kernel, as its command-line options and its configuration tell."""
    done = subprocess.run([build_dir / "linux", "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60, check=False)
    config = (build_dir / ".config").read_text().splitlines()
    return [*(name for name, option in _OF_OPTIONS.items() if re.search(option, done.stdout + done.stderr, re.M)),
            *(name for name, line in _OF_CONFIG.items() if line in config)]
