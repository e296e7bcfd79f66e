# SPDX-License-Identifier: GPL-2.0-only
"""Watching a guest kernel from outside: its progress, its virtual clock, and whether it stands still."""
from __future__ import annotations

import contextlib
import os
import pathlib
import select
import signal
import subprocess
import time
import weakref
from collections.abc import Callable

from kernel import crash
from testbed.core.errors import RunFailed
from testbed.engines._arrivals import Arrivals
from testbed.engines._kernel_engine import Progress, read_progress
from testbed.runs.engine import OnProgress

#: CPU seconds that a guest may compute without its clock moving by a nanosecond: a loop that looks at the
#: clock or waits for anything moves it
STALL_CPU_S = 60
#: CPU seconds of a guest without a second of traffic done, while its clock moves: a loop in the kernel that
#: moves it by nanoseconds (cpu_relax) is one; the dearest network that was measured takes some 5 s
CREEP_CPU_S = 100
#: CPU seconds without progress in other phases, where a large network takes long; wall seconds in which the guest waits
#: and computes less than COMPUTES_S. While it has something to compute, the machine makes it wait, and that may last
STALL_S, COMPUTES_S = 300, 1
#: of the wall seconds between two looks, as many count: more have gone by where this process itself did not run, since
#: somebody stopped it (and most likely the guest, too)
MOST_BETWEEN_LOOKS_S = 5.0
#: wall seconds between two looks at a guest of which nothing is heard
LOOK_EVERY_S = 0.2
#: wall seconds that a kernel may go on after it has said that it has a bug: it may crash by itself, and say more
BUG_S = 2.0
#: wall seconds between two looks at all processes for the guest's, where the kernel has no list of children
LOOK_S = 5
#: how long the kernel may take to say where it was
_LAST_WORDS_S = 10
#: phases in which the guest says every second of virtual time that it has come that far
_PROGRESSING = ("traffic",)


class Stalled(RunFailed):
    """The guest computes without end."""


class Buggy(RunFailed):
    """The guest's kernel has said that it has a bug, and goes on or stands still."""


def watch(process: subprocess.Popen[bytes], system_map: pathlib.Path, work_dir: pathlib.Path, log_path: pathlib.Path,
          on_progress: OnProgress) -> None:
    """Return when `process` (a guest kernel) ends; on_progress(phase, t_us) at every change.

    Raises Stalled when virtual time stands still or creeps while CPU time runs; the kernel has then been
    made to write its stack into the log. Raises Buggy soon after a line of the log says that it has a bug.
    """
    clock, cpu, news = _VirtualClock(process.pid, system_map), _CpuTime(process.pid), _News(process, work_dir)
    bugs = _Bugs(log_path)
    progress, since_cpu_s = None, 0.0
    moved_at_cpu_s, moved_to_ns = 0.0, None
    idle_s, computed_s, looked, ended = 0.0, 0.0, time.monotonic(), False
    while True:
        now, before, looked = read_progress(work_dir), looked, time.monotonic()
        if not cpu.wanted():
            idle_s += min(looked - before, MOST_BETWEEN_LOOKS_S)
        cpu_s = cpu.read_s()
        if now is not None and now != progress:
            progress, since_cpu_s, idle_s, computed_s = now, cpu_s, 0.0, cpu_s
            on_progress(progress.phase, progress.t_us)
        if ended:
            return
        if cpu_s - computed_s > COMPUTES_S:
            idle_s, computed_s = 0.0, cpu_s
        if bugs.found() and looked - bugs.since > BUG_S:
            raise Buggy(f"the guest kernel has a bug {_where(progress)}")
        time_ns = clock.read_ns()
        if time_ns != moved_to_ns or time_ns is None:
            moved_to_ns, moved_at_cpu_s = time_ns, cpu_s
        where = _where(progress)
        trouble = None
        if cpu_s - moved_at_cpu_s > STALL_CPU_S:
            trouble = f"virtual time stands still {where}: the guest has computed for {STALL_CPU_S} s of CPU time " \
                      "without end"
        elif progress and progress.phase in _PROGRESSING and cpu_s - since_cpu_s > CREEP_CPU_S:
            trouble = f"virtual time creeps {where}: the guest has computed for {CREEP_CPU_S} s of CPU time " \
                      "without progress"
        elif cpu_s - since_cpu_s > STALL_S:
            trouble = f"no progress {where} for {STALL_S} s of CPU time: something in the guest computes without end"
        elif idle_s > STALL_S:
            trouble = f"no progress {where} for {STALL_S} s of wall time, in which the guest has computed nothing: " \
                      "it waits for what does not come"
        if trouble:
            _ask_for_stack(process)
            raise Stalled(trouble)
        ended = news.ended_within(LOOK_EVERY_S)


