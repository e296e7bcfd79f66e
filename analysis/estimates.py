# SPDX-License-Identifier: GPL-2.0-only
"""A mean, or a difference of means, with its error to either side, and how likely it is that the true one is 0.

Student's t holds what it promises of values that are about normal. Of few skewed values, such as completion times, its
intervals hold the mean in 80 to 90 % instead of 95 %, and nearly always fail on the side of the longer tail. There the
error is made larger, in proportion to the skewness of the estimate, by a factor that was found by simulation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
#: a sample spreads widely, and its interval follows its skewness, from this standard deviation on: as a share of the
#: mean, or of what the mean lacks to the most that a value can be
WIDE = 0.3
#: how much longer the side of the longer tail gets, in units of the estimate's skewness: by simulation, so that 95 %
#: intervals of exponential and lognormal (sigma 1) values hold the mean in more than 90 % from five values on
STRETCH = 6.0
#: metrics.csv keeps ten digits: a smaller difference or spread is rounding
ROUNDING = 1e-9


def t_quantile(degrees: float, confidence: float = CONFIDENCE) -> float:
    """Two-sided quantile of Student's t."""
    # measuring a run needs no t, and scipy takes its time to load
    from scipy.special import stdtrit
    return float(stdtrit(degrees, 0.5 + confidence / 2))


def is_wide(sample: np.ndarray, most: float = math.inf) -> bool:
    """Whether a sample spreads widely; most: what no value can exceed, such as 1 of Jain's index. One that does all the
    same, by a packet at an edge of the measurement for example, is the most then."""
    room = min(abs(sample.mean()), max(most, sample.max()) - sample.mean())
    return len(sample) > 1 and bool(sample.std(ddof=1) > WIDE * room)


@dataclass(frozen=True)
class Estimate:
    """A mean, or a difference of means: value, its standard error below and above it, degrees of freedom.

    Both errors are the same, but of samples that spread widely: there the side of the longer tail has more.
    """

    value: float
    below: float
    above: float
    degrees: float

    @classmethod
    def of_mean(cls, value: float, samples: Sequence[np.ndarray], signs: Sequence[int], degrees: float,
                wide: bool) -> Estimate:
        """Of a sum of means, each with its sign."""
        error = math.sqrt(sum(float(one.var(ddof=1)) / len(one) for one in samples))
        error = 0.0 if error <= ROUNDING * max(float(np.abs(one).max()) for one in samples) else error
        if not wide or not error:
            return cls(value, error, error, degrees)
        # in units of the error: squares of the smallest numbers are none
        second, third = (sum(sign ** power * float((((one - one.mean()) / error) ** power).mean())
                             / len(one) ** (power - 1) for one, sign in zip(samples, signs)) for power in (2, 3))
        stretch = STRETCH * third / second ** 1.5
        return cls(value, error * (1 + max(0.0, -stretch)), error * (1 + max(0.0, stretch)), degrees)

    @property
    def low(self) -> float:
        return self.value - t_quantile(self.degrees) * self.below

    @property
    def high(self) -> float:
        return self.value + t_quantile(self.degrees) * self.above

    def not_below_zero(self) -> float:
        """p of the hypothesis that the true difference is 0 or more."""
        if self.above == 0:
            return 0.0 if self.value < 0 else 1.0
        from scipy.special import stdtr
        return float(stdtr(self.degrees, self.value / self.above))

    def not_above_zero(self) -> float:
        """p of the hypothesis that it is 0 or less."""
        return Estimate(-self.value, self.above, self.below, self.degrees).not_below_zero()
