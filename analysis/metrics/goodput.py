# SPDX-License-Identifier: GPL-2.0-only
"""Goodput: application bytes delivered per second, per direction."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.metrics import Metric
from analysis.runs import Run


def compute(run: Run) -> list[Metric]:
    """Bytes of ADUs, or of whole connections where no ADUs were recorded.

    A transfer that straddles an edge of the measurement interval counts in
    proportion to its time inside.
    """
    connections = run.frame("connections")
    if connections is None or connections.empty:
        return []
    adus = run.frame("adus")
    if adus is None or adus.empty:
        transfers = _connection_transfers(run, connections)
    else:
        transfers = adus[["source", "side", "bytes", "sent_us", "delivered_us"]]
    transfers = transfers.dropna(subset=["sent_us", "delivered_us"])
    inside = _bytes_inside(transfers, *run.interval)
    seconds = run.interval.seconds
    totals: dict[str, float] = {}
    bytes_of = pd.Series(inside, index=transfers.index).groupby(
        [transfers["source"], transfers["side"].astype(str)]).sum()
    for source, (initiated, accepted) in run.directions().items():
        for side, direction in (("i", initiated), ("a", accepted)):
            totals[direction] = totals.get(direction, 0) + bytes_of.get((source, side), 0)
    return [Metric("goodput", direction, "Mbit/s", total * 8 / 1e6 / seconds)
            for direction, total in sorted(totals.items())]


def _connection_transfers(run: Run, connections: pd.DataFrame) -> pd.DataFrame:
    """Both directions of every connection as one transfer each."""
    common = {"source": connections["source"],
              "sent_us": connections["connected_us"].fillna(connections["start_us"]),
              "delivered_us": connections["end_us"].fillna(run.interval.end_us)}
    return pd.concat([
        pd.DataFrame({**common, "side": "i", "bytes": connections["init_bytes_delivered"]}),
        pd.DataFrame({**common, "side": "a", "bytes": connections["acc_bytes_delivered"]}),
    ], ignore_index=True).dropna(subset=["bytes"])


def _bytes_inside(transfers: pd.DataFrame, start_us: int, end_us: int) -> np.ndarray:
    """Bytes of each transfer inside [start_us, end_us), spread evenly over its time."""
    sent = transfers["sent_us"].to_numpy()
    delivered = transfers["delivered_us"].to_numpy()
    duration = delivered - sent
    overlap = np.minimum(delivered, end_us) - np.maximum(sent, start_us)
    share = np.divide(np.clip(overlap, 0, None), duration,
                      out=((sent >= start_us) & (sent < end_us)).astype(float),
                      where=duration > 0)
    return transfers["bytes"].to_numpy() * share
