# SPDX-License-Identifier: GPL-2.0-only
"""The same connection in two runs: its time in one over its time in the other.

Runs with the same pairing key replay the same connections, so that each can be compared with itself, and so can
each exchange in it: from the write of a data unit to the moment when the other application has read its last byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis import stats
from analysis.drawing import style
from analysis.flows.completion import last_byte_us
from analysis.read.runs import Run

#: edges of the size classes, bytes
EDGES = (0, 10_000, 100_000, 1_000_000, np.inf)
ALL = "all"
SIZES = (ALL, *(f"to {style.size(edge)}" for edge in EDGES[1:-1]), f"above {style.size(EDGES[-2])}")
QUANTILES = (0.1, 0.5, 0.9)
#: of a size class of one run, below which quantiles say nothing
LEAST = 10


class Kind(NamedTuple):
    """What is compared: a table of runs, what identifies a row, and its times."""

    name: str
    what: str
    key: tuple[str, ...]
    read: Callable[[Run], pd.DataFrame | None]


class Ratios(NamedTuple):
    """Quantiles over the connections of one size class, averaged over runs (geometrically).

    pairs: pairs of runs; n: connections of a pair of runs on average, finished in both; only_one: share of those that
    finished in one of both, in percent; low, median, high: 10, 50 and 90 % of the ratio; interval: 95 % of the median
    over runs, None of one run.
    """

    size: str
    pairs: int
    n: float
    only_one: float
    low: float
    median: float
    high: float
    interval: tuple[float, float] | None


def _connections(run: Run) -> pd.DataFrame | None:
    # a Run of its own, so that the table is freed afterwards
    run = Run(run.path)
    table = run.frame("connections")
    last_us = None if table is None else last_byte_us(run, table)
    if table is None or last_us is None:
        return None
    start, end = run.interval
    table = table[(table["scheduled_us"] >= start) & (table["scheduled_us"] < end)]
    failed = table["status"].astype(str).str.startswith("failed")
    return pd.DataFrame({**{name: table[name] for name in ("source", "conn")},
                         "bytes": table[["init_bytes_asked", "acc_bytes_asked"]].fillna(0).sum(axis=1),
                         "time_us": (last_us[table.index] - table["start_us"]).mask(failed)})


def _exchanges(run: Run) -> pd.DataFrame | None:
    table = Run(run.path).frame("adus", "index")
    if table is None:
        return None
    start, end = run.interval
    # those of connections that were under way when measuring began belong to it where they were sent after that
    table = table[(table["sent_us"] >= start) & (table["sent_us"] < end)]
    return pd.DataFrame({**{name: table[name] for name in ("source", "conn", "side", "index")},
                         "bytes": table["bytes"], "time_us": table["delivered_us"] - table["sent_us"]})


KINDS = (Kind("connections", "completion time of a connection, from its start to its last byte, with the waits of the "
              "applications; by bytes of both directions", ("source", "conn"), _connections),
         Kind("exchanges", "time of an exchange, from the write of a data unit to the moment when its last byte was "
              "read; by its bytes", ("source", "conn", "side", "index"), _exchanges))


def joined(kind: Kind, reference: Run, other: Run) -> pd.DataFrame | None:
    """bytes, time_us (of the reference), time_us_other; a time is missing where it did not finish. None without any."""
    first, second = kind.read(reference), kind.read(other)
    if first is None or second is None:
        return None
    both = first.merge(second.drop(columns="bytes"), on=list(kind.key), suffixes=("", "_other"))
    return both[(both["bytes"] > 0) & ~(both["time_us"] <= 0) & ~(both["time_us_other"] <= 0)]


def ratios(kind: Kind, pairs: Sequence[tuple[Run, Run]]) -> list[Ratios]:
    """Of every size class with enough connections in every pair of runs."""
    by_pair = [dict(_quantiles(table)) for reference, other in pairs
               if (table := joined(kind, reference, other)) is not None]
    found = []
    for size in SIZES:
        rows = [one[size] for one in by_pair if size in one]
        if not rows or len(rows) < len(by_pair):
            continue
        low, median, high = (stats.summarise([row[2][place] for row in rows], ratio=True) for place in range(3))
        interval = None if median.low is None or median.high is None else (median.low, median.high)
        found.append(Ratios(size, len(rows), float(np.mean([row[0] for row in rows])),
                            float(np.mean([row[1] for row in rows])), low.mean, median.mean, high.mean, interval))
    return found


def _quantiles(both: pd.DataFrame) -> Iterator[tuple[str, tuple[int, float, list[float]]]]:
    """(size class, (finished in both, percent that finished in one only, quantiles of the ratio))"""
    for size, low, high in zip(SIZES, (0, *EDGES), (np.inf, *EDGES[1:])):
        mine = both[(both["bytes"] > low) & (both["bytes"] <= high)]
        times = mine[["time_us", "time_us_other"]]
        done = times.dropna()
        if len(done) >= LEAST:
            some = int((times.notna().sum(axis=1) == 1).sum())
            ratio = done["time_us_other"] / done["time_us"]
            yield size, (len(done), 100 * some / (some + len(done)), ratio.quantile(list(QUANTILES)).tolist())
