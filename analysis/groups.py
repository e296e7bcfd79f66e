# SPDX-License-Identifier: GPL-2.0-only
"""Do the values of the seeds fall into two groups, as where a congestion control starves in some of its runs?

Of the sorted values, the largest gap is compared with the rest of the range. How often it is as large in normal
samples, by simulation, is the p-value. Skewed samples have large gaps, too, at the end of their tail, but not on the
logarithmic scale: of values above zero, the gap has to be large on both.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from typing import TypeVar

import numpy as np

from analysis import stats

Key = TypeVar("Key", bound=Hashable)
_DRAWS = 40_000


def p_value(values: Sequence[float]) -> float | None:
    """How likely a gap like the largest one is by chance.

    None where that says nothing: of fewer than LEAST values, of values that are apart by less than the usual margin of
    their mean, and of counts that differ by one.
    """
    sample = np.asarray(values, dtype=float)
    if len(sample) < stats.LEAST or not np.isfinite(sample).all():
        return None
    gap = np.diff(np.sort(sample)).max()
    if gap <= stats.MARGIN * abs(sample.mean()) or gap <= 1 and (sample % 1 == 0).all():
        return None
    scales = [sample, np.log(sample)] if (sample > 0).all() else [sample]
    drawn = _drawn(len(sample))
    return max(float((1 + len(drawn) - np.searchsorted(drawn, _gap(scale[None])[0])) / (1 + len(drawn)))
               for scale in scales)


def split(sample: Mapping[Key, float]) -> tuple[list[Key], list[Key]]:
    """The keys below and above the largest gap."""
    keys = sorted(sample, key=lambda key: sample[key])
    at = 1 + int(np.argmax(np.diff([sample[key] for key in keys])))
    return keys[:at], keys[at:]


def _gap(samples: np.ndarray) -> np.ndarray:
    """Of each sample, a row: the largest gap as a multiple of the rest of its range."""
    ordered = np.sort(samples, axis=1)
    gap = np.diff(ordered, axis=1).max(axis=1)
    rest = ordered[:, -1] - ordered[:, 0] - gap
    return np.divide(gap, rest, out=np.full(len(gap), np.inf), where=rest > 0)


@cache
def _drawn(count: int) -> np.ndarray:
    """The gaps of normal samples, sorted; drawn the same every time."""
    return np.sort(_gap(np.random.default_rng(count).standard_normal((_DRAWS, count))))
