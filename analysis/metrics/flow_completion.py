# SPDX-License-Identifier: GPL-2.0-only
"""Flow completion time of the connections, overall and by size; unfinished ones count for as long as they lasted."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis import sizes
from analysis.metrics import Metric
from analysis.runs import Array, Run
from analysis.sizes import Transfers
from analysis.survival import NOT_REACHED

CENSORED = {"flow_completion_time"}


def compute(run: Run) -> list[Metric]:
    """Of connections that begin in the measurement interval, by Kaplan and Meier.

    The size of a connection is what both ends were asked to send together.
    """
    connections = run.frame("connections")
    if connections is None:
        return []
    return sizes.describe("flow_completion_time", "flows_completed", "s", "all", "", completion(run, connections),
                          run.interval.seconds)


def completion(run: Run, connections: pd.DataFrame) -> Transfers:
    """Seconds from start to end, to the end of the run, or for ever (what failed), and sizes."""
    start, end = run.interval
    # one that could not even be started waits since it was due
    began_us = connections["start_us"].fillna(connections["scheduled_us"])
    mine = (began_us >= start) & (began_us < end)
    rows, began_us = connections[mine], began_us[mine]
    status = rows["status"].astype(str)
    done = (status == "finished") & rows["end_us"].notna()
    seconds = (rows["end_us"].where(done, end) - began_us) / 1e6
    seconds = seconds.mask(status.str.startswith("failed"), NOT_REACHED)
    return Transfers(seconds.to_numpy(dtype=float), done.to_numpy(), _sizes(rows))


def _sizes(rows: pd.DataFrame) -> Array:
    """Bytes asked of both ends; where that is not known, those delivered."""
    asked = rows[["init_bytes_asked", "acc_bytes_asked"]].to_numpy(dtype=float)
    delivered = rows[["init_bytes_delivered", "acc_bytes_delivered"]].to_numpy(dtype=float)
    return np.nan_to_num(np.where(np.isnan(asked), delivered, asked)).sum(axis=1)
