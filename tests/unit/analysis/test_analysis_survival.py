# SPDX-License-Identifier: GPL-2.0-only
"""Kaplan and Meier's estimator: by hand, from a textbook, and counted over draws."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from analysis.stats.survival import NOT_REACHED, kaplan_meier, mixture

#: remission of leukaemia under 6-MP, weeks (Freireich et al., Blood 21, 1963); + was still in remission
WEEKS = "6 6 6 6+ 7 9+ 10 10+ 11+ 13 16 17+ 19+ 20+ 22 23 25+ 32+ 32+ 34+ 35+".split()


def leukaemia():
    return kaplan_meier(np.array([float(week.rstrip("+")) for week in WEEKS]),
                        np.array([not week.endswith("+") for week in WEEKS]))


def test_by_hand():
    """1, 2+, 3, 4: S is 3/4, then 3/4 * 1/2, then 0."""
    found = kaplan_meier([1, 2, 3, 4], [True, False, True, True])
    assert found.times.tolist() == [1, 3, 4]
    assert found.share == pytest.approx([3 / 4, 3 / 8, 0])
    assert found.at(np.array([0.5, 1, 2.9, 3, 9])) == pytest.approx([1, 3 / 4, 3 / 4, 3 / 8, 0])
    assert found.variance[:2] == pytest.approx([9 / 16 * 1 / 12, 9 / 64 * (1 / 12 + 1 / 2)])
    assert found.percentile(25) == 1 and found.percentile(50) == 3 and found.percentile(90) == 4


def test_the_textbook():
    """S(t), its standard errors, and the median of 23 weeks as printed in Klein and Moeschberger, table 4.1."""
    found = leukaemia()
    assert found.times.tolist() == [6, 7, 10, 13, 16, 22, 23]
    assert found.share == pytest.approx([0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448], abs=5e-4)
    assert np.sqrt(found.variance) == pytest.approx([0.076, 0.087, 0.096, 0.107, 0.114, 0.128, 0.135], abs=6e-4)
    assert found.percentile(50) == 23 and found.percentile(60) == NOT_REACHED


def test_interval_by_hand():
    """At 10 weeks S = 0.753, its error 0.0963: half = 1.96 * 0.0963 / (0.753 * 0.2838); 0.753 ** exp(+-half)."""
    low, high = leukaemia().interval(np.array([3.0, 10.0]))
    half = 1.95996 * 0.09635 / (0.75294 * 0.28376)
    assert (low[1], high[1]) == pytest.approx((0.75294 ** math.exp(half), 0.75294 ** math.exp(-half)), rel=1e-3)
    assert np.isnan(low[0]) and np.isnan(high[0])


def test_means_are_restricted():
    """3/4 from 1 to 3, 3/8 from 3 to 4: up to 3.5 that is 1 + 1.5 + 0.1875."""
    found = kaplan_meier([1, 2, 3, 4], [True, False, True, True])
    assert found.restricted_mean(3.5) == pytest.approx(2.6875)
    assert found.restricted_mean(0.5) == 0.5
    assert kaplan_meier([1, 2, 6], [True, True, True]).restricted_mean(100) == pytest.approx(3)
    assert kaplan_meier([5], [False]).restricted_mean(8) == 8


def test_what_never_ends_is_never_done():
    """One of four failed: three quarters is all that is ever done."""
    found = kaplan_meier([1, 2, 3, math.inf], [True, True, True, False])
    assert found.percentile(75) == 3 and found.percentile(76) == NOT_REACHED
    assert found.restricted_mean(10) == pytest.approx((1 + 2 + 3 + 10) / 4)


def test_strata_by_hand():
    """Half of them done at 1 and 2, a quarter at 10, of a quarter nothing is known after 3."""
    found = mixture([(1, kaplan_meier([1, 2], [True, True])), (1, kaplan_meier([3, 10], [False, True]))])
    assert found.times.tolist() == [1, 2, 10] and found.share == pytest.approx([0.75, 0.5, 0])
    assert found.percentile(50) == 2 and found.percentile(51) == 10


@pytest.mark.parametrize("times", [[], [math.nan], [-1]])
def test_no_times_is_an_error(times):
    with pytest.raises(ValueError, match="times"):
        kaplan_meier(times, [True] * len(times))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30))
def test_without_censoring_it_is_the_distribution_itself(times):
    found = kaplan_meier(times, np.ones(len(times), bool))
    assert found.restricted_mean(2e6) == pytest.approx(np.mean(times), rel=1e-9, abs=1e-6)
    assert found.percentile(50) == np.percentile(times, 50, method="inverted_cdf")
    assert found.share[-1] == pytest.approx(0, abs=1e-12)


def test_the_median_is_found_though_a_third_is_still_there():
    """Exponential times, seen until a random end: finished ones alone have a median that is half as long."""
    rng = np.random.default_rng(4)
    times, seen = rng.exponential(1, (200, 400)), rng.uniform(0.2, 2.5, (200, 400))
    medians = [kaplan_meier(np.minimum(t, s), t <= s).percentile(50) for t, s in zip(times, seen)]
    assert np.mean(medians) == pytest.approx(math.log(2), rel=0.02)
    assert np.mean([np.median(t[t <= s]) for t, s in zip(times, seen)]) < 0.8 * math.log(2)


def test_intervals_hold_the_share():
    rng = np.random.default_rng(5)
    times, seen = rng.exponential(1, (2000, 100)), rng.uniform(0.2, 2.5, (2000, 100))
    held = 0
    for t, s in zip(times, seen):
        low, high = kaplan_meier(np.minimum(t, s), t <= s).interval(np.array([0.5]))
        held += bool(low[0] <= math.exp(-0.5) <= high[0])
    assert held / 2000 == pytest.approx(0.95, abs=0.015)
