# SPDX-License-Identifier: GPL-2.0-only
"""Times until something is done, when for some it is not done yet: the estimator of Kaplan and Meier.

To leave out what has not finished would make the rest look faster than all are. Here it counts for as long as it was
seen. Sources: Kaplan and Meier, J. American Statistical Association 53 (1958); Greenwood's variance and the
interval on the log-log scale: Kalbfleisch and Prentice, "The Statistical Analysis of Failure Time Data".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from analysis.read.runs import Array
from analysis.stats import CONFIDENCE

NOT_REACHED = math.inf
# shares are sums and products of fractions: 1 - 0.95 is not 0.05
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Survival:
    """The share that is not done yet, as a step function.

    times: when something was done, ascending; share: S(t) from that time on; variance: Greenwood's, of S(t).
    """

    times: Array
    share: Array
    variance: Array

    def at(self, times: Array) -> Array:
        """S(t) at some times."""
        return self._step(self.share, times, 1.0)

    def interval(self, times: Array) -> tuple[Array, Array]:
        """95 % interval of S(t) at some times, on the log-log scale; NaN where S is 1 or 0 and has none."""
        share, variance = self.at(times), self._step(self.variance, times, 0.0)
        inside = (share > 0) & (share < 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            log = np.log(share)
            half = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2) * np.sqrt(variance) / np.abs(share * log)
            low, high = share ** np.exp(half), share ** np.exp(-half)
        return np.where(inside, low, np.nan), np.where(inside, high, np.nan)

    def percentile(self, percent: float) -> float:
        """The first time at which that many are done; NOT_REACHED (infinite) if it is not known."""
        place = int(np.searchsorted(-self.share, -(1 - percent / 100) - _ROUNDING))
        return float(self.times[place]) if place < len(self.times) else NOT_REACHED

    def restricted_mean(self, limit: float) -> float:
        """Mean of the times, those above `limit` counted as that: the area below S(t) up to it."""
        before = self.times < limit
        edges = np.concatenate([[0.0], self.times[before], [limit]])
        return float(np.sum(np.diff(edges) * np.concatenate([[1.0], self.share[before]])))

    def _step(self, values: Array, times: Array, first: float) -> Array:
        return np.concatenate([[first], values])[np.searchsorted(self.times, times, side="right")]


def kaplan_meier(times: Array, done: Array) -> Survival:
    """The estimate from times (shape n, any unit, not below 0) and whether they ended because it was done.

    What was not done yet is known to last longer than its time; infinite: it never will be. At the same time, what was
    done counts first. ValueError when there is nothing, or a time is no number.
    """
    times, done = np.asarray(times, dtype=float), np.asarray(done, dtype=bool)
    if not len(times):
        raise ValueError("times of nothing")
    if not (times >= 0).all():
        raise ValueError("times are not below 0")
    ends, count = np.unique(times[done], return_counts=True)
    at_risk = len(times) - np.searchsorted(np.sort(times), ends)
    left = 1 - count / at_risk
    share = np.cumprod(left)
    # where nobody is left nothing varies any more
    terms = np.divide(count, at_risk * (at_risk - count), out=np.zeros(len(ends)), where=at_risk > count)
    return Survival(ends, share, share ** 2 * np.cumsum(terms))


def mixture(parts: Sequence[tuple[float, Survival]]) -> Survival:
    """The survival of all, from those of strata and their weights (which need not add up to 1).

    For strata within which observation ends independently of the times, though over all it does not.
    """
    times = np.unique(np.concatenate([part.times for _, part in parts]))
    total = sum(weight for weight, _ in parts)
    share = sum(weight * part.at(times) for weight, part in parts) / total
    variance = sum(weight ** 2 * part._step(part.variance, times, 0.0) for weight, part in parts) / total ** 2
    return Survival(times, share, variance)
