# SPDX-License-Identifier: GPL-2.0-only
"""How the connections of the measurement interval ended."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.metrics import Metric, Shown
from analysis.read.runs import Run

UNITS = {
    "connections_started": "1", "connections_unfinished": "1", "unfinished_bytes": "MB", "unfinished_bytes_share":
    "%", "connections_finished_share": "%", "connections_failed": "1"}
BETTER = {"connections_unfinished": "lower", "connections_failed": "lower", "connections_finished_share": "higher"}
MOST = {"connections_finished_share": 100.0}
SHOWN = [Shown("connections", "connections_started", "connections", 10),
         Shown("connections", "connections_finished_share", "finished", 20),
         Shown("connections", "connections_failed", "failed", 30),
         Shown("connections", "connections_unfinished", "unfinished", 40),
         Shown("connections", "unfinished_bytes_share", "unfinished, of bytes", 50)]
NOT_COMPARED = {"connections_started"}


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
        left = rows["status"].astype(str) == "unfinished"
        asked, missing = _bytes(rows), _bytes(rows[left], missing=True)
        found += [Metric("connections_unfinished", "all", "1", float(left.sum())),
                  Metric("unfinished_bytes", "all", "MB", missing / 1e6)]
        if asked:
            found.append(Metric("unfinished_bytes_share", "all", "%", 100 * missing / asked))
        status = rows["status"].astype(str)
        finished = int((status == "finished").sum())
        failed = int(status.str.startswith("failed").sum())
        found += [Metric("connections_finished_share", "all", "%", 100 * finished / len(rows)),
                  Metric("connections_failed", "all", "1", float(failed))]
    return found


def _bytes(rows: pd.DataFrame, missing: bool = False) -> float:
    """Bytes that both ends were asked to send; `missing`: those of them that had not arrived when the run ended."""
    asked = rows[["init_bytes_asked", "acc_bytes_asked"]].to_numpy(dtype=float)
    delivered = rows[["init_bytes_delivered", "acc_bytes_delivered"]].fillna(0).to_numpy(dtype=float)
    return float(np.nansum(np.clip(asked - delivered, 0, None) if missing else asked))