def last_words(log_path: pathlib.Path, lines_of: Callable[[str], str] = lambda place: "") -> str:
    """Where the kernel was when it was made to stop, as lines to add to a message."""
    log = log_path.read_bytes().decode("utf-8", "replace")
    if program := crash.program_running(log):
        return f": it is the program {program}, in a loop without a system call"
    wrong = crash.describe(log, lines_of)
    if not wrong:
        return ""
    first, *calls = wrong.splitlines()
    # it is made to panic to say where it is; what went wrong before that it says by itself
    said = "" if first.startswith("Kernel panic") else f"; before that the kernel said: {first}"
    return f"{said}:\n  " + "\n  ".join(calls)


def _where(progress: Progress | None) -> str:
    return f"at {progress.t_us / 1e6:.0f} s ({progress.phase})" if progress else "while starting"


class _Bugs:
    """Whether a log that grows says that the kernel has a bug."""

    def __init__(self, log_path: pathlib.Path) -> None:
        self._path, self._size = log_path, 0
        self.since = 0.0

    def found(self) -> bool:
        """Reads the log only where it has grown; since: when it was found."""
        with contextlib.suppress(FileNotFoundError):        # it has said nothing yet
            if not self.since and (size := os.stat(self._path).st_size) > self._size:
                # whole, since lines may come in parts; a kernel says little as long as all is well
                self._size = size
                if crash.bug(self._path.read_bytes().decode("utf-8", "replace")):
                    self.since = time.monotonic()
        return self.since > 0


class _News:
    """The end of a process and files that it completes in a folder, noticed when they come: between looks a phase may
    be over, and subprocess looks for an end every 50 ms, which a run of two seconds feels."""

    def __init__(self, process: subprocess.Popen[bytes], folder: pathlib.Path) -> None:
        self._process = process
        self._poll = select.poll()
        try:
            self._fd = os.pidfd_open(process.pid)
        except OSError:                         # before Linux 5.3
            self._fd = -1
            return
        self._poll.register(self._fd, select.POLLIN)
        weakref.finalize(self, os.close, self._fd)
        self._arrivals = Arrivals(folder)
        if self._arrivals.fd >= 0:
            self._poll.register(self._arrivals.fd, select.POLLIN)

    def ended_within(self, seconds: float) -> bool:
        """Whether the process has ended when this returns: when it ends, when a file has come, or after a time."""
        if self._fd >= 0:
            found = {fd for fd, _ in self._poll.poll(1000 * seconds)}
            if self._arrivals.fd in found:
                self._arrivals.forget()
            if self._fd not in found:
                return False
        try:
            self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        return True


class _CpuTime:
    """CPU seconds used by a process and by its children: those it has waited for, and those that run; and whether they
    want more."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._children: list[int] = []
        self._looked: float | None = None

    def read_s(self) -> float:
        ticks = _cpu_ticks(self._pid, children=True) + sum(_cpu_ticks(child, children=False)
                                                           for child in self._find_children())
        return ticks / os.sysconf("SC_CLK_TCK")

    def wanted(self) -> bool:
        """Whether one of them would compute if the machine let it: it is ready to, waits for a disk, or was stopped."""
        return any(_stat(pid)[:1] in (["R"], ["D"], ["T"]) for pid in (self._pid, *self._children))

    def _find_children(self) -> list[int]:
        try:
            with open(f"/proc/{self._pid}/task/{self._pid}/children", encoding="ascii") as file:
                self._children = [int(child) for child in file.read().split()]
                return self._children
        except OSError:
            pass                                # a kernel without this list: all processes have to be looked at
        now = time.monotonic()
        if self._looked is None or now - self._looked > LOOK_S:
            self._looked = now
            self._children = [int(path.name) for path in pathlib.Path("/proc").glob("[1-9]*")
                              if _parent(path) == self._pid]
        return self._children


def _parent(process: pathlib.Path) -> int:
    fields = _stat(int(process.name))
    return int(fields[1]) if fields else 0


def _cpu_ticks(pid: int, children: bool) -> int:
    return sum(map(int, _stat(pid)[11:15] if children else _stat(pid)[11:13]))


def _stat(pid: int) -> list[str]:
    """Of a process: its state, its parent and so on (proc(5), from the third field); nothing if it has gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _ask_for_stack(process: subprocess.Popen[bytes]) -> None:
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

    def __init__(self, pid: int, system_map: pathlib.Path) -> None:
        self._path = f"/proc/{pid}/mem"
        self._address: int | None = None
        # lines "address kind name", 1.3 MB of them: a regular expression looks for the name ten times as long
        with contextlib.suppress(OSError, ValueError):
            symbols = system_map.read_bytes()
            end = symbols.index(b" time_travel_time\n")
            self._address = int(symbols[symbols.rfind(b"\n", 0, end) + 1:end].split()[0], 16)

    def read_ns(self) -> int | None:
        if self._address is None:
            return None
        try:
            with open(self._path, "rb", buffering=0) as memory:
                memory.seek(self._address)
                return int.from_bytes(memory.read(8), "little")
        except OSError:
            return None
