# SPDX-License-Identifier: GPL-2.0-only
"""How long clients wait for their answers (kind request-response)."""

from __future__ import annotations

import pandas as pd

from analysis.flows import sizes
from analysis.flows.sizes import Transfers
from analysis.metrics import Metric
from analysis.read.runs import Run
from testbed.core import replayed

UNITS = {
    "requests_completed": "1", "request_completion_time_mean": "ms", "request_completion_time_p25": "ms",
    "request_completion_time_p50": "ms", "request_completion_time_p75": "ms", "request_completion_time_p95": "ms",
    "request_completion_time_p99": "ms"}
BETTER = {
    "requests_completed": "higher", "request_completion_time_mean": "lower", "request_completion_time_p25": "lower",
    "request_completion_time_p50": "lower", "request_completion_time_p75": "lower",
    "request_completion_time_p95": "lower", "request_completion_time_p99": "lower"}
CENSORED = {"request_completion_time"}


def compute(run: Run) -> list[Metric]:
    """Of each component, of the requests sent in the measurement interval: from the beginning of the request to the
    last byte of its answer at the client, by Kaplan and Meier; by size of the answer."""
    found: list[Metric] = []
    for component in run.components:
        what = replayed.of(component)
        if what and what.clients is not None and (units := run.frame("adus", "index")) is not None:
            sources = [flow.source for flow in run.flows if flow.component == component.name]
            requests = _requests(units[units["source"].isin(sources)], run)
            found += sizes.describe("request_completion_time", "requests_completed", "ms", component.name,
                                    component.name.replace("-", "_"), requests, 1e3 * run.interval.seconds)
    return found


def _requests(units: pd.DataFrame, run: Run) -> Transfers:
    """Requests that were sent in the measurement interval, with what came back."""
    start, end = run.interval
    key = ["source", "conn", "index"]
    asked = units[(units["side"] == "i") & (units["sent_us"] >= start) & (units["sent_us"] < end)]
    answers = units[units["side"] == "a"][[*key, "bytes", "delivered_us"]]
    both = asked[[*key, "sent_us"]].merge(answers, on=key)
    took_us = both["delivered_us"].fillna(end) - both["sent_us"]
    return Transfers(took_us.to_numpy(dtype=float) / 1e3, both["delivered_us"].notna().to_numpy(),
                     both["bytes"].to_numpy())
