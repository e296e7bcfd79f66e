# SPDX-License-Identifier: GPL-2.0-only
"""Means with confidence intervals, and comparisons of two samples: paired, Welch, equivalence, Holm.

Everything is two-sided at 95 %. A *ratio* (a quantity whose natural zero is a factor of 1) is summarised and
compared on the logarithmic scale: means are geometric, differences are factors.

Sources: Student's and Welch's t intervals with Satterthwaite's degrees of freedom: Montgomery & Runger, "Applied
Statistics and Probability for Engineers". Two one-sided tests: Schuirmann, J. Pharmacokinetics and
Biopharmaceutics 15 (1987); against a share of a mean that is measured itself: Fieller, J. Royal Statistical Society
B 16 (1954). Holm, Scandinavian J. Statistics 6 (1979). When which of them is used: docs/explanation/statistics.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.estimates import CONFIDENCE as CONFIDENCE, ROUNDING, WIDE, Estimate, is_wide, t_quantile as t_quantile

#: what counts as equal, as a share of the reference mean, unless the user says otherwise
MARGIN = 0.05
#: values a side below which nothing is said of a comparison
LEAST = 5
#: values a side below which nothing is called equal: of fewer, none may show what happens to one seed in five, with a
#: probability of more than 5 % (0.8 ** 14 = 0.044)
LEAST_EQUAL = 14
PAIRED, WELCH, NO_TEST = "paired", "Welch", ""
#: values that differ by less than this share are one value: seeds that vary nothing leave no more
ONE_VALUE = 1e-6


@dataclass(frozen=True)
class Summary:
    """A sample: n, mean, standard deviation, 95 % confidence interval of the mean.

    sd, low and high are None when n < 2: one run says nothing about spread. Where all values are the same, sd is 0, and
    low and high are None: seeds that vary nothing say nothing about it either. Of a ratio, mean is the geometric mean,
    low and high its interval, and sd is that of the natural logarithms.
    """

    n: int
    mean: float
    sd: float | None
    low: float | None
    high: float | None
    ratio: bool = False

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval; None where it is not symmetric, as of ratios and of skewed samples."""
        if self.low is None or self.high is None or self.ratio:
            return None
        above, below = self.high - self.mean, self.mean - self.low
        return above if math.isclose(above, below, rel_tol=1e-6) else None

    @property
    def relative_half_width(self) -> float | None:
        """The wider half of the interval as a share of the mean; of a ratio, the factor up to the upper end, less 1."""
        if self.low is None or self.high is None:
            return None
        if self.ratio:
            return self.high / self.mean - 1
        width = max(self.high - self.mean, self.mean - self.low)
        return width / abs(self.mean) if self.mean else (math.inf if width else 0.0)


@dataclass(frozen=True)
class Comparison:
    """A sample against a reference sample, in the unit of both; of a ratio, difference, low and high are factors.

    method: "paired", "Welch", or "" where one side has one value.
    low, high, p, p_equal: None where one side has one value, or values have no spread.
    silence: why nothing may be said, '' if something may.
    n_reference, n: values of each side that were used (equal when paired). reference, mean: means of these.
    difference: mean - reference (ratio: mean / reference), with its 95 % interval.
    p: of the hypothesis that there is no difference (two-sided).
    p_equal: of the hypothesis that the means differ by `margin` of the reference's mean or more (two one-sided tests,
    which know of that mean no more than the runs say); of a ratio, by a factor of 1 + margin or more. Where the
    resolution (how exactly values are known, in their unit; no ratio has one) is more than that, by it or more.
    A margin of 0 means that the resolution alone counts: a margin of the metric's own.
    """

    method: str
    ratio: bool
    n_reference: int
    n: int
    reference: float
    mean: float
    difference: float
    low: float | None
    high: float | None
    p: float | None
    p_equal: float | None
    margin: float
    resolution: float = 0.0
    silence: str = ""

    @property
    def widest(self) -> float:
        """What counts as equal, in the unit of both: the margin, or the resolution; of a ratio, as a logarithm."""
        return math.log1p(self.margin) if self.ratio else max(self.margin * abs(self.reference), self.resolution)

    @property
    def margin_in_unit(self) -> float:
        """The same in the unit of both; of a ratio, as a factor."""
        return 1 + self.margin if self.ratio else self.widest

    @property
    def within(self) -> str:
        """The same in words: 5 %, its resolution, or 0.01 of a metric that has a margin of its own."""
        if not self.margin:
            return f"{self.resolution:g}"
        return "its resolution" if not self.ratio and self.resolution > self.margin * abs(self.reference) else \
            f"{100 * self.margin:g} %"

    @property
    def distinguishable(self) -> bool | None:
        """Whether the interval leaves out "no difference", None when there is no interval.

        Of this comparison alone. In a table of several, `decide` says what may be said.
        """
        return None if self.p is None else self.p <= 1 - CONFIDENCE


