# SPDX-License-Identifier: GPL-2.0-only
"""Distribution of the sojourn time of packets in the bottleneck queue."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.drawing import gnuplot, legend, style
from analysis.figures import Figure
from analysis.read.experiment import Experiment
from analysis.read.runs import Array

ORDER = 35
POINTS = 500  # of a curve
HEIGHT_PX = 420  # with one line of legend


def ccdf(histogram: pd.DataFrame) -> tuple[Array, Array]:
    """(sojourn in ms, share of packets that waited at least as long), at the bin edges.

    Begins with (0, 1) and ends with share 0 at the upper edge of the last bin,
    or at the lower edge of an open one.
    """
    rows = histogram.groupby("low_us", as_index=False).agg({"packets": "sum", "high_us": "max"})
    packets = rows["packets"].to_numpy(dtype=float)
    low, last = rows["low_us"].to_numpy(), rows["high_us"].iloc[-1]
    sojourn = np.concatenate([[0], low, [last if np.isfinite(last) else low[-1]]]) / 1e3
    share = packets[::-1].cumsum()[::-1] / packets.sum()
    return sojourn, np.concatenate([[1], share, [0]])


def thinned(sojourn: Array, share: Array) -> tuple[Array, Array]:
    """The curve with at most about POINTS points: even steps of time and of log(share)."""
    if len(sojourn) <= POINTS:
        return sojourn, share
    logs = np.log10(np.maximum(share, 1e-9))
    wanted = np.concatenate([
        np.searchsorted(sojourn, np.linspace(0, sojourn[-1], POINTS // 2)),
        len(logs) - 1 - np.searchsorted(logs[::-1], np.linspace(logs[-2], 0, POINTS // 2))])
    keep = np.unique(np.concatenate([np.clip(wanted, 0, len(sojourn) - 1), [len(sojourn) - 1]]))
    return sojourn[keep], share[keep]


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    link = next(iter(experiment.usable_runs[0].bottlenecks), None)
    curves: dict[str, tuple[Array, Array]] = {}
    for row in experiment.drawn:
        tables = [frame[(frame["link"] == link) & (frame["packets"] > 0)]
                  for run in experiment.usable(row)
                  if (frame := run.frame("sojourn_hist")) is not None]
        pooled = pd.concat(tables) if tables else pd.DataFrame()
        if len(pooled):
            curves[row.label] = thinned(*ccdf(pooled))
    if not curves:
        return []
    name = "sojourn"
    script(folder, name, curves, experiment.looks(experiment.drawn))
    return [Figure(name, f"Sojourn time of packets, {style.direction(str(link))}",
                   "Share of the packets that spent at least the given time in the bottleneck "
                   "queue, all seeds together, after warm-up. Further left is better; the foot of "
                   "a curve is its worst case, and where it crosses 0.01 is its 99th percentile."
                   + experiment.drawn_note)]


def script(folder: Path, name: str, curves: dict[str, tuple[Array, Array]], looks: Mapping[str, style.Look]) -> None:
    """Draw curves of `thinned`; looks: of each label."""
    columns = {}
    parts = []
    least = max(1e-6, min(share[share > 0].min() for _, share in curves.values())) / 1.5
    for label, (sojourn, share) in curves.items():
        height = f"column({gnuplot.quote(f'{label} share')})"
        columns[f"{label} sojourn_ms"], columns[f"{label} share"] = map(pd.Series, (sojourn, share))
        parts.append(f"'{name}.csv' using {gnuplot.quote(f'{label} sojourn_ms')}:"
                     f"({height} > {least:g} ? {height} : {least:g}) with lines linewidth 2 "
                     f"dashtype {looks[label].dash} linecolor '{looks[label].colour}' "
                     f"title {gnuplot.quote(label)}")
    longest = max(sojourn.max() for sojourn, _ in curves.values())
    body = ["set logscale y", "set format y '%g'", f"set xrange [0:{1.03 * longest or 1:g}]",
            f"set yrange [{least:g}:1.2]",
            f"set key above left maxcols {legend.columns(list(curves))} samplen 2",
            "set xlabel 'sojourn time in the bottleneck queue (ms)'",
            "set ylabel 'share of packets waiting longer'", gnuplot.plot(*parts)]
    gnuplot.draw(folder, name, pd.DataFrame(columns), body, height=HEIGHT_PX + legend.more_px(list(curves)))
