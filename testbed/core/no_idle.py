# SPDX-License-Identifier: GPL-2.0-only
"""CPUs that never idle, for machines whose clock counts instructions (QEMU's -icount; docs/howto/vagrant.md).

While such a machine idles, its clock follows the host's, timers that are late there included. While it computes,
its clock is exact. A process on each CPU that has the lowest of priorities keeps it computing: whatever else wants
the CPU gets it at once.
"""
import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
from collections.abc import Iterator

#: what provisioning writes about a virtual machine (provision/vm.sh)
MACHINE = pathlib.Path("/etc/tcp-testbed-vm")
_COUNTS_INSTRUCTIONS = "clock: instructions"
_LOOP = ["/bin/sh", "-c", "while :; do :; done"]
_LEAST_NICE = 19
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)
_pids: dict[int, int] = {}


def wanted(machine: pathlib.Path = MACHINE) -> bool:
    """Whether this machine's clock counts instructions."""
    return machine.exists() and _COUNTS_INSTRUCTIONS in machine.read_text(encoding="utf-8").splitlines()


@contextlib.contextmanager
def prevent_idle(wanted: bool) -> Iterator[None]:
    """Keep all CPUs that this process may use from idling, if wanted."""
    processes = []
    try:
        for cpu in sorted(os.sched_getaffinity(0)) if wanted else []:
            process = subprocess.Popen(_LOOP, preexec_fn=lambda cpu=cpu: _settle(cpu))      # type: ignore[misc]
            processes.append(process)
            _pids[cpu] = process.pid
        yield
    finally:
        _pids.clear()
        for process in processes:
            process.kill()
            process.wait()


def pids() -> dict[int, int]:
    """{CPU: process that keeps it from idling}; empty where nothing does."""
    return dict(_pids)


def _settle(cpu: int) -> None:
    """On that CPU, when nobody else wants it, and no longer than whoever started this."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.sched_setaffinity(0, {cpu})
    os.setpriority(os.PRIO_PROCESS, 0, _LEAST_NICE)     # /proc/stat then counts it apart from other programs
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