@dataclass(frozen=True)
class Decision:
    """What may be said of a comparison among the others of its family: adjusted p-values and the words."""

    p: float | None
    p_equal: float | None
    words: str

    @property
    def different(self) -> bool:
        return self.p is not None and self.p <= 1 - CONFIDENCE

    @property
    def equal(self) -> bool:
        """Equal within the margin; a difference smaller than that can be there all the same."""
        return self.p_equal is not None and self.p_equal <= 1 - CONFIDENCE


def summarise(values: Sequence[float], ratio: bool = False, most: float = math.inf) -> Summary:
    """Mean and Student's t interval of a sample; of ratios, the geometric mean and the interval of that.

    Where values spread widely, the side of the longer tail is longer (analysis/estimates.py). The mean of values that
    are all 0 or more has no interval below 0: no metric can be negative. Nor has it one above `most`, which no value
    can exceed, or the largest value that does so all the same.
    Where a value is infinite (a percentile that was not reached), so is the mean, and there is no interval.
    ValueError when the sample is empty, or a ratio is not above zero.
    """
    sample = _scaled(values, ratio)
    n = len(sample)
    if n == 0:
        raise ValueError("a summary needs at least one value")
    mean = float(sample.mean())
    if n < 2 or math.isinf(mean):
        return Summary(n, _back(mean, ratio), None, None, None, ratio)
    if one_value(values):
        return Summary(n, _back(mean, ratio), 0.0, None, None, ratio)
    sd = float(sample.std(ddof=1))
    found = Estimate.of_mean(mean, [sample], [1], n - 1, not ratio and is_wide(sample, most))
    low = max(found.low, 0.0) if not ratio and sample.min() >= 0 else found.low
    high = found.high if ratio else min(found.high, max(most, float(sample.max())))
    return Summary(n, _back(mean, ratio), sd, _back(low, ratio), _back(high, ratio), ratio)


def summarise_median(values: Sequence[float]) -> Summary:
    """The median of a sample and its 95 % interval by order statistics, which holds for every shape.

    The interval is that of two values of the sample (Conover, "Practical Nonparametric Statistics", 3.2): of n sorted
    values, the r-th from each end hold the median with 1 - 2 P(B < r), B binomial (n, 1/2). Fewer than 6 values have no
    interval. sd is None. ValueError when the sample is empty.
    """
    sample = np.sort(np.asarray(values, dtype=float))
    n = len(sample)
    if n == 0:
        raise ValueError("a summary needs at least one value")
    below = 0.0                     # P(B < rank)
    rank = 0
    while below + math.comb(n, rank) / 2 ** n <= (1 - CONFIDENCE) / 2:
        below += math.comb(n, rank) / 2 ** n
        rank += 1
    bounds = (None, None) if rank == 0 else (float(sample[rank - 1]), float(sample[n - rank]))
    return Summary(n, float(np.median(sample)), None, *bounds)


def one_value(values: Sequence[float]) -> bool:
    """Whether all values are the same, but for what rounding leaves."""
    sample = np.asarray(values, dtype=float)
    return bool(np.ptp(sample) <= ONE_VALUE * np.abs(sample).max())


def seeds_needed(found: Summary, target: float) -> int | None:
    """The smallest n at which this spread would give an interval of at most ± target of the mean.

    The smallest n with t(n-1) s / sqrt(n) <= target * |mean|; of a ratio <= log(1 + target), s that of the
    logarithms. None when the mean is 0 and the values are not all 0. ValueError without a spread.
    """
    if found.sd is None:
        raise ValueError("one value says nothing about spread")
    if not 0 < target < math.inf:
        raise ValueError(f"a share above 0 expected, not {target:g}")
    widest = math.log1p(target) if found.ratio else target * abs(found.mean)
    if found.sd == 0:
        return 2
    return _fewest(found.sd, widest) if widest else None


def _fewest(sd: float, widest: float, confidence: float = CONFIDENCE) -> int:
    """The smallest n of which t s / sqrt(n) is at most `widest`, which is above 0."""
    n = max(2, math.ceil((t_quantile(math.inf, confidence) * sd / widest) ** 2))
    while t_quantile(n - 1, confidence) * sd / math.sqrt(n) > widest:
        n += 1
    return n


