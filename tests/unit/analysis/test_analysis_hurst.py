# SPDX-License-Identifier: GPL-2.0-only
"""The Hurst parameter: by hand, of independent bins, of fractional Gaussian noise."""
import numpy as np
import pytest

from analysis.stats import hurst


def noise(h, n, rng):
    """n values of fractional Gaussian noise (circulant embedding: Davies and Harte 1987)."""
    lags = np.arange(n + 1)
    covariance = (abs(lags + 1.0)**(2 * h) - 2 * abs(lags)**(2 * h) + abs(lags - 1.0)**(2 * h)) / 2
    eigenvalues = np.fft.fft(np.concatenate([covariance, covariance[-2:0:-1]])).real
    count = len(eigenvalues)
    drawn = rng.normal(size=count) + 1j * rng.normal(size=count)
    return np.fft.fft(np.sqrt(np.maximum(eigenvalues, 0) / count) * drawn).real[:n]


def test_octaves_by_hand():
    found = hurst.octaves([1, 3, 2, 2, 0, 4, 5, 7], 0.5)
    # differences 2, 0, 4, 2: half their mean square is 3; the mean is 3. Of 2, 2, 2, 6: one pair too few
    assert [(one.bin_s, one.pairs) for one in found] == [(0.5, 4)]
    assert found[0].variance == pytest.approx(3 / 9)
    # squares 2, 0, 8, 2 have the variance 9, which is less than that of a Gaussian load, 2 * 3^2
    assert found[0].spread == pytest.approx(2 / 4 / np.log(2)**2)
    assert hurst.octaves(np.zeros(64), 1) == [] == hurst.octaves([], 1) == hurst.octaves(np.ones(64), 1)


def test_a_trend_and_a_unit_change_nothing_of_it():
    rates = 100 + noise(0.8, 4096, np.random.default_rng(1))
    one, other = (hurst.estimate(hurst.octaves(x, 0.1), 0.1) for x in (rates, 7e6 * rates))
    assert one.value == pytest.approx(other.value) and (one.from_s, one.to_s) == (0.1, 0.1 * 2**7)


@pytest.mark.parametrize("h", [0.5, 0.7, 0.9])
def test_fractional_gaussian_noise(h):
    rng = np.random.default_rng(round(10 * h))
    found = [hurst.estimate(hurst.octaves(10 + noise(h, 4096, rng), 0.1), 0.1) for _ in range(200)]
    values = np.array([one.value for one in found])
    assert values.mean() == pytest.approx(h, abs=0.005)
    # of 95 % intervals of 200 draws, those that hold the parameter: 95 % +- 4.6 % (three standard errors), less what
    # neighbouring octaves have in common
    assert 0.88 <= np.mean([one.low <= h <= one.high for one in found]) <= 0.996
    assert np.mean([one.high - one.low for one in found]) / 2 / 1.96 == pytest.approx(values.std(), rel=0.15)


def test_poisson_arrivals_have_no_memory():
    rng = np.random.default_rng(3)
    found = [hurst.estimate(hurst.octaves(rng.poisson(5, 8192) * 1e5, 0.1), 0.4) for _ in range(100)]
    assert np.mean([one.value for one in found]) == pytest.approx(0.5, abs=0.01)
    assert np.mean([one.low <= 0.5 <= one.high for one in found]) >= 0.88


def test_few_bursts_make_the_interval_wider():
    rng = np.random.default_rng(4)
    even, bursts = 10 + rng.normal(size=8192), np.where(rng.random(8192) < 0.002, 1000.0, 0)
    widths = [one.high - one.low for one in (hurst.estimate(hurst.octaves(x, 0.1), 0.1) for x in (even, bursts))]
    assert widths[1] > 2 * widths[0]


def test_too_short_for_an_estimate():
    assert hurst.estimate(hurst.octaves(np.arange(100) % 7, 1), 1) is None
    assert hurst.estimate([], 1) is None
