# SPDX-License-Identifier: GPL-2.0-only
"""Can this machine run User-Mode Linux? Hosts differ, containers most of all.

    problems(memory_mb)    what keeps a guest from starting here, and what to do; each found by trying it
    facts()                what does not keep it from starting, but may matter afterwards
"""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import TypedDict

from kernel import guest, launch
from kernel.source import KernelError, cache_dir

_PROBE = [sys.executable, "-I", "-S", str(pathlib.Path(__file__).with_name("host_probe.py"))]
#: what a guest takes of a container's allowance before it has done anything
_LEAST_MEMORY_MB, _LEAST_PROCESSES = 400, 64
_CGROUPS, _OWN_CGROUPS = pathlib.Path("/sys/fs/cgroup"), pathlib.Path("/proc/self/cgroup")

_IN_CONTAINER = "in a container, start it with --cap-add=SYS_PTRACE --security-opt seccomp=unconfined; " \
                "gVisor and the like cannot"
_FIXES = {
    "ptrace": f"sysctl kernel.yama.ptrace_scope must be below 3; {_IN_CONTAINER}",
    "sysemu": f"the host's kernel must offer PTRACE_SYSEMU; {_IN_CONTAINER}",
    "registers": f"the host's kernel must offer PTRACE_GETREGSET; {_IN_CONTAINER}",
    "memory": "the limits of this shell (ulimit -v) and vm.overcommit_memory must allow it",
    "executable": "mount it without noexec, or set TESTBED_GUEST_MEMORY_DIR to a folder on a tmpfs without noexec",
    "low_addresses": "sysctl vm.mmap_min_addr=65536",
}


def problems(memory_mb: int = 64) -> list[tuple[str, str]]:
    """[(what is the matter, what to do)] for a guest with this much memory; empty if one can be started."""
    if os.uname().machine != "x86_64":
        return [(f"User-Mode Linux needs x86_64, this is {os.uname().machine}", "use another machine or engine")]
    found = _cache_problems() + _cgroup_problems()
    try:
        memory = guest.memory_dir(memory_mb)
    except KernelError as problem:
        return [*found, (str(problem), "free some space there (in a container: --shm-size=2g), or set "
                                       "TESTBED_GUEST_MEMORY_DIR to a folder on a tmpfs with room")]
    said = _probe(memory, memory_mb)
    found += [(f"{what}: {message}", _FIXES[what]) for what, message in said["problems"].items()]
    return found


class Facts(TypedDict):
    """landlock: its version, 0 without; fixed_addresses: whether processes may have them."""
    landlock: int
    fixed_addresses: bool


class _Said(TypedDict):
    """Of host_probe.py; problems: {what: message}"""
    problems: dict[str, str]
    fixed_addresses: bool


def facts() -> Facts:
    """What a run's environment.json should say of this machine."""
    return {"landlock": launch.landlock_version(), "fixed_addresses": _personality_works()}


def _personality_works() -> bool:
    """Known once the host was probed: that is a process of 25 ms, and each run asks."""
    if tuple(_PROBE) not in _fixed_addresses:
        _probe("", 0)
    return _fixed_addresses[tuple(_PROBE)]


#: {command that probes: what it said}
_fixed_addresses: dict[tuple[str, ...], bool] = {}


def _probe(memory: str, memory_mb: int) -> _Said:
    """What host_probe.py found, in a process of its own: some of it can end in a signal."""
    done = subprocess.run([*_PROBE, memory, str(memory_mb)], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          check=False, timeout=60)
    try:
        said: _Said = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        said = {"problems": {"ptrace": f"trying it ends with {last}"}, "fixed_addresses": False}
    _fixed_addresses[tuple(_PROBE)] = bool(said["fixed_addresses"])
    return said


def _cache_problems() -> list[tuple[str, str]]:
    """The kernel is a program in the cache."""
    folder = cache_dir()
    while not folder.exists():
        folder = folder.parent
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return [(f"{folder} is mounted noexec, and the guest kernel is a program in {cache_dir()}",
                 "set TESTBED_CACHE to a folder that allows programs")]
    return []


def _cgroup_problems() -> list[tuple[str, str]]:
    found = []
    free_mb = _least_left("memory.max", "memory.current",
                          "memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")
    if free_mb is not None and free_mb >> 20 < _LEAST_MEMORY_MB:
        found.append((f"the control group this runs in has {free_mb >> 20} MB of memory left, a guest needs "
                      f"{_LEAST_MEMORY_MB}", "raise the container's or the unit's memory limit"))
    free = _least_left("pids.max", "pids.current", "pids/pids.max", "pids/pids.current")
    if free is not None and free < _LEAST_PROCESSES:
        found.append((f"the control group this runs in may start {free} more processes, a guest needs "
                      f"{_LEAST_PROCESSES}",
                      "raise the container's or the unit's limit of processes (TasksMax)"))
    return found


def _least_left(limit: str, used: str, limit_v1: str, used_v1: str) -> int | None:
    """What a resource's limits leave in this control group and those above it; None if there is no limit."""
    left = []
    try:
        lines = _OWN_CGROUPS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and limit_v1.partition("/")[0] not in controllers.split(","):
            continue
        root, names = (_CGROUPS, (limit, used)) if not controllers else \
            (_CGROUPS / limit_v1.partition("/")[0], (pathlib.Path(limit_v1).name, pathlib.Path(used_v1).name))
        folder = root / path.lstrip("/")
        for place in (folder, *folder.parents):
            try:
                most, taken = (int((place / name).read_text(encoding="utf-8")) for name in names)
            except (OSError, ValueError):               # "max", or no such file: no limit here
                most = taken = 0
            if most and most < 1 << 60:
                left.append(most - taken)
            if place == root:
                break
    return min(left) if left else None
