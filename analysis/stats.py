# SPDX-License-Identifier: GPL-2.0-only
"""Means over seeds with confidence intervals, and comparison of two samples.

Source: any statistics text, e.g. Montgomery & Runger, "Applied Statistics and
Probability for Engineers": Student's t interval, Welch's t interval with
Satterthwaite's degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
    """A sample: n, mean, standard deviation, 95 % confidence interval of the mean.

    sd, low and high are None when n < 2: one run says nothing about spread.
    """

    n: int
    mean: float
    sd: float | None
    low: float | None
    high: float | None

    @property
    def half_width(self) -> float | None:
        return None if self.high is None else self.high - self.mean


@dataclass(frozen=True)
class Comparison:
    """Difference of means b - a with its 95 % interval; None when it has none."""

    difference: float
    low: float | None
    high: float | None

    @property
    def distinguishable(self) -> bool | None:
        """False when the interval includes 0, None when there is no interval."""
        if self.low is None or self.high is None:
            return None
        return not self.low <= 0 <= self.high


def t_quantile(degrees: float, confidence: float = CONFIDENCE) -> float:
    """Two-sided quantile of Student's t."""
    return float(stdtrit(degrees, 0.5 + confidence / 2))


def summarise(values: Sequence[float]) -> Summary:
    """Mean and Student's t interval of a sample (ValueError when it is empty)."""
    sample = np.asarray(values, dtype=float)
    n = len(sample)
    if n == 0:
        raise ValueError("a summary needs at least one value")
    mean = float(sample.mean())
    if n < 2:
        return Summary(n, mean, None, None, None)
    sd = float(sample.std(ddof=1))
    half = t_quantile(n - 1) * sd / math.sqrt(n)
    return Summary(n, mean, sd, mean - half, mean + half)


def compare(a: Sequence[float], b: Sequence[float]) -> Comparison:
    """Welch's interval for mean(b) - mean(a); without one when either has n < 2."""
    first, second = summarise(a), summarise(b)
    difference = second.mean - first.mean
    if first.sd is None or second.sd is None:
        return Comparison(difference, None, None)
    parts = first.sd ** 2 / first.n, second.sd ** 2 / second.n
    variance = sum(parts)
    if variance == 0:
        return Comparison(difference, difference, difference)
    degrees = variance ** 2 / (parts[0] ** 2 / (first.n - 1) + parts[1] ** 2 / (second.n - 1))
    half = t_quantile(degrees) * math.sqrt(variance)
    return Comparison(difference, difference - half, difference + half)
