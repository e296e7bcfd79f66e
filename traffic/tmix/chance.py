# SPDX-License-Identifier: GPL-2.0-only
"""How far a load is from its mean by chance alone, estimated from the load itself.

The shuffle takes what starts in one bin of one source (`bin_us`) for independent of what starts in the others, and so
does this: a load is a sum over these bins, and their scatter about the mean of their part of the time estimates
its variance. Whatever hangs together within a bin, such as the connections of one user, is in it. One connection that
makes up most of the load makes the estimate as large as itself, so that heavy tails are not taken for defects.
"""
from dataclasses import dataclass

import numpy as np

from traffic.tmix.load import Pieces, inside


@dataclass(frozen=True)
class Starts:
    """When connections start, of which source, -1 for one that takes no part; and the length of a bin. In us."""
    start_us: np.ndarray
    source: np.ndarray
    bin_us: int


def load_chance(pieces: Pieces, starts: Starts, from_us: float, to_us: float, weights: np.ndarray) -> float:
    """Standard deviation of the load over [from_us, to_us), relative to it.

    weights: float64[2] (or [links]), what counts of the wire bytes.
    """
    terms = _bytes_inside(pieces, starts, from_us, to_us, weights)
    return _deviation(terms, starts, (from_us, to_us)) / float(terms.sum()) if terms.any() else 0.0


def thirds_chance(pieces: Pieces, starts: Starts, from_us: float, to_us: float, weights: np.ndarray) -> float:
    """Standard deviation of the difference of last and second third of [from_us, to_us) (core/steadiness.py)."""
    edges = np.linspace(from_us, to_us, 4)
    second, last = (_bytes_inside(pieces, starts, a, b, weights) for a, b in zip(edges[1:], edges[2:]))
    return _deviation(last - second, starts, edges) / float(second.sum()) if second.any() else 0.0


def _bytes_inside(pieces: Pieces, starts: Starts, from_us: float, to_us: float, weights: np.ndarray) -> np.ndarray:
    """Weighted wire bytes of each connection in [from_us, to_us), float64[n]."""
    return np.add.reduceat((weights @ pieces.wire_bytes) * inside(pieces, starts.start_us, from_us, to_us),
                           pieces.first[:-1])


def _deviation(terms: np.ndarray, starts: Starts, edges: np.ndarray) -> float:
    """Standard deviation of the sum of a term for each connection; between two edges the mean of a bin is the same."""
    taking_part = starts.start_us >= 0
    place, source = starts.start_us[taking_part] // starts.bin_us, starts.source[taking_part]
    bins = int(place.max()) + 1
    sums = np.bincount(source * bins + place, terms[taking_part], bins * (int(source.max()) + 1)).reshape(-1, bins)
    part = np.searchsorted(edges, (np.arange(bins) + 0.5) * starts.bin_us)
    return float(np.sqrt(sum(np.square(sums[:, part == one] - sums[:, part == one].mean()).sum()
                             for one in np.unique(part))))
