# SPDX-License-Identifier: GPL-2.0-only
"""Configuring a patched tree, compiling it, booting the kernel once, and what is written down of it."""
from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kernel import configuration, crash, guest, host, source as sources
from kernel.source import KernelError

_HERE = pathlib.Path(__file__).parent
#: compiler calls and the like of a whole build, for the progress shown
_ABOUT_STEPS = 1250
_SHOWN_EVERY_STEPS = 25
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

Report = Callable[[str], None]


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


@contextlib.contextmanager
def lock(report: Report, name: str = "") -> Iterator[None]:
    """One command at a time does what has this name; what has none waits until nothing else is done, and holds it up.
    """
    cache = sources.cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        _take(held, cache / "lock", not name, report)
        if name:
            (cache / "locks").mkdir(exist_ok=True)
            _take(held, cache / "locks" / name, True, report)
        yield


def try_lock(name: str) -> contextlib.ExitStack | None:
    """The same without waiting: to be closed in the end; None if somebody else has it."""
    folder = sources.cache_dir() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    held = contextlib.ExitStack()
    file = held.enter_context(open(folder / name, "a+", encoding="utf-8"))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.close()
        return None
    return held


def _take(held: contextlib.ExitStack, path: pathlib.Path, alone: bool, report: Report) -> None:
    file = held.enter_context(open(path, "a+", encoding="utf-8"))
    how = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        who = file.read().strip()
        report(f"waiting for another build in {sources.cache_dir()}" + (f" (process {who})" if who else ""))
        fcntl.flock(file, how)
    if alone:
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()


def build_once(source_dir: pathlib.Path, build_dir: pathlib.Path, report: Report, hz: int = USUAL_HZ,
               options: Sequence[str] = ()) -> None:
    """Build a patched tree in a folder, new or of an earlier build of the same tree, and boot it. KernelError."""
    (build_dir / "testbed.json").unlink(missing_ok=True)
    build_dir.mkdir(parents=True, exist_ok=True)
    _build(source_dir, build_dir, report, hz, options)
    report("booting it once")
    _describe(source_dir, build_dir, hz, options)


def make_command(source_dir: pathlib.Path, build_dir: pathlib.Path) -> list[str]:
    """make for a guest kernel, to be followed by its target."""
    return ["make", "-C", str(source_dir), f"O={build_dir}", "ARCH=um"]


def make_environment() -> dict[str, str]:
    """Environment of a kernel build: nothing of the user's but where programs are."""
    keep = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "TMPDIR")}
    return {**keep, "LC_ALL": "C", **_BUILD_ENVIRONMENT}


def _build(source_dir: pathlib.Path, build_dir: pathlib.Path, report: Report, hz: int = USUAL_HZ,
           options: Sequence[str] = ()) -> None:
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
    is_first = not (build_dir / "System.map").exists()
    process = subprocess.Popen(make + [f"-j{os.cpu_count()}", "all"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", env=make_environment())
    steps, began = 0, time.monotonic()
    report("building the guest kernel, once for this source and machine: 2 to 4 minutes on two cores "
           f"(all output: {log_path})" if is_first else f"building what changed (all output: {log_path})")
    try:
        with open(log_path, "a", encoding="utf-8") as log:
            for line in process.stdout or ():
                log.write(line)
                if re.match(r"  [A-Z]{2,}", line):
                    steps += 1
                    if steps % _SHOWN_EVERY_STEPS == 0:
                        report(_progress(steps, time.monotonic() - began) if is_first else
                               f"building what changed: {steps} steps done")
    except BaseException:
        process.terminate()
        raise
    finally:
        process.wait()
    if process.returncode:
        lines = log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        # of more than one line, some who show it have room for the first
        first = next((f": {line.strip()}" for line in lines if " error: " in line), "")
        errors = [line for line in lines if "error" in line.lower()][:5]
        raise KernelError(f"the kernel does not build{first}; the log is {log_path}"
                          + "".join(f"\n  {error}" for error in errors))


def _progress(steps: int, past_s: float) -> str:
    left_s = int(past_s * max(0, _ABOUT_STEPS / steps - 1))
    return f"building: {min(99, 100 * steps // _ABOUT_STEPS)} %, about {left_s // 60}:{left_s % 60:02d} left"


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
