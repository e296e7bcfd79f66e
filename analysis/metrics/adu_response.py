# SPDX-License-Identifier: GPL-2.0-only
"""Transfer time of application data units: application write to application read."""

from __future__ import annotations

import pandas as pd

from analysis.flows import sizes
from analysis.flows.sizes import Transfers
from analysis.metrics import Metric, Shown
from analysis.read.runs import Run

UNITS = {
    "adus_delivered": "1", "adu_response_time_mean": "ms", "adu_response_time_p25": "ms", "adu_response_time_p50":
    "ms", "adu_response_time_p75": "ms", "adu_response_time_p95": "ms", "adu_response_time_p99": "ms"}
BETTER = {
    "adus_delivered": "higher", "adu_response_time_mean": "lower", "adu_response_time_p25": "lower",
    "adu_response_time_p50": "lower", "adu_response_time_p75": "lower", "adu_response_time_p95": "lower",
    "adu_response_time_p99": "lower"}
CENSORED = {"adu_response_time"}
SHOWN = [Shown("sizes", "adu_response_time_p50", "ADU response time, median", 40, counted_by="adus_delivered")]


def compute(run: Run) -> list[Metric]:
    """delivered_us - sent_us of ADUs sent in the measurement interval, per direction, by Kaplan and Meier."""
    adus = run.frame("adus")
    if adus is None:
        return []
    start, end = run.interval
    rows = adus[(adus["sent_us"] >= start) & (adus["sent_us"] < end)]
    found = []
    directions = run.directions()
    for direction in sorted({name for pair in directions.values() for name in pair}):
        mine = rows[_sent_towards(rows, directions, direction)]
        found += sizes.describe(
            "adu_response_time", "adus_delivered", "ms", direction, direction,
            _transfers(mine, end), 1e3 * run.interval.seconds)
    return found


def _transfers(rows: pd.DataFrame, end_us: int) -> Transfers:
    """Milliseconds until the unit was delivered, or until the end of the run."""
    took_us = rows["delivered_us"].fillna(end_us) - rows["sent_us"]
    return Transfers(took_us.to_numpy(dtype=float) / 1e3, rows["delivered_us"].notna().to_numpy(),
                     rows["bytes"].to_numpy())


def _sent_towards(rows: pd.DataFrame, directions: dict[int, tuple[str, str]], direction: str) -> pd.Series:
    """Mask of the ADUs whose bytes travel in a direction."""
    initiators = [source for source, pair in directions.items() if pair[0] == direction]
    acceptors = [source for source, pair in directions.items() if pair[1] == direction]
    return ((rows["side"] == "i") & rows["source"].isin(initiators)
            | (rows["side"] == "a") & rows["source"].isin(acceptors))
