# SPDX-License-Identifier: GPL-2.0-only
"""Slowdown: a connection's completion time over that of the same connection alone on the idle network.

The idle time is that of a companion run (scenario/alone.py) with the same seed: same sizes, waits, path and settings of
hosts, under the experiment's first subject whatever the connection itself used. Both end with the last byte
(analysis/flows/completion.py), and contain the think times of the applications before it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.flows import sizes
from analysis.flows.completion import completion, last_byte_us
from analysis.flows.sizes import Transfers
from analysis.metrics import Metric, Shown
from analysis.read.runs import AnalysisError, Array, Run
from analysis.stats.survival import kaplan_meier, mixture

UNITS = {
    "slowdown_connections": "1", "slowdown_p25": "1", "slowdown_p50": "1", "slowdown_p75": "1", "slowdown_p95": "1",
    "slowdown_p99": "1"}
NAME, COUNT = "slowdown", "slowdown_connections"
RATIOS = frozenset(f"{NAME}_p{percent}" for percent in (25, 50, 75, 95, 99))
NOT_COMPARED = {COUNT}
SHOWN = [Shown("slowdown", COUNT, "connections", 10), Shown("slowdown", "slowdown_p50", "median", 20),
         Shown("slowdown", "slowdown_p95", "p95", 30), Shown("slowdown", "slowdown_p99", "p99", 40),
         Shown("sizes", "slowdown_p50", "Slowdown, median", 30, counted_by=COUNT)]
_KEY = ["source", "conn"]
_ASKED = ["init_bytes_asked", "acc_bytes_asked"]
#: of the connections that were drawn, from which on a companion run is of no use
_LEAST_ALONE = 0.9


def compute(run: Run, idle: Run) -> list[Metric]:
    """Percentiles over all connections that were drawn, and by size; unfinished ones counted (Kaplan and Meier).

    AnalysisError when the companion run does not fit: other connections, or too many of them not alone.
    """
    connections = run.frame("connections")
    if connections is None:
        return []
    joined = connections.merge(idle_times(idle), on=_KEY, suffixes=("", "_idle"))
    for name in _ASKED:
        if not (joined[name] == joined[f"{name}_idle"]).all():
            raise AnalysisError(f"{idle.path}: its connections are not those of {run.path}")
    transfers, idle_s = _with_idle(run, joined)
    if transfers is None:
        return []
    if not len(transfers.times):
        raise AnalysisError(f"{idle.path}: none of its connections begins in the measurement interval of {run.path}")
    factors = transfers._replace(times=transfers.times / idle_s)
    return [*_described("all", factors, idle_s, (50, 95, 99)), *_by_size(factors, idle_s)]


def idle_times(idle: Run) -> pd.DataFrame:
    """Finished connections of a companion run that were alone: source, conn, bytes asked, idle_s.

    Alone: not open at the same time as another one. AnalysisError when too many were not.
    """
    table, last_us = _recorded(idle)
    start = table["start_us"].to_numpy(dtype=float)
    end = table["end_us"].where(table["status"].astype(str) == "finished", np.inf).to_numpy(dtype=float)
    before = np.concatenate([[-np.inf], np.maximum.accumulate(end)[:-1]])
    after = np.concatenate([start[1:], [np.inf]])
    alone = np.isfinite(end) & (before <= start) & (end <= after) & last_us.notna().to_numpy()
    if not len(table) or alone.mean() < _LEAST_ALONE:
        raise AnalysisError(f"{idle.path}: {int((~alone).sum())} of its {len(table)} connections were not alone on the "
                            "network, or did not finish")
    return table[alone].assign(idle_s=(last_us - start)[alone] / 1e6)[[*_KEY, *_ASKED, "idle_s"]]


def _recorded(idle: Run) -> tuple[pd.DataFrame, pd.Series]:
    """(connections in the order of their starts, when the last byte of each was delivered)"""
    table = idle.frame("connections")
    if table is None:
        raise AnalysisError(f"{idle.path / 'raw/connections.csv.gz'}: file is missing")
    table = table.sort_values("start_us", kind="stable", ignore_index=True)
    last_us = last_byte_us(idle, table)
    if last_us is None:
        raise AnalysisError(f"{idle.path / 'raw/adus.csv.gz'}: file is missing")
    return table, last_us


def _with_idle(run: Run, joined: pd.DataFrame) -> tuple[Transfers | None, Array]:
    """(transfers that begin in the measurement interval, the idle time of each)"""
    start, end = run.interval
    began_us = joined["start_us"].fillna(joined["scheduled_us"])
    inside = joined[(began_us >= start) & (began_us < end)]
    return completion(run, inside), inside["idle_s"].to_numpy()


def _by_size(factors: Transfers, idle_s: Array) -> list[Metric]:
    sized = factors.sizes_bytes >= 1
    place = sizes.classes(factors.sizes_bytes[sized])
    found = []
    for index in np.unique(place):
        mine = np.flatnonzero(sized)[place == index]
        found += _described(sizes.scope(index), factors.of(mine), idle_s[mine], (25, 50, 75))
    return found


def _described(scope: str, factors: Transfers, idle_s: Array, percentiles: tuple[int, ...]) -> list[Metric]:
    """How long a connection was seen, in idle times, depends on its idle time: strata of these, two per decade."""
    strata = np.floor(2 * np.log10(idle_s))
    estimate = mixture([(float((strata == one).sum()), kaplan_meier(factors.times[strata == one],
                                                                    factors.done[strata == one]))
                        for one in np.unique(strata)])
    return [Metric(COUNT, scope, "1", float(len(factors.times))),
            *(Metric(f"{NAME}_p{percent}", scope, "1", estimate.percentile(percent)) for percent in percentiles)]
