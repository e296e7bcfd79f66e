# SPDX-License-Identifier: GPL-2.0-only
"""Completion times of connections by the number of bottlenecks that they cross, where that differs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.flows.completion import completion
from analysis.metrics import Metric, Shown
from analysis.read.runs import Run
from analysis.stats.survival import kaplan_meier

UNITS = {"flows_completed": "1", "flow_completion_time_mean": "s", "flow_completion_time_p50": "s",
         "flow_completion_time_p95": "s"}
BETTER = {
    "flow_completion_time_mean": "lower", "flow_completion_time_p50": "lower", "flow_completion_time_p95": "lower"}
CENSORED = {"flow_completion_time"}
SHOWN = [Shown("crossings", "flows_completed", "completed", 10),
         Shown("crossings", "flow_completion_time_p50", "completion, median", 20),
         Shown("crossings", "flow_completion_time_mean", "completion, mean", 30),
         Shown("crossings", "flow_completion_time_p95", "completion, p95", 40)]


def compute(run: Run) -> list[Metric]:
    """Of connections that begin in the measurement interval, by Kaplan and Meier; bottlenecks on the acceptors' way."""
    crossed = {flow.source: len(set(flow.hops_back or ()) & run.bottlenecks.keys())
               for flow in run.flows if flow.source is not None}
    connections = run.frame("connections") if len(set(crossed.values())) > 1 else None
    if connections is None:
        return []
    number: pd.Series = connections["source"].map(crossed)
    found = []
    for count in sorted(set(crossed.values())):
        transfers = completion(run, connections[number == count])
        if transfers is None or not len(transfers.times):
            continue
        estimate = kaplan_meier(transfers.times, transfers.done)
        scope = f"across_{count}_bottleneck{'s' * (count != 1)}"
        found += [Metric("flows_completed", scope, "1", float(np.sum(transfers.done))),
                  Metric("flow_completion_time_mean", scope, "s", estimate.restricted_mean(run.interval.seconds)),
                  *(Metric(f"flow_completion_time_p{percent}", scope, "s", estimate.percentile(percent))
                    for percent in (50, 95))]
    return found
