# SPDX-License-Identifier: GPL-2.0-only
"""How late timers fire on this machine: what token buckets must hold so that a link reaches its rate."""
from __future__ import annotations

import ctypes
import math
import time

_PR_SET_TIMERSLACK, _PR_GET_TIMERSLACK = 29, 30
_TRIALS, _SLEEP_NS = 300, 1_000_000


def lateness_us() -> list[int]:
    """How late each of some hundred sleeps of a millisecond ended, in us, the shortest first (takes 0.3 s)."""
    libc = ctypes.CDLL(None)
    before = libc.prctl(_PR_GET_TIMERSLACK, 0, 0, 0, 0)
    libc.prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)      # the kernel may otherwise wait 50 us for others
    try:
        late = []
        for _ in range(_TRIALS):
            due_ns = time.monotonic_ns() + _SLEEP_NS
            time.sleep(_SLEEP_NS / 1e9)
            late.append(max(0, math.ceil((time.monotonic_ns() - due_ns) / 1000)))
    finally:
        libc.prctl(_PR_SET_TIMERSLACK, before, 0, 0, 0)
    return sorted(late)


def period_us(late: list[int]) -> int:
    """What 99 of 100 timers are not later than."""
    return late[math.ceil(len(late) * 0.99) - 1]
