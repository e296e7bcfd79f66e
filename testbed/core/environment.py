# SPDX-License-Identifier: GPL-2.0-only
"""What a run took place in, besides its engine: this machine, its packages, this code."""
from __future__ import annotations

import functools
import os
import pathlib
import platform
import subprocess

from testbed import PROJECT_DIR, __version__

_PACKAGES = ("mininet", "iproute2", "iperf3", "python3", "libc6", "gnuplot-nox", "python3-pandas", "python3-numpy",
             "python3-scipy")


def this_machine() -> dict[str, object]:
    """Versions of programs and code, and the machine's kernel, as environment.json has them.

    Packages and git are asked once for each process: what they say is 50 ms of CPU time.
    """
    return {"testbed_version": __version__, "code_version": code_version(), "machine": platform.machine(),
            "host": platform.node(), "host_kernel": platform.release(), "cpus": os.cpu_count(),
            "python": platform.python_version(), "packages": _package_versions()}


def available_memory_mb() -> int:
    """What the machine can give at this moment."""
    for line in pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20


@functools.cache
def code_version() -> str:
    """git's description of the checkout; of an image or an installed copy what they were made from; else 'unknown'."""
    noted = PROJECT_DIR / "code-version.txt"
    if noted.is_file():
        return noted.read_text(encoding="utf-8").strip() or "unknown"
    command = ["git", "-C", str(PROJECT_DIR), "describe", "--always", "--dirty", "--abbrev=12"]
    return _output(command).strip() or "unknown"


@functools.cache
def _package_versions() -> dict[str, str]:
    words = _output(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *_PACKAGES])
    return dict(line.split(" ", 1) for line in words.splitlines() if " " in line)


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""
