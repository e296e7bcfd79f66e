# SPDX-License-Identifier: GPL-2.0-only
"""Transfer time of application data units: application write to application read."""

from __future__ import annotations

import pandas as pd

from analysis import sizes
from analysis.metrics import Metric
from analysis.runs import Run


def compute(run: Run) -> list[Metric]:
    """delivered_us - sent_us of ADUs sent in the measurement interval, per direction."""
    adus = run.frame("adus")
    if adus is None:
        return []
    start, end = run.interval
    rows = adus[(adus["sent_us"] >= start) & (adus["sent_us"] < end)
                & adus["delivered_us"].notna()]
    found = []
    directions = run.directions()
    for direction in sorted({name for pair in directions.values() for name in pair}):
        mine = rows[_sent_towards(rows, directions, direction)]
        found += sizes.describe(
            "adu_response_time", "adus_delivered", "ms", direction, direction,
            (mine["delivered_us"] - mine["sent_us"]).to_numpy() / 1e3, mine["bytes"].to_numpy())
    return found


def _sent_towards(rows: pd.DataFrame, directions: dict[int, tuple[str, str]], direction: str) -> pd.Series:
    """Mask of the ADUs whose bytes travel in a direction."""
    initiators = [source for source, pair in directions.items() if pair[0] == direction]
    acceptors = [source for source, pair in directions.items() if pair[1] == direction]
    return ((rows["side"] == "i") & rows["source"].isin(initiators)
            | (rows["side"] == "a") & rows["source"].isin(acceptors))
