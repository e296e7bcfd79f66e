# SPDX-License-Identifier: GPL-2.0-only
"""Before all others that wait for a CPU: whoever measures must not wait for what he measures."""
import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def urgent(wanted: bool) -> Iterator[None]:
    """If wanted, this thread gets a CPU at once (SCHED_FIFO) whenever it wakes; processes and threads it starts do not.

    Needs CAP_SYS_NICE. In virtual time computing takes no time, but programs that end at the instant of a sample may
    look at the clock so often that it moves on (kernel/patches/0006).
    """
    if not wanted:
        yield
        return
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)
