# SPDX-License-Identifier: GPL-2.0-only
"""What radios did in the measurement interval: time on the air, attempts, collisions, losses, queues."""

from __future__ import annotations

import pandas as pd

from analysis.metrics import Metric, Shown
from analysis.read.runs import AnalysisError, Run
from testbed.core.guest_files import Counters

UNITS = {"air_busy": "%", "airtime": "%", "attempts_per_frame": "1", "retry_share": "%", "garbled_share": "%",
         "frame_loss": "%", "frames_given_up": "%", "frames_without_access": "%", "air_queue_mean": "packets",
         "air_queue_max": "packets", "queue_drops_above_air": "packets"}
MOST = {"air_busy": 100.0}
SHOWN = [Shown("cells", "air_busy", "busy", 10), *(
    Shown("stations", metric, heading, order) for order, (metric, heading) in enumerate((
        ("airtime", "on the air"), ("attempts_per_frame", "attempts per frame"), ("retry_share", "repeated"),
        ("garbled_share", "garbled"), ("frame_loss", "frames lost"), ("frames_given_up", "given up"),
        ("frames_without_access", "without access"), ("air_queue_mean", "waiting, mean"),
        ("air_queue_max", "waiting, most"), ("queue_drops_above_air", "dropped above them"))))]
#: of cells with more stations only sums are told
MOST_STATIONS = 12


def compute(run: Run) -> list[Metric]:
    """Of all stations together (scope all), of each cell, and of each station where they are few."""
    air, busy = run.frame("air"), run.frame("air_busy")
    if air is None or air.empty or busy is None:
        return []
    start_us, end_us = run.interval
    length_us = end_us - start_us
    found = [Metric("air_busy", str(cell), "%", 100 * float(_growth(run, rows, ["busy_us"])["busy_us"]) / length_us)
             for cell, rows in busy.groupby("cell", observed=True)]
    counted = ["frames", "attempts", "retries", "given_up", "no_access", "received", "garbled", "chance", "lost",
               "airtime_us"]
    stations = {str(node): _growth(run, rows, counted) for node, rows in air.groupby("node", observed=True)}
    inside = air[(air["t_us"] >= start_us) & (air["t_us"] < end_us)]
    waiting = {str(node): rows["queued"] for node, rows in inside.groupby("node", observed=True)}
    waiting["all"] = inside.groupby("t_us")["queued"].sum()
    totals = {"all": sum(stations.values(), start=pd.Series(0.0, index=counted))}
    if len(stations) <= MOST_STATIONS:
        totals |= stations
    for scope, total in totals.items():
        found += _ratios(scope, total)
        found += [Metric("airtime", scope, "%", 100 * float(total["airtime_us"]) / length_us),
                  Metric("air_queue_mean", scope, "packets", float(waiting[scope].mean())),
                  Metric("air_queue_max", scope, "packets", float(waiting[scope].max()))]
    return found + _drops(run)


def _growth(run: Run, rows: pd.DataFrame, names: list[str]) -> pd.Series:
    """How much counters grew in the measurement interval, from the samples at its ends."""
    start_us, end_us = run.interval
    before, after = rows[rows["t_us"] <= start_us], rows[rows["t_us"] <= end_us]
    if before.empty or after["t_us"].max() <= start_us:
        raise AnalysisError(f"{run.path / 'raw'}: samples of the air do not cover the measurement interval")
    grown = after.iloc[-1][names].astype(float) - before.iloc[-1][names].astype(float)
    if (grown < 0).any():
        raise AnalysisError(f"{run.path / 'raw'}: counter {grown.idxmin()} of the air falls")
    # samples may end before the interval does
    scale = (end_us - start_us) / (after["t_us"].iloc[-1] - before["t_us"].iloc[-1])
    return pd.Series(grown * scale)


def _ratios(scope: str, total: pd.Series) -> list[Metric]:
    """Of a station that sent nothing, or to which nothing was sent, there are none."""
    found = []
    for name, unit, factor, part, whole in (
            ("attempts_per_frame", "1", 1, "attempts", ["frames"]), ("retry_share", "%", 100, "retries", ["attempts"]),
            ("frame_loss", "%", 100, "lost", ["frames"]), ("frames_given_up", "%", 100, "given_up", ["frames"]),
            ("frames_without_access", "%", 100, "no_access", ["frames"]),
            ("garbled_share", "%", 100, "garbled", ["received", "garbled", "chance"])):
        if total[whole].sum() > 0:
            found.append(Metric(name, scope, unit, factor * float(total[part] / total[whole].sum())))
    return found


def _drops(run: Run) -> list[Metric]:
    """Over the whole run, the network run empty."""
    counters = run.record(Counters, "counters.json")
    dropped = [one.dropped_packets for one in counters.air_drained.values()
               if one.has("dropped_packets")] if counters else []
    return [Metric("queue_drops_above_air", "all", "packets", float(sum(dropped)))] if dropped else []
