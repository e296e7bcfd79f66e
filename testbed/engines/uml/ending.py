# SPDX-License-Identifier: GPL-2.0-only
"""How a guest ended: UML's own exit code is 0 either way."""
from __future__ import annotations

import os
import pathlib
import re
import signal
from collections.abc import Callable

from kernel import crash, host
from testbed.core.errors import EnvironmentProblem, RunFailed
from testbed.engines._kernel_engine import Status, read_status

#: of a kernel or a process 1 whose memory had no page behind it: the folder it lies in was full
_BUS_ERROR = re.compile(r"Bus error - the host|Kernel mode signal 7\b|exitcode=0x00000007\b")
#: of a program in the guest
_KILLED_BY_IT = re.compile(r"ended with status -7\b")
#: mm/oom_kill.c
_OUT_OF_MEMORY = re.compile(r"Out of memory: Killed process \d+ \([^)\n]*\)")


#: lines_of: the line of source of a place in a module (kernel/source_lines.py)
_Lines = Callable[[str], str]


def _no_lines(place: str) -> str:
    return ""


def check(returncode: int, work_dir: pathlib.Path, log_path: pathlib.Path, memory: str,
          lines_of: _Lines = _no_lines) -> Status:
    """What the guest said at its end; RunFailed unless that was that all went well,
    EnvironmentProblem where a folder was full."""
    log = log_path.read_bytes().decode("utf-8", "replace")
    wrong = crash.describe(log, lines_of)
    status = read_status(work_dir)
    if status and status.ok and crash.bug(log):
        raise RunFailed(f"the guest kernel has a bug, and what it did after that is worth nothing: {_indented(wrong)}")
    if status and not (wrong and re.match("Kernel (panic|mode signal)", wrong)):
        if status.ok:
            return status
        why = f"; most likely {_full(memory)}" if _KILLED_BY_IT.search(status.error) else ""
        if killed := _OUT_OF_MEMORY.search(log):
            why += f"; the guest's memory was full: {killed[0]}"
        raise RunFailed(f"inside the guest: {status.error}{why}")
    # then neither pages nor status nor log could be written; what the guest had of its memory is free again
    if _BUS_ERROR.search(log) or _free_bytes(memory) < 1 << 20:
        raise EnvironmentProblem(_full(memory))
    if _free_bytes(str(work_dir)) < 1 << 20:
        raise EnvironmentProblem(f"No space left on device: {work_dir}")
    if wrong:
        raise RunFailed(f"the guest kernel crashed: {_indented(wrong)}")
    if returncode < 0:
        place = crash.place(log) or crash.full_stack(log)
        raise RunFailed(f"the guest kernel was killed by {signal.Signals(-returncode).name}"
                        + (f" in {place}{lines_of(place)}" if place else "")
                        + ("" if returncode != -signal.SIGSEGV else
                           "; its stack was full: a recursion, or large local arrays" if crash.full_stack(log) else
                           "; a full stack is one reason: a recursion, or large local arrays"))
    last = "\n  ".join(log.splitlines()[-10:])
    raise RunFailed(f"the guest kernel ended with status {returncode} before its job was done"
                    + "".join(f"; {message} ({fix})" for message, fix in host.problems())
                    + (f"; its last words:\n  {last}" if last else ""))


def trouble(log_path: pathlib.Path, lines_of: _Lines = _no_lines) -> str:
    """The first thing that went wrong in a log, as lines behind a message."""
    return _indented(crash.describe(log_path.read_bytes().decode("utf-8", "replace"), lines_of))


def _indented(trouble: str | None) -> str:
    return (trouble or "").replace("\n", "\n  ")


def _free_bytes(folder: str) -> int:
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize


def _full(memory: str) -> str:
    return (f"the folder of the guest's memory was full: {memory} ({_free_bytes(memory) >> 20} MB are free now that "
            "the guest has ended): free some space there, make fewer runs at a time (--jobs), or set "
            "TESTBED_GUEST_MEMORY_DIR to a folder on a tmpfs with room")
