# SPDX-License-Identifier: GPL-2.0-only
"""The shortest and longest times that packets spent in a queue, over any part of a run."""

import numpy as np

from testbed.checks import Evidence
from testbed.checks._measured import Columns, of_links


def extremes(values: np.ndarray, first: np.ndarray, last: np.ndarray, which: np.ufunc) -> np.ndarray:
    """which(values[first:last + 1]) for each pair, with `which` np.fmin or np.fmax; NaN where last is before first."""
    found, count = np.full(len(first), np.nan), last - first + 1
    current, width = np.asarray(values, float), 1
    while width <= count.max(initial=0):
        mine = (count >= width) & (count < 2 * width)
        found[mine] = which(current[first[mine]], current[last[mine] + 1 - width])
        current, width = which(current[:-width], current[width:]), 2 * width
    return found


class Sojourns:
    """Of every link that the table sojourn is about."""

    def __init__(self, evidence: Evidence) -> None:
        table = evidence.table("sojourn")
        self.interval_us = evidence.scenario.probe("sojourn").interval_us
        links = [link.name for link in evidence.network.links]
        self._rows: dict[str, Columns] = {} if table is None else dict(of_links(table, links))

    def __contains__(self, link: str) -> bool:
        return link in self._rows

    def between(self, link: str, from_us: np.ndarray, to_us: np.ndarray) \
            -> tuple[np.ndarray, np.ndarray]:
        """(shortest, longest) time in us of the packets that left in each of these spans; NaN where none did."""
        rows = self._rows[link]
        first = np.searchsorted(rows["t_us"], from_us - self.interval_us, "right")
        last = np.searchsorted(rows["t_us"], to_us, "right") - 1
        left = rows["packets"] > 0
        return (extremes(np.where(left, rows["min_us"], np.nan), first, last, np.fmin),
                extremes(np.where(left, rows["max_us"], np.nan), first, last, np.fmax))

    def longest_us(self, link: str) -> float:
        """Of the whole run."""
        return float(np.nanmax(self._rows[link]["max_us"], initial=0.0)) if link in self._rows else 0.0
