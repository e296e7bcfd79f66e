# SPDX-License-Identifier: GPL-2.0-only
"""Calling every probe at its deadlines."""
import heapq
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from traffic.io.clock import now_ns


class Sampled(Protocol):
    """What is called every interval_us; it may have a sample_until, too (testbed/probes/__init__.py)."""

    @property
    def interval_us(self) -> int:
        """From this call to the next one."""

    def sample(self, __t_us: int) -> None:
        """The time is so much."""


def run(samplers: Sequence[Sampled], t0_ns: int, duration_us: int, every_second: Callable[[int], None],
        before_last: Callable[[], object]) -> dict[int, int]:
    """Sample from t0 to t0 + duration at absolute deadlines: a late sample delays no other.

    samplers: objects with interval_us and sample(t_us), perhaps sample_until (testbed/probes/__init__.py);
    every_second(t_us) is called once a second of experiment time, before_last() once
    before the samples that are due at the end.
    Returns {sampler index: largest lateness in us}.
    """
    heap = [(0, number) for number in range(len(samplers))]
    heap.append((0, -1))
    heapq.heapify(heap)
    lateness_us = dict.fromkeys(range(len(samplers)), 0)
    last = False
    while heap:
        due_us, number = heap[0]
        if due_us > duration_us:
            return lateness_us
        # nobody else is to be called before that
        until_us = min([duration_us, *(due for due, _ in heap[1:3])])
        if due_us < until_us and number >= 0 and (sample_until := getattr(samplers[number], "sample_until", None)):
            due_us, late_us = sample_until(t0_ns, due_us, until_us)
            lateness_us[number] = max(lateness_us[number], late_us)
            heapq.heapreplace(heap, (due_us, number))
            continue
        wait_ns = t0_ns + due_us * 1000 - now_ns()
        if wait_ns > 0:
            time.sleep(wait_ns / 1e9)
        if due_us == duration_us and not last:
            last = True
            before_last()
        t_us = (now_ns() - t0_ns) // 1000
        if number < 0:
            every_second(t_us)
            heapq.heapreplace(heap, (due_us + 1_000_000, number))
        else:
            samplers[number].sample(t_us)
            lateness_us[number] = max(lateness_us[number], t_us - due_us)
            heapq.heapreplace(heap, (due_us + samplers[number].interval_us, number))
    return lateness_us
