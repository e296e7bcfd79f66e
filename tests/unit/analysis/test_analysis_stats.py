# SPDX-License-Identifier: GPL-2.0-only
"""Confidence intervals against values worked out by hand."""

import math

import pytest
from hypothesis import given, strategies as st

from analysis.stats import compare, summarise, t_quantile


@pytest.mark.parametrize("degrees, quantile", [(1, 12.7062), (2, 4.3027), (4, 2.7764),
                                               (9, 2.2622), (1e9, 1.95996)])
def test_quantiles_of_the_printed_table(degrees, quantile):
    assert t_quantile(degrees) == pytest.approx(quantile, abs=5e-5)


def test_interval_by_hand():
    """2, 4, 6: mean 4, sd 2, half width 4.3027 * 2 / sqrt(3) = 4.9683."""
    found = summarise([2, 4, 6])
    assert (found.n, found.mean, found.sd) == (3, 4, 2)
    assert found.half_width == pytest.approx(4.9683, abs=1e-4)
    assert (found.low, found.high) == pytest.approx((-0.9683, 8.9683), abs=1e-4)


def test_one_value_has_no_interval():
    found = summarise([5])
    assert (found.n, found.mean) == (1, 5)
    assert found.sd is found.low is found.high is found.half_width is None


def test_no_value_is_an_error():
    with pytest.raises(ValueError, match="at least one"):
        summarise([])


def test_welch_by_hand():
    """1,2,3 and 4,6,8: s2/n 1/3 and 4/3, df = (5/3)^2 / (1/18 + 16/18) = 2.9412."""
    found = compare([1, 2, 3], [4, 6, 8])
    half = t_quantile(2.9411765) * math.sqrt(5 / 3)
    assert found.difference == 4
    assert found.low == pytest.approx(4 - half) and found.high == pytest.approx(4 + half)
    assert half == pytest.approx(4.1540, abs=2e-3)
    assert found.distinguishable is False


def test_clear_difference():
    assert compare([1, 1.1, 0.9], [2, 2.1, 1.9]).distinguishable is True


def test_single_runs_cannot_be_told_apart_or_together():
    found = compare([1], [5, 6])
    assert found.difference == 4.5 and found.low is None
    assert found.distinguishable is None


def test_equal_samples_without_spread():
    assert compare([3, 3], [3, 3]).distinguishable is False
    assert compare([3, 3], [4, 4]).distinguishable is True


samples = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8)


@given(samples, samples)
def test_comparison_is_antisymmetric(first, second):
    there, back = compare(first, second), compare(second, first)
    assert there.difference == pytest.approx(-back.difference, abs=1e-6)
    assert there.low == pytest.approx(-back.high, rel=1e-9, abs=1e-6)


@given(samples)
def test_mean_lies_in_its_interval(values):
    found = summarise(values)
    assert found.low <= found.mean <= found.high
