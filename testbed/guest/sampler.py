# SPDX-License-Identifier: GPL-2.0-only
"""Calling every probe at its deadlines."""
import heapq
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from traffic.clock import now_ns


def run(samplers: Sequence[Any], t0_ns: int, duration_us: int, every_second: Callable[[int], None]) -> dict[int, int]:
    """Sample from t0 to t0 + duration at absolute deadlines: a late sample delays no other.

    samplers: objects with interval_us and sample(t_us); every_second(t_us) is called once a
    second of experiment time. Returns {sampler index: largest lateness in us}.
    """
    heap = [(0, number) for number in range(len(samplers))]
    heap.append((0, -1))
    heapq.heapify(heap)
    lateness_us = dict.fromkeys(range(len(samplers)), 0)
    settled = False
    while heap:
        due_us, number = heap[0]
        if due_us > duration_us:
            return lateness_us
        wait_ns = t0_ns + due_us * 1000 - now_ns()
        if wait_ns > 0:
            time.sleep(wait_ns / 1e9)
        if due_us == duration_us and not settled:
            _settle()
            settled = True
        t_us = (now_ns() - t0_ns) // 1000
        if number < 0:
            every_second(t_us)
            heapq.heapreplace(heap, (due_us + 1_000_000, number))
        else:
            samplers[number].sample(t_us)
            lateness_us[number] = max(lateness_us[number], t_us - due_us)
            heapq.heapreplace(heap, (due_us + samplers[number].interval_us, number))
    return lateness_us


def _settle() -> None:
    """Let the kernel finish what it has put off at this instant.

    A packet whose timer expires in the same step of the clock as ours is moved by a soft interrupt, which waits for the
    process that is awake: it would move between two samples, and the last rows would not agree with the counters.
    """
    for _ in range(3):
        os.sched_yield()
