# SPDX-License-Identifier: GPL-2.0-only
"""Transfer times by size: logarithmic size classes, two per decade."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from analysis.metrics import Metric
from analysis.read.runs import Array
from analysis.stats.survival import kaplan_meier

SCOPE = re.compile(r"(?:(?P<prefix>\w+)/)?bytes_(?P<low>\d+)_to_(?P<high>\d+)")


def edge(index: Array | int) -> Array:
    """Lower edge of class `index`, bytes: 10^(index/2) rounded up."""
    return np.ceil(np.power(10.0, np.asarray(index) / 2) - 1e-9).astype(np.int64)


def classes(sizes_bytes: Array) -> Array:
    """Class of every size >= 1 byte; size s is in class k when edge(k) <= s < edge(k+1)."""
    return np.searchsorted(edge(np.arange(26)), sizes_bytes, side="right") - 1


def scope(index: int, prefix: str = "") -> str:
    """Scope of a size class in metrics.csv, e.g. bytes_1000_to_3163 (high excluded)."""
    text = f"bytes_{edge(index)}_to_{edge(index + 1)}"
    return f"{prefix}/{text}" if prefix else text


def bounds(text: str) -> tuple[str, int, int] | None:
    """(prefix, low, high) of a size-class scope, None for any other scope."""
    match = SCOPE.fullmatch(text)
    return (match["prefix"] or "", int(match["low"]), int(match["high"])) if match else None


#: with fewer transfers in a class its 99th percentile would be the slowest one
LEAST_FOR_P99 = 100


class Transfers(NamedTuple):
    """Times, whether they ended with the transfer or only with what was seen of it, and sizes (shape n each)."""

    times: Array
    done: Array
    sizes_bytes: Array

    def of(self, mask: Array) -> Transfers:
        return Transfers(self.times[mask], self.done[mask], self.sizes_bytes[mask])


def describe(name: str, count_name: str, unit: str, scope_all: str, prefix: str, transfers: Transfers,
             limit: float) -> list[Metric]:
    """Count of those that ended, restricted mean and percentiles of transfer times, overall and by size class.

    limit: above which a time counts as that in means, in the unit of the times.
    """
    if not len(transfers.times):
        return []
    found = _described(name, count_name, unit, scope_all, transfers, limit, (50, 95, 99))
    sized = transfers.of(transfers.sizes_bytes >= 1)
    place = classes(sized.sizes_bytes)
    for index in np.unique(place):
        mine = sized.of(place == index)
        tail = (99,) if len(mine.times) >= LEAST_FOR_P99 else ()
        found += _described(name, count_name, unit, scope(index, prefix), mine, limit, (25, 50, 75, *tail))
    return found


def _described(name: str, count_name: str, unit: str, where: str, transfers: Transfers, limit: float,
               percentiles: tuple[int, ...]) -> list[Metric]:
    estimate = kaplan_meier(transfers.times, transfers.done)
    return [Metric(count_name, where, "1", float(transfers.done.sum())),
            Metric(f"{name}_mean", where, unit, estimate.restricted_mean(limit)),
            *(Metric(f"{name}_p{percent}", where, unit, estimate.percentile(percent)) for percent in percentiles)]
