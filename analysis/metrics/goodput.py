# SPDX-License-Identifier: GPL-2.0-only
"""Goodput: application bytes delivered per second, per direction."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.metrics import Metric
from analysis.read import tcp
from analysis.read.runs import Array, Run

UNITS = {"goodput": "Mbit/s"}
BETTER = {"goodput": "higher"}
WINDOWED = {"goodput"}


def compute(run: Run) -> list[Metric]:
    """Bytes of ADUs, and what the receivers' TCP got in order of single flows.

    Where no ADUs were recorded, also what it got of all others.  An ADU that straddles an
    edge of the measurement interval counts in proportion to its time inside.
    """
    adus = run.frame("adus")
    totals = tcp.received_bytes(run, single=True)
    others = tcp.received_bytes(run, single=False) if adus is None or adus.empty else _adu_bytes(run, adus)
    for direction, total in others.items():
        totals[direction] = totals.get(direction, 0) + total
    seconds = run.interval.seconds
    return [Metric("goodput", direction, "Mbit/s", total * 8 / 1e6 / seconds)
            for direction, total in sorted(totals.items())]


def _adu_bytes(run: Run, adus: pd.DataFrame) -> dict[str, float]:
    """Bytes delivered in the measurement interval, by direction."""
    transfers = adus.dropna(subset=["sent_us", "delivered_us"])
    inside = bytes_inside(transfers, *run.interval)
    totals: dict[str, float] = {}
    bytes_of = pd.Series(inside, index=transfers.index).groupby(
        [transfers["source"], transfers["side"].astype(str)]).sum()
    for source, (initiated, accepted) in run.directions().items():
        for side, direction in (("i", initiated), ("a", accepted)):
            totals[direction] = totals.get(direction, 0) + bytes_of.get((source, side), 0)
    return totals


def bytes_inside(transfers: pd.DataFrame, start_us: int, end_us: int) -> Array:
    """Bytes of each transfer inside [start_us, end_us), spread evenly over its time."""
    sent = transfers["sent_us"].to_numpy()
    delivered = transfers["delivered_us"].to_numpy()
    duration = delivered - sent
    overlap = np.minimum(delivered, end_us) - np.maximum(sent, start_us)
    share = np.divide(np.clip(overlap, 0, None), duration,
                      out=((sent >= start_us) & (sent < end_us)).astype(float),
                      where=duration > 0)
    return transfers["bytes"].to_numpy() * share
