# SPDX-License-Identifier: GPL-2.0-only
"""The share of connections whose last byte is not delivered yet, against the time since their start."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd

from analysis import stats
from analysis.drawing import gnuplot, legend, style
from analysis.figures import Figure
from analysis.flows.completion import completion
from analysis.read.experiment import Experiment, Row
from analysis.read.runs import Array, Run
from analysis.stats.survival import Survival, kaplan_meier

ORDER = 41
POINTS = 160
LEAST_SHARE = 1e-3  # below it there are too few connections to draw


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    curves = {row: found for row in experiment.drawn if (found := _curves(experiment, row))}
    if not curves:
        return []
    # before that, all curves lie on each other
    shortest = min(curve.percentile(0.5) for found in curves.values() for curve in found)
    longest = min(run.interval.seconds for run in experiment.usable_runs)
    if shortest >= longest:
        return []
    times = np.geomspace(max(shortest, longest / 1e6), longest, POINTS)
    data = {"time_s": times}
    for row, found in curves.items():
        for name, values in zip(("share", "ci95_low", "ci95_high"), _with_interval(found, times)):
            data[f"{row.label} {name}"] = values
    name = "flow_survival"
    _script(experiment, folder, name, pd.DataFrame(data), list(curves))
    several = max(len(found) for found in curves.values()) > 1
    spread = "means over seeds with their 95 % intervals" if several else \
        "of one run, with the 95 % interval (Greenwood) of connections that are independent of each other"
    return [Figure(name, "Connections not completed yet",
                   "Share of the connections that began after warm-up and whose last byte is not delivered a given "
                   "time after their start, by Kaplan and Meier: those with bytes on the way at the end of the run "
                   f"count for as long as they lasted, failed ones for ever. Curves are {spread}. Lower is better. "
                   "Where a curve is flat at its end, what is left was not completed while it was seen."
                   f"{experiment.drawn_note}")]


def _curves(experiment: Experiment, row: Row) -> list[Survival]:
    """Of each run in which some connection was completed."""
    found = []
    for run in experiment.usable(row):
        run = Run(run.path)     # of its own: its tables are large, and freed afterwards
        connections = run.frame("connections")
        transfers = None if connections is None else completion(run, connections)
        if transfers is not None and transfers.done.any():
            found.append(kaplan_meier(transfers.times, transfers.done))
    return found


def _with_interval(curves: list[Survival], times: Array) -> tuple[Array, Array, Array]:
    """(share, low, high) at some times."""
    if len(curves) == 1:
        return (curves[0].at(times), *curves[0].interval(times))
    values = np.array([curve.at(times) for curve in curves])
    half = stats.t_quantile(len(curves) - 1) * values.std(axis=0, ddof=1) / math.sqrt(len(curves))
    mean = values.mean(axis=0)
    return mean, np.clip(mean - half, 0, 1), np.clip(mean + half, 0, 1)


def _script(experiment: Experiment, folder: Path, name: str, data: pd.DataFrame, rows: list[Row]) -> None:
    looks = experiment.looks(rows)
    low, high = data["time_s"].iloc[0], data["time_s"].iloc[-1]
    bands, lines = [], []
    for label, look in looks.items():
        share, bottom, top = (gnuplot.quote(f"{label} {column}") for column in ("share", "ci95_low", "ci95_high"))
        # a logarithmic axis has no zero
        bands.append(f"'{name}.csv' using 'time_s':(column({bottom}) > {LEAST_SHARE / 10:g} ? column({bottom}) : "
                     f"{LEAST_SHARE / 10:g}):{top} with filledcurves fillcolor '{look.colour}' "
                     "fillstyle transparent solid 0.15 noborder")
        lines.append(f"'{name}.csv' using 'time_s':(column({share}) > 0 ? column({share}) : NaN) with lines "
                     f"linewidth 1.8 dashtype {look.dash} linecolor '{look.colour}' title {gnuplot.quote(label)}")
    body = ["set logscale xy", f"set xrange [{low:g}:{high:g}]", f"set yrange [{LEAST_SHARE:g}:1]",
            f"set xtics ({style.log_ticks(low, high)})",
            "set ytics ('0.1 %%' 0.001, '1 %%' 0.01, '10 %%' 0.1, '100 %%' 1)",
            f"set key above left maxcols {legend.columns(list(looks))} samplen 2",
            "set xlabel 'time since the start (s)'", "set ylabel 'not completed'", gnuplot.plot(*bands, *lines)]
    gnuplot.draw(folder, name, data, body)
