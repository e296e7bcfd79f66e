# SPDX-License-Identifier: GPL-2.0-only
"""Flow completion time of the connections, overall and by size."""

from __future__ import annotations

import pandas as pd

from analysis import sizes
from analysis.metrics import Metric
from analysis.runs import Array, Run


def compute(run: Run) -> list[Metric]:
    """end_us - start_us of connections that start in the measurement interval and finish.

    The size of a connection is what both ends delivered together.
    """
    connections = run.frame("connections")
    if connections is None:
        return []
    times, size = completed(run, connections)
    return sizes.describe("flow_completion_time", "flows_completed", "s", "all", "", times, size)


def completed(run: Run, connections: pd.DataFrame) -> tuple[Array, Array]:
    """(seconds, bytes) of those that start in the measurement interval and finish."""
    start, end = run.interval
    rows = connections[(connections["start_us"] >= start) & (connections["start_us"] < end)
                       & (connections["status"] == "finished")
                       & connections["end_us"].notna()]
    size = (rows["init_bytes_delivered"].fillna(0) + rows["acc_bytes_delivered"].fillna(0))
    return (rows["end_us"] - rows["start_us"]).to_numpy() / 1e6, size.to_numpy()
