# SPDX-License-Identifier: GPL-2.0-only
"""The part of a run that is drawn larger: what was asked for, else the first loss; and what of many points to draw."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analysis.read.runs import Array

#: round trips before and after the first retransmission
BEFORE, AFTER = 15, 35


class Span(NamedTuple):
    """From when to when, microseconds of experiment time."""

    start_us: float
    end_us: float


def around(first_us: float | None, rtt_us: float, end_us: float) -> Span:
    """A span about the first retransmission of a run that ends at `end_us`; its first fifth where nothing was lost."""
    if first_us is None:
        return Span(0, end_us / 5)
    return Span(max(0.0, first_us - BEFORE * rtt_us), min(end_us, first_us + AFTER * rtt_us))


def thinned(x: Array, y: Array, bins: int = 500) -> Array:
    """Which of many points to draw, as places in order of `x`: of each of so many equal spans of x the first, the
    last, the smallest and the largest. All, where there are no more than that."""
    if len(x) <= 4 * bins:
        return np.arange(len(x))
    edges = np.linspace(x[0], x[-1], bins + 1)
    starts = np.unique(np.searchsorted(x, edges[:-1]))
    kept = set()
    for start, end in zip(starts, [*starts[1:], len(x)]):
        part = y[start:end]
        kept |= {start, end - 1, start + int(np.argmin(part)), start + int(np.argmax(part))}
    return np.array(sorted(kept))
