# SPDX-License-Identifier: GPL-2.0-only
"""Is something nearer to one of two references than to the other? What `testbed bisect` decides by, seed by seed.

Of each seed the middle between the two references is taken (of a ratio, the geometric one), and what is judged is
compared with that, paired: where it is above or below the middle by more than chance explains, it is nearer to the
reference on that side. A search asks no more than the test: two seeds are enough, and seeds that are one run tell what
there is to tell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from analysis import stats
from analysis.compare import run_lists

GOOD, BAD = "good", "bad"
LEAST_SEEDS = 2


class Nearness(NamedTuple):
    """side: good, bad, or '' where that cannot be said; comparison: against the middle; needed: how many seeds would
    show a difference like this one with this spread, None where there is none to be shown. n: seeds."""

    side: str
    comparison: stats.Comparison
    needed: int | None

    @property
    def n(self) -> int:
        return self.comparison.n


def apart(good: Mapping[run_lists.Key, float], bad: Mapping[run_lists.Key, float], ratio: bool, margin: float,
          resolution: float = 0.0) -> Nearness:
    """Whether the references differ at all, and by more than the margin: side is then "bad", else ''."""
    keys = _common(good, bad)
    first, second = [good[key] for key in keys], [bad[key] for key in keys]
    found = stats.compare_paired(first, second, ratio, margin, resolution, spread_needed=False)
    equal = found.p_equal is not None and found.p_equal <= 1 - stats.CONFIDENCE
    return Nearness(BAD if found.distinguishable and not equal else "", found, _needed(first, second, ratio))


def way(good: Mapping[run_lists.Key, float], bad: Mapping[run_lists.Key, float],
        values: Mapping[run_lists.Key, float], ratio: bool) -> float:
    """How far from good to bad `values` are on the mean: 0 as good, 1 as bad; of a ratio, on the logarithmic scale."""
    keys = _common(good, bad, values)
    first, second, mine = (sum(math.log(sample[key]) if ratio else sample[key] for key in keys)
                           for sample in (good, bad, values))
    return (mine - first) / (second - first) if second != first else math.nan


def judge(good: Mapping[run_lists.Key, float], bad: Mapping[run_lists.Key, float],
          values: Mapping[run_lists.Key, float], ratio: bool) -> Nearness:
    """Which reference `values` are nearer to; all {pairing key: value}. ValueError as `apart`."""
    keys = _common(good, bad, values)
    middle = [math.sqrt(good[key] * bad[key]) if ratio else (good[key] + bad[key]) / 2 for key in keys]
    mine = [values[key] for key in keys]
    found = stats.compare_paired(middle, mine, ratio, spread_needed=False)
    side = ""
    if found.distinguishable:
        above = found.difference > (1 if ratio else 0)
        apart_by = sum(math.log(bad[key] / good[key]) if ratio else bad[key] - good[key] for key in keys)
        side = BAD if above == (apart_by > 0) else GOOD
    return Nearness(side, found, _needed(middle, mine, ratio))


def _common(*samples: Mapping[run_lists.Key, float]) -> list[run_lists.Key]:
    """Keys that all have, in order. ValueError if they are too few, or a value is infinite."""
    keys = [key for key in samples[0] if all(key in other for other in samples)]
    if len(keys) < LEAST_SEEDS:
        raise ValueError(f"{len(keys)} seeds with the same traffic, {LEAST_SEEDS} at least are needed")
    if not all(math.isfinite(sample[key]) for sample in samples for key in keys):
        raise ValueError("a percentile was not reached")
    return keys


def _needed(first: list[float], second: list[float], ratio: bool) -> int | None:
    """Seeds for which an interval of this spread would leave out no difference."""
    differences = [math.log(b / a) if ratio else b - a for a, b in zip(first, second)]
    return stats.seeds_needed(stats.summarise(differences), 1.0) if any(differences) else None
