# SPDX-License-Identifier: GPL-2.0-only
"""Shuffles a trace by bins, so that each seed replays another arrangement of it.

The trace is cut into bins of equal length and the bins change places (Fisher-Yates); a
connection keeps its place inside its bin. That destroys what a trace has of trends while
keeping the burstiness inside a bin (draft-irtf-iccrg-tcpeval-01).
"""

import random
from collections.abc import Callable

import numpy as np

BIN_BITS = 500e6    # a bin is the time in which this many bits cross the link


def bin_us(rate_bps: float) -> int:
    """Length of a bin in experiment time for a link rate: 5 s at 100 Mbit/s."""
    return round(BIN_BITS / rate_bps * 1e6)


def permutation(n: int, draw: Callable[[], float]) -> list[int]:
    """Fisher-Yates permutation of range(n): element i is the new place of bin i.

    draw: `random.Random(seed).random`, the one generator whose sequence Python promises never to change.
    """
    places = list(range(n))
    for i in range(n - 1, 0, -1):
        j = int(draw() * (i + 1))
        places[i], places[j] = places[j], places[i]
    return places


def shuffle_starts(start_us: np.ndarray, bin_length_us: int, seed: int | str,
                   length_us: int | None = None) -> np.ndarray:
    """New start times of one source's connections.

    start_us: int64 array, trace time. bin_length_us: in trace time.
    length_us: length of the trace; by default its last bin ends with the last start. The
    part of the trace behind its last whole bin stays in its place: moved, it would leave a
    hole.
    """
    if bin_length_us < 1:
        raise ValueError(f"bin of {bin_length_us} us; at least 1 us")
    start_us = np.asarray(start_us, np.int64)
    if not len(start_us):
        return start_us.copy()
    length_us = int(start_us.max()) + 1 if length_us is None else length_us
    whole_bins = int(length_us // bin_length_us)
    bins = start_us // bin_length_us
    places = np.asarray(permutation(whole_bins, random.Random(seed).random), np.int64)
    moved = bins < whole_bins
    shuffled = start_us.copy()
    shuffled[moved] += (places[bins[moved]] - bins[moved]) * bin_length_us
    return shuffled
