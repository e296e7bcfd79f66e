# SPDX-License-Identifier: GPL-2.0-only
"""How long connections take to their last byte, overall and by size, and to their end; unfinished ones count."""

from __future__ import annotations

from analysis.flows import sizes
from analysis.flows.completion import completion, lifetime
from analysis.metrics import Metric, Shown
from analysis.read.runs import Run
from analysis.stats.survival import kaplan_meier

UNITS = {
    "flows_completed": "1", "flow_completion_time_mean": "s", "flow_completion_time_p25": "s",
    "flow_completion_time_p50": "s", "flow_completion_time_p75": "s", "flow_completion_time_p95": "s",
    "flow_completion_time_p99": "s", "connection_lifetime_p50": "s", "connection_lifetime_p95": "s"}
BETTER = {
    "flow_completion_time_mean": "lower", "flow_completion_time_p25": "lower", "flow_completion_time_p50": "lower",
    "flow_completion_time_p75": "lower", "flow_completion_time_p95": "lower", "flow_completion_time_p99": "lower"}
CENSORED = {"flow_completion_time", "connection_lifetime"}
SHOWN = [Shown("connections", "flow_completion_time_p50", "completion, median", 60),
         Shown("connections", "flow_completion_time_mean", "completion, mean", 70),
         Shown("connections", "flow_completion_time_p95", "completion, p95", 80),
         Shown("sizes", "flow_completion_time_p50", "Flow completion time, median", 10, counted_by="flows_completed"),
         Shown("sizes", "flow_completion_time_p99", "Flow completion time, 99th percentile", 15,
               counted_by="flows_completed"),
         Shown("sizes", "flow_completion_time_mean", "Flow completion time, mean", 20, counted_by="flows_completed")]


def compute(run: Run) -> list[Metric]:
    """Of connections that begin in the measurement interval, by Kaplan and Meier.

    The size of a connection is what both ends were asked to send together.
    """
    connections = run.frame("connections")
    if connections is None:
        return []
    found = []
    to_last_byte = completion(run, connections)
    if to_last_byte is not None:
        found += sizes.describe("flow_completion_time", "flows_completed", "s", "all", "", to_last_byte,
                                run.interval.seconds)
    to_end = lifetime(run, connections)
    if len(to_end.times):
        estimate = kaplan_meier(to_end.times, to_end.done)
        found += [Metric(f"connection_lifetime_p{percent}", "all", "s", estimate.percentile(percent))
                  for percent in (50, 95)]
    return found