def seeds_to_decide(found: Comparison, undecided: int = 1) -> int | None:
    """The smallest n, above that of now, at which a comparison would be decided if difference and spread stay as they
    are: its interval is no wider than the difference, or than what that leaves of the margin. Of fewer than LEAST seeds
    nothing is said, and of fewer than LEAST_EQUAL no equality.

    undecided: how many comparisons of the family are not decided; each is taken for the first of them, of which Holm
    asks most. None without an interval, and where there is neither a difference nor a margin (both means 0).
    """
    if found.low is None or found.high is None:
        return None
    low, difference, high = (math.log(one) if found.ratio else one for one in (found.low, found.difference, found.high))
    n = min(found.n_reference, found.n)
    # Welch's degrees are fewer at most, and the spread smaller then
    degrees = n - 1 if found.method == PAIRED else found.n_reference + found.n - 2
    sd = max(high - difference, difference - low) / t_quantile(degrees) * math.sqrt(n)
    confidence = 1 - (1 - CONFIDENCE) / undecided
    ways = [max(least, _fewest(sd, widest, confidence)) for least, widest in
            ((LEAST, abs(difference)), (LEAST_EQUAL, found.widest - abs(difference))) if widest > 0]
    return max(n + 1, min(ways)) if ways else None


def compare_paired(reference: Sequence[float], values: Sequence[float], ratio: bool = False,
                   margin: float = MARGIN, resolution: float = 0.0, spread_needed: bool = True,
                   most: float = math.inf) -> Comparison:
    """Compare values that belong together one by one, such as those of the same seed.

    most: what no value can exceed.
    spread_needed: whether values without spread say nothing; else they say for sure what they say.
    ValueError when there are none, not as many of both, or a ratio is not above zero.
    """
    both = _Samples.of(reference, values, ratio, most)
    if len(both.first) != len(both.second):
        raise ValueError(f"pairs need as many values on both sides, not {len(both.first)} and {len(both.second)}")
    return _comparison(PAIRED, both, _Samples.paired, margin, resolution, spread_needed)


def compare_unpaired(reference: Sequence[float], values: Sequence[float], ratio: bool = False,
                     margin: float = MARGIN, resolution: float = 0.0, most: float = math.inf) -> Comparison:
    """Compare two independent samples by Welch's test; without an interval when either has n < 2.

    most: what no value can exceed. ValueError when one is empty or a ratio is not above zero.
    """
    both = _Samples.of(reference, values, ratio, most)
    return _comparison(WELCH, both, _Samples.welch, margin, resolution)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's adjusted p-values, in the order given. None (nothing was tested) stays None and does not count."""
    tested = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) - rank) * p))
        adjusted[place] = largest
    return adjusted


def decide(family: Sequence[Comparison]) -> list[Decision]:
    """What may be said of each comparison of a family (one table, say): Holm over all of them.

    Differences and equivalences are two families of statements; in each, the chance that any statement of
    the table is wrong is at most 5 %. Of a comparison with a `silence` nothing is said, and it does not count; of one
    with fewer than LEAST_EQUAL values a side, no equality.
    """
    different = holm([None if one.silence else one.p for one in family])
    equal = holm([None if one.silence or min(one.n_reference, one.n) < LEAST_EQUAL else one.p_equal for one in family])
    return [Decision(p, p_equal, _words(one, p, p_equal)) for one, p, p_equal in zip(family, different, equal)]


def _words(one: Comparison, p: float | None, p_equal: float | None) -> str:
    if p is None:
        return one.silence
    different, equal = p <= 1 - CONFIDENCE, p_equal is not None and p_equal <= 1 - CONFIDENCE
    if different:
        return f"different, by less than {one.within}" if equal else "different"
    return f"equal within {one.within}" if equal else "not distinguishable"


