# SPDX-License-Identifier: GPL-2.0-only
"""What the process of a run owes whoever started it."""
from __future__ import annotations

import ctypes
import pathlib
import shutil
import signal
import traceback

from testbed.core import ending
from testbed.core.errors import what_failed
from testbed.runs.engine import EngineBase, OnProgress
from testbed.runs.run import Job, Outcome, execute
from testbed.runs.store import Store

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """A worker ends, cleaning up, when the testbed is interrupted, terminated or killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ending.forget()                             # whoever forked this one may have been asked: it tells its workers

    def end(*_signal: object) -> None:
        raise ending.noted(SystemExit(143))

    for number in (signal.SIGTERM, signal.SIGHUP):
        if number == signal.SIGTERM or signal.getsignal(number) != signal.SIG_IGN:      # nohup
            signal.signal(number, end)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def carry_out(job: Job, engine: EngineBase, store: Store, shared_dir: pathlib.Path, cpu: int,
              tell: OnProgress) -> Outcome:
    """One run and how it ended, whatever goes wrong around it."""
    try:
        return execute(job, engine, store, shared_dir, cpu, tell)
    except OSError as problem:
        return Outcome(job.plan.id, error=f"{what_failed(problem)}{_room_left(store.runs)}")
    except Exception:
        return Outcome(job.plan.id, error="a bug in the testbed:\n" + traceback.format_exc())


def _room_left(folder: pathlib.Path) -> str:
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return ""
    return f" ({free >> 20} MB are free there)" if free < 1 << 28 else ""
