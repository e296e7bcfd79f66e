# SPDX-License-Identifier: GPL-2.0-only
"""Watching a guest kernel from outside: its progress, its virtual clock, and whether it stands still."""
import json
import os
import re
import signal
import subprocess
import time

from testbed.errors import RunFailed

#: CPU seconds that a guest may compute without its clock moving by a nanosecond: every event,
#: every look at the clock moves it, so that only an endless loop gets there
STALL_CPU_S = 20
#: wall seconds without progress, where its clock cannot be read or its clock moves but nothing else does
STALL_S = 300
#: how long the kernel may take to say where it was
_LAST_WORDS_S = 10


class Stalled(RunFailed):
    """The guest computes without end."""


def watch(process, system_map, work_dir, on_progress):
    """Return when `process` (a guest kernel) ends; on_progress(phase, t_us) at every change.

    Raises Stalled when virtual time stands still while CPU time runs; the kernel has then been made
    to write its stack into the log.
    """
    clock = _VirtualClock(process.pid, system_map)
    progress, since = None, time.monotonic()
    moved_at_cpu_s, moved_to_ns = 0.0, None
    while True:
        try:
            process.wait(timeout=0.2)
            return
        except subprocess.TimeoutExpired:
            pass
        now = _progress(work_dir)
        if now is not None and now != progress:
            progress, since = now, time.monotonic()
            on_progress(progress["phase"], progress["t_us"])
        time_ns = clock.read_ns()
        cpu_s = _cpu_s(process.pid)
        if time_ns != moved_to_ns or time_ns is None:
            moved_to_ns, moved_at_cpu_s = time_ns, cpu_s
        where = f"at {progress['t_us'] / 1e6:.0f} s ({progress['phase']})" if progress else "while starting"
        if cpu_s - moved_at_cpu_s > STALL_CPU_S:
            _ask_for_stack(process)
            raise Stalled(f"virtual time stands still {where}: the guest has computed for {STALL_CPU_S} s of CPU time without end")
        if time.monotonic() - since > STALL_S:
            _ask_for_stack(process)
            raise Stalled(f"no progress {where} for {STALL_S} s of wall time: something in the guest computes without end")


def _progress(work_dir):
    try:
        return json.loads((work_dir / "progress.json").read_text())
    except (OSError, ValueError):
        return None


def _cpu_s(pid):
    """CPU seconds used by a process and by the children it has waited for."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _ask_for_stack(process):
    """A fault signal from outside makes the kernel panic, and with that say in which function it is."""
    for fatal in (signal.SIGSEGV, signal.SIGFPE):
        try:
            process.send_signal(fatal)
            process.wait(timeout=_LAST_WORDS_S)
            return
        except subprocess.TimeoutExpired:
            continue


class _VirtualClock:
    """The guest kernel's time_travel_time, read from its memory; None where that is not possible."""

    def __init__(self, pid, system_map):
        self._path, self._address = f"/proc/{pid}/mem", None
        try:
            found = re.search(r"^([0-9a-f]+) \w time_travel_time$", system_map.read_text(), re.M)
        except OSError:
            found = None
        if found:
            self._address = int(found.group(1), 16)

    def read_ns(self):
        if self._address is None:
            return None
        try:
            with open(self._path, "rb", buffering=0) as memory:
                memory.seek(self._address)
                return int.from_bytes(memory.read(8), "little")
        except OSError:
            return None
