# SPDX-License-Identifier: GPL-2.0-only
"""How a guest ended: UML's own exit code is 0 either way."""
from __future__ import annotations

import os
import pathlib
import signal

from kernel import crash, host
from testbed.engines.kernel_engine import read_status
from testbed.errors import RunFailed


def check(returncode: int, work_dir: pathlib.Path, log_path: pathlib.Path, memory: str) -> dict[str, object]:
    """What the guest said at its end; RunFailed unless that was that all went well."""
    log = log_path.read_bytes().decode("utf-8", "replace")
    trouble = crash.describe(log)
    status = read_status(work_dir)
    if status and not (trouble and "Kernel panic" in trouble):
        if status["ok"]:
            return status
        raise RunFailed(f"inside the guest: {status['error']}")
    for folder in (memory, str(work_dir)):              # then neither pages nor status nor log could be written
        room = os.statvfs(folder)
        if room.f_bavail * room.f_frsize < 1 << 20:
            raise RunFailed(f"No space left on device: {folder}")
    if trouble:
        raise RunFailed("the guest kernel crashed: " + trouble.replace("\n", "\n  "))
    if returncode < 0:
        raise RunFailed(f"the guest kernel was killed by {signal.Signals(-returncode).name}")
    last = "\n  ".join(log.splitlines()[-10:])
    raise RunFailed(f"the guest kernel ended with status {returncode} before its job was done"
                    + "".join(f"; {message} ({fix})" for message, fix in host.problems())
                    + (f"; its last words:\n  {last}" if last else ""))


def last_words(log_path: pathlib.Path) -> str:
    """Where the kernel was when it was made to stop, as lines to add to a message."""
    log = log_path.read_bytes().decode("utf-8", "replace")
    if program := crash.program_running(log):
        return f": it is the program {program}, in a loop without a system call"
    trouble = crash.describe(log)
    return ":\n  " + "\n  ".join(trouble.splitlines()[1:]) if trouble else ""
