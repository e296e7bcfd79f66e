# SPDX-License-Identifier: GPL-2.0-only
"""Workloads whose connections use several congestion controls: what each of them gives."""

from __future__ import annotations

import pandas as pd

from analysis.flows.completion import completion
from analysis.metrics import Metric, Shown
from analysis.metrics.goodput import bytes_inside
from analysis.read.runs import Run
from analysis.stats.survival import kaplan_meier

UNITS = {
    "goodput": "Mbit/s", "flow_completion_time_mean": "s", "flow_completion_time_p50": "s", "flows_completed": "1"}
CENSORED = {"flow_completion_time"}
SHOWN = [Shown("mixed", "goodput", "goodput", 10),
         Shown("mixed", "flow_completion_time_p50", "completion, median", 20)]


def compute(run: Run) -> list[Metric]:
    """Goodput and flow completion time of the connections of each variant; nothing if all have the same."""
    variants = {(flow.source, flow.dport): flow.variant for flow in run.flows
                if flow.source is not None and flow.variant}
    connections = run.frame("connections")
    if connections is None or len(set(variants.values())) < 2:
        return []
    # shares of a source differ in the port of their acceptor
    ends = zip(connections["source"], connections["aport"])
    variant = pd.Series([variants.get((source, port)) for source, port in ends], index=connections.index)
    found = []
    for name in sorted(set(variants.values())):
        mine = connections[variant == name]
        scope = f"cca_{name}"
        found += [Metric("goodput", scope, "Mbit/s", rate) for rate in _goodput(run, mine)]
        transfers = completion(run, mine)
        if transfers is not None and len(transfers.times):
            estimate = kaplan_meier(transfers.times, transfers.done)
            found += [Metric("flow_completion_time_mean", scope, "s", estimate.restricted_mean(run.interval.seconds)),
                      Metric("flow_completion_time_p50", scope, "s", estimate.percentile(50)),
                      Metric("flows_completed", scope, "1", float(transfers.done.sum()))]
    return found


def _goodput(run: Run, connections: pd.DataFrame) -> list[float]:
    """Bytes of data units delivered in the measurement interval, both ways; [] where they were not recorded."""
    adus = run.frame("adus")
    if adus is None:
        return []
    transfers = adus.dropna(subset=["sent_us", "delivered_us"]).merge(
        connections[["source", "conn"]].drop_duplicates(), on=["source", "conn"])
    return [float(bytes_inside(transfers, *run.interval).sum()) * 8 / 1e6 / run.interval.seconds]
