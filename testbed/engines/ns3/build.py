# SPDX-License-Identifier: GPL-2.0-only
"""The driver: compiled on first use, kept by the hash of its sources and the version of the library."""
from __future__ import annotations

import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Callable

from kernel.source import cache_dir
from testbed import PROJECT_DIR
from testbed.engines.base import Problem
from testbed.errors import EnvironmentProblem

SOURCES = PROJECT_DIR / "simulation" / "ns3"
_LIBRA = PROJECT_DIR / "kernel-modules" / "tcp_libra" / "libra_math.h"
_HEADERS = pathlib.Path("/usr/include/ns3")
_LIBRARIES = ("internet", "traffic-control", "network", "core")
#: ns-3's headers want a newer language from this version on, and do not compile with it before
_CXX20_FROM = (3, 41)


def problems() -> list[Problem]:
    """What is missing on this machine."""
    found = []
    if version() is None:
        found.append(Problem("ns-3's library is missing", "apt-get install libns3-dev"))
    if not shutil.which("g++"):
        found.append(Problem("g++ is missing, which compiles the ns-3 driver", "apt-get install g++"))
    return found


def version() -> tuple[int, int] | None:
    """The library's version such as (3, 37); None if it is not installed."""
    try:
        text = (_HEADERS / "version-defines.h").read_text(encoding="utf-8")
    except OSError:
        return None
    numbers = [re.search(rf"define NS3_VERSION_{part} (\d+)", text) for part in ("MAJOR", "MINOR")]
    if not all(numbers):
        return None
    major, minor = (int(number.group(1)) for number in numbers if number)
    return major, minor


def sources() -> list[pathlib.Path]:
    """All files that the driver is made of."""
    return [*sorted(SOURCES.glob("*.cc")), *sorted(SOURCES.glob("*.h")), _LIBRA]


def key() -> str:
    """Such as ns3-3.37-0123456789ab: version and hash of the sources."""
    digest = hashlib.sha256()
    for path in sources():
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    found = version()
    if found is None:
        raise EnvironmentProblem("ns-3's library is missing (apt-get install libns3-dev)")
    return f"ns3-{found[0]}.{found[1]}-{digest.hexdigest()[:12]}"


def driver() -> pathlib.Path:
    """Where the driver of these sources is kept, whether it is there or not."""
    return cache_dir() / "simulators" / key() / "driver"


def ensure(report: Callable[[str], None]) -> pathlib.Path:
    """The driver, compiled if it is not there. EnvironmentProblem if it does not compile."""
    target = driver()
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            report(f"building the ns-3 driver for {'.'.join(map(str, version() or ()))}, once (about 15 s)")
            part = target.with_suffix(".part")
            _compile(part)
            os.replace(part, target)
    return target


def _compile(target: pathlib.Path) -> None:
    standard = "gnu++20" if (version() or (0, 0)) >= _CXX20_FROM else "gnu++17"
    command = ["g++", f"-std={standard}", "-O2", "-w", "-o", str(target), str(SOURCES / "driver.cc"),
               *(f"-lns3-{name}" for name in _LIBRARIES)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    except FileNotFoundError:
        raise EnvironmentProblem("g++ is missing, which compiles the ns-3 driver (apt-get install g++)") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line.lower()] or done.stderr.splitlines()
        raise EnvironmentProblem(f"the ns-3 driver does not compile: {errors[0] if errors else 'g++ failed'}")
