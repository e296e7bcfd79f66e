# SPDX-License-Identifier: GPL-2.0-only
"""The driver: compiled on first use, kept by the hash of its sources and what it is linked with."""
from __future__ import annotations

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable

from kernel.source import cache_dir
from testbed import PROJECT_DIR
from testbed.core.errors import EnvironmentProblem
from testbed.engines.ns3 import installation
from testbed.engines.ns3.installation import Installation
from testbed.runs.engine import Problem

SOURCES = PROJECT_DIR / "simulation" / "ns3"
_LIBRA = PROJECT_DIR / "kernel-modules" / "tcp_libra" / "libra_math.h"


def problems(option: str | None) -> list[Problem]:
    """What is missing on this machine. UsageError if `--ns3` names no ns-3."""
    found = []
    if (installation.system() if option is None else installation.find(option)) is None:
        found.append(Problem("ns-3's library is missing", "apt-get install libns3-dev"))
    if not shutil.which("g++"):
        found.append(Problem("g++ is missing, which compiles the ns-3 driver", "apt-get install g++"))
    return found


def sources() -> list[pathlib.Path]:
    """All files that the driver is made of."""
    return [*sorted(SOURCES.glob("*.cc")), *sorted(SOURCES.glob("*.h")), _LIBRA]


def key(ns3: Installation) -> str:
    """Such as ns3-3.37-0123456789ab: version and hash of the sources; of an ns-3 of the user's own, its hash, too."""
    digest = hashlib.sha256()
    for path in sources():
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    own = "" if ns3.path == installation.SYSTEM else f"-{ns3.sha256[:12]}"
    return f"ns3-{ns3.version[0]}.{ns3.version[1]}-{digest.hexdigest()[:12]}{own}"


def driver(ns3: Installation) -> pathlib.Path:
    """Where the driver of these sources is kept, whether it is there or not."""
    return cache_dir() / "simulators" / key(ns3) / "driver"


def ensure(ns3: Installation, report: Callable[[str], None]) -> pathlib.Path:
    """The driver, compiled if it is not there. EnvironmentProblem if it does not compile."""
    target = driver(ns3)
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            report(f"building the ns-3 driver for {'.'.join(map(str, ns3.version))}, once (about 15 s)")
            part = target.with_suffix(".part")
            _compile(ns3, part)
            os.replace(part, target)
    return target


def _compile(ns3: Installation, target: pathlib.Path) -> None:
    command = ["g++", "-O2", "-w", "-o", str(target), str(SOURCES / "driver.cc"), *ns3.options]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    except FileNotFoundError:
        raise EnvironmentProblem("g++ is missing, which compiles the ns-3 driver (apt-get install g++)") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line.lower()] or done.stderr.splitlines()
        raise EnvironmentProblem(f"the ns-3 driver does not compile: {errors[0] if errors else 'g++ failed'}")