@dataclass(frozen=True)
class _Samples:
    """Reference and values on the scale they are averaged on; `size`: what rounding is relative to.

    wide: whether one of them spreads widely.
    """

    first: np.ndarray
    second: np.ndarray
    ratio: bool
    size: float
    wide: bool

    @classmethod
    def of(cls, reference: Sequence[float], values: Sequence[float], ratio: bool, most: float) -> _Samples:
        first, second = _scaled(reference, ratio), _scaled(values, ratio)
        if not len(first) or not len(second):
            raise ValueError("a comparison needs at least one value on both sides")
        return cls(first, second, ratio, 1.0 if ratio else float(max(np.abs(first).max(), np.abs(second).max())),
                   not ratio and (is_wide(first, most) or is_wide(second, most)))

    def difference(self) -> float:
        value = float(self.second.mean() - self.first.mean())
        return 0.0 if abs(value) <= ROUNDING * self.size else value

    def paired(self) -> Estimate:
        rest = self.second - self.first
        return Estimate.of_mean(self.difference(), [rest], [1], len(rest) - 1, self.wide and is_wide(rest))

    def welch(self) -> Estimate:
        samples = self.second, self.first
        parts = [float(sample.var(ddof=1)) / len(sample) for sample in samples]
        variance = sum(parts)
        # of shares, not of squares of variances: these can be too small to be numbers
        degrees = 1 / sum((part / variance) ** 2 / (len(sample) - 1)
                          for part, sample in zip(parts, samples)) if variance else math.inf
        return Estimate.of_mean(self.difference(), samples, [1, -1], degrees, self.wide)

    def silence(self, method: str) -> str:
        """Why the values say nothing of a difference, however many they are; '' if they do."""
        if not self.ratio and not self.first.any() and not self.second.any():
            return "none in any run"
        if min(len(self.first), len(self.second)) < 2:
            return ""
        if method == PAIRED and np.ptp(self.first - self.second) <= ONE_VALUE * self.size:
            return "no spread between seeds" if self.difference() else "the same in both of each pair"
        # none at all on one side is a finding, as of drops; other values without spread are seeds that vary nothing
        return "no spread between seeds" if any(map(self._steady, (self.first, self.second))) else ""

    def _steady(self, side: np.ndarray) -> bool:
        """Whether a side has one value, and that is not "none"."""
        return bool(np.ptp(side) <= ONE_VALUE) if self.ratio else bool(side.any()) and one_value(side)

    def at_the_margin(self, margin: float, resolution: float) -> tuple[_Samples, _Samples]:
        """The reference moved to the lower and to the upper end of what counts as equal to it.

        By a share of the mean each of its values is moved, so that the ends have the spread that it has: a share of the
        mean as measured, taken for the true one, would call means equal too often. A resolution is known.
        """
        if self.ratio:
            shift = math.log1p(margin)
            return replace(self, first=self.first - shift), replace(self, first=self.first + shift)
        if resolution > margin * abs(self.first.mean()):
            # an index near its bound is skewed, though its spread is a small share of its mean: its own margin tells
            wide = self.wide or not margin and any(
                len(side) > 1 and side.std(ddof=1) > WIDE * resolution for side in (self.first, self.second))
            return (replace(self, first=self.first - resolution, wide=wide),
                    replace(self, first=self.first + resolution, wide=wide))
        share = math.copysign(margin, self.first.mean())
        return replace(self, first=self.first * (1 - share)), replace(self, first=self.first * (1 + share))


def _comparison(method: str, both: _Samples, estimate: Callable[[_Samples], Estimate], margin: float,
                resolution: float, spread_needed: bool = True) -> Comparison:
    if not (0 < margin < 1 or margin == 0 < resolution):
        raise ValueError(f"a margin between 0 and 1 expected, not {margin:g}")
    n_reference, n, ratio = len(both.first), len(both.second), both.ratio
    means = _back(float(both.first.mean()), ratio), _back(float(both.second.mean()), ratio)
    silence = both.silence(method) if spread_needed else ""
    if silence or min(n_reference, n) < 2:
        return Comparison(method if min(n_reference, n) > 1 else NO_TEST, ratio, n_reference, n, *means,
                          _back(both.difference(), ratio), None, None, None, None, margin, resolution,
                          silence or _too_few(n_reference, n))
    found = estimate(both)
    p = min(1.0, 2 * min(found.not_below_zero(), found.not_above_zero()))
    lower, upper = both.at_the_margin(margin, resolution)
    # without spread and without difference they are equal, also where 5 % of the reference is 0
    p_equal = 0.0 if found.above == 0 == found.value else max(estimate(upper).not_below_zero(),
                                                              estimate(lower).not_above_zero())
    return Comparison(method, ratio, n_reference, n, *means, _back(found.value, ratio),
                      _back(found.low, ratio), _back(found.high, ratio), p, p_equal, margin,
                      resolution, _too_few(n_reference, n))


def _too_few(n_reference: int, n: int) -> str:
    """The silence of samples that are too small, '' if they are large enough."""
    fewest = min(n_reference, n)
    return f"n = {fewest}: no verdict below {LEAST} seeds" if fewest < LEAST else ""


def _scaled(values: Sequence[float], ratio: bool) -> np.ndarray:
    """The sample on the scale it is averaged on."""
    sample = np.asarray(values, dtype=float)
    if not ratio:
        return sample
    if (sample <= 0).any():
        raise ValueError(f"a ratio is above zero, not {sample.min():g}")
    return np.log(sample)


def _back(value: float, ratio: bool) -> float:
    return math.exp(value) if ratio else value
