# SPDX-License-Identifier: GPL-2.0-only
"""How the variability of a load falls with the length of the interval over which it is averaged.

The estimator is the wavelet one of Veitch and Abry ("A wavelet-based joint estimator of the parameters of
long-range dependence", IEEE Transactions on Information Theory 45(3), 1999) with the Haar wavelet. In its terms the
energy of octave j is the mean square of the difference of neighbouring bins of a length; half of that is their
Allan variance. For independent bins it is the variance of a bin, but other than a variance about the mean it is not
too low for a load with long-range dependence, nor disturbed by a linear trend.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import digamma

from analysis.read.runs import Array

#: pairs of neighbouring bins that an octave needs to be drawn, and to be in the fit
LEAST_PAIRS, LEAST_FITTED_PAIRS = 4, 16
LEAST_OCTAVES = 3
_Z = 1.959963984540054          # 95 %


@dataclass(frozen=True)
class Octave:
    """Bins of one length. variance: Allan variance over the squared mean (1); pairs: of bins, that do not overlap."""
    bin_s: float
    variance: float
    pairs: int
    spread: float               # variance of log2 of `variance`


@dataclass(frozen=True)
class Hurst:
    """The slope of log variance over log bin length is 2H - 2; low, high: 95 % interval; from_s, to_s: bins fitted."""
    value: float
    low: float
    high: float
    from_s: float
    to_s: float


def octaves(rates: Array, bin_s: float) -> list[Octave]:
    """The octaves of a load given as its mean over successive bins of bin_s; [] for one that is 0 all the time."""
    rates = np.asarray(rates, float)
    mean = rates.mean() if len(rates) else 0.0
    found: list[Octave] = []
    while mean > 0 and len(rates) // 2 >= LEAST_PAIRS:
        pairs = rates[:len(rates) // 2 * 2].reshape(-1, 2)
        squares = (pairs[:, 1] - pairs[:, 0]) ** 2 / 2
        energy = float(squares.mean())
        if energy > 0:
            # the relative variance of the squares is 2 for a Gaussian load, and more where few transfers make it
            relative = max(float(squares.var()) / energy ** 2, 2.0)
            found.append(Octave(bin_s, energy / mean ** 2, len(pairs), relative / len(pairs) / math.log(2) ** 2))
        rates, bin_s = pairs.mean(axis=1), 2 * bin_s
    return found


def estimate(found: list[Octave], from_s: float) -> Hurst | None:
    """H of the octaves with bins of from_s and more and enough pairs; None if they are fewer than three.

    Weighted least squares of log2 variance over log2 bin length. The weights and the interval are from the variance of
    the squared differences, which are taken for independent of each other (they are nearly so for fractional Gaussian
    noise, which is what wavelets are taken for). The interval says nothing of whether a line is a good description.
    """
    fitted = [one for one in found if one.bin_s >= from_s * (1 - 1e-9) and one.pairs >= LEAST_FITTED_PAIRS]
    if len(fitted) < LEAST_OCTAVES:
        return None
    x = np.log2([one.bin_s for one in fitted])
    # the mean of the logarithm of a mean of n squares is below the logarithm of their expectation
    half = np.array([1 / (one.spread * math.log(2) ** 2) for one in fitted])
    y = np.log2([one.variance for one in fitted]) - (digamma(half) - np.log(half)) / math.log(2)
    weights = np.array([1 / one.spread for one in fitted])
    centre = float(weights @ x / weights.sum())
    spread = float(weights @ (x - centre) ** 2)
    value = 1 + float(weights @ ((x - centre) * y)) / spread / 2
    width = _Z / math.sqrt(spread) / 2
    return Hurst(value, value - width, value + width, fitted[0].bin_s, fitted[-1].bin_s)
