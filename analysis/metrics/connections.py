# SPDX-License-Identifier: GPL-2.0-only
"""How the connections of the measurement interval ended."""

from __future__ import annotations

from analysis.metrics import Metric
from analysis.runs import Run


def compute(run: Run) -> list[Metric]:
    """Counts and shares of the connections scheduled within the measurement interval."""
    connections = run.frame("connections")
    if connections is None:
        return []
    start, end = run.interval
    # Flows without a schedule (greedy ones) count from their start.
    begun_us = connections["scheduled_us"].fillna(connections["start_us"])
    rows = connections[(begun_us >= start) & (begun_us < end)]
    found = [Metric("connections_started", "all", "1", float(len(rows)))]
    if len(rows):
        status = rows["status"].astype(str)
        finished = int((status == "finished").sum())
        failed = int(status.str.startswith("failed").sum())
        found += [Metric("connections_finished_share", "all", "%", 100 * finished / len(rows)),
                  Metric("connections_failed", "all", "1", float(failed))]
    return found
