# SPDX-License-Identifier: GPL-2.0-only
"""Small multiples over time: one panel per row, every bottleneck link in it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.drawing import gnuplot, style
from analysis.read import series
from analysis.read.experiment import Experiment
from analysis.read.runs import Array, Run

PANEL_PX = 190
Values = Callable[[Run, str, Array], Array]


def draw(experiment: Experiment, folder: Path, name: str, y_label: str, values: Values,
         level: float | None = None) -> tuple[float, int] | None:
    """Median over seeds with the range from smallest to largest, per row and link.

    `values` gives one run's values per bin; `level` is a reference drawn as a
    dashed line where it is within reach of the data.  Returns (bin width in s,
    largest number of seeds), None when no run has the values.
    """
    runs = [run for row in experiment.drawn for run in experiment.usable(row)]
    edges = series.plot_edges(max(run.interval.end_us for run in runs), least_us=_sampling(runs))
    data = {"time_s": (edges[:-1] + edges[1:]) / 2e6}
    panels: list[tuple[str, list[str]]] = []
    for row in experiment.drawn:
        links = _columns(experiment.usable(row), row.label, edges, values, data)
        if links:
            panels.append((row.label, links))
    if not panels:
        return None
    top: float = np.nanmax([column for key, column in data.items() if key != "time_s"])
    if level is not None and top > 0.6 * level:
        top = max(top, level)
    else:
        level = None
    start_s = min(run.interval.start_us for run in runs) / 1e6
    _script(experiment, folder, name, y_label, panels, pd.DataFrame(data),
            (start_s, edges[-1] / 1e6, 1.06 * top or 1.0, level))
    return ((edges[1] - edges[0]) / 1e6,
            max(len(experiment.usable(row)) for row in experiment.drawn))


def _sampling(runs: list[Run]) -> float:
    """Longest sampling interval of the runs, microseconds."""
    longest = 0.0
    for run in runs:
        queue = run.frame("queue")
        if queue is not None and len(queue):
            first = queue[queue["link"] == queue["link"].iloc[0]]
            longest = max(longest, series.sampling_us(first.sort_values("t_us")))
    return longest or 10_000


def _columns(runs: list[Run], label: str, edges: Array, values: Values,
             data: dict[str, Array]) -> list[str]:
    """Add median, low and high of every link to `data`; the links that had values."""
    links = []
    for link in (runs[0].bottlenecks if runs else {}):
        rows = [row for row in (values(run, link, edges) for run in runs) if row is not None]
        table = np.array(rows, dtype=float)
        if not rows or np.isnan(table).all():
            continue
        known = ~np.isnan(table).all(axis=0)
        some = table[:, known]
        for column, found in (("median", np.nanmedian(some, axis=0)), ("low", np.nanmin(some, axis=0)),
                              ("high", np.nanmax(some, axis=0))):
            out = np.full(len(edges) - 1, np.nan)
            out[known] = found
            data[f"{label} {link} {column}"] = out
        links.append(link)
    return links


def _script(experiment: Experiment, folder: Path, name: str, y_label: str, panels: list[tuple[str, list[str]]],
            data: pd.DataFrame, frame: tuple[float, float, float, float | None]) -> None:
    start_s, end_s, top, level = frame
    looks = experiment.looks(experiment.drawn)
    columns = 1 if len(panels) <= 3 else 2
    rows = math.ceil(len(panels) / columns)
    height = PANEL_PX * rows + 62
    margins = f"{70 / 1000},0.985,{62 / height},{1 - 28 / height}"
    body = [f"set multiplot layout {rows},{columns} margins {margins} "
            f"spacing {80 / 1000},{32 / height}",
            f"set xrange [0:{end_s:g}]", f"set yrange [0:{top:g}]",
            f"set ylabel {gnuplot.quote(y_label)} offset 1"]
    if start_s > 0:
        body.append(f"set object 1 rectangle from 0, graph 0 to {start_s:g}, graph 1 behind "
                    "fillcolor '#eeeeee' fillstyle solid noborder")
    if level is not None:
        body.append(f"set arrow 1 from 0, first {level:g} to {end_s:g}, first {level:g} nohead "
                    "dashtype 2 linecolor '#444444'")
    for index, (label, links) in enumerate(panels):
        colour = looks[label].colour
        bottom = index >= len(panels) - columns
        body += [f"set label 1 {gnuplot.quote(label)} at graph 0, graph 1.07 "
                 f"textcolor '{colour}' font ',13'",
                 "set xlabel 'time (s)'; set xtics format '%g'" if bottom else
                 "unset xlabel; set xtics format ''",
                 gnuplot.plot(*_curves(f"{name}.csv", label, links, colour))]
    body.append("unset multiplot")
    gnuplot.draw(folder, name, data, body, height=height)


def _curves(file: str, label: str, links: list[str], colour: str) -> list[str]:
    """Bands and lines, the first link in the row's colour on top of the others in grey."""
    curves = []
    for link in reversed(links):
        shade = colour if link == links[0] else style.GREY
        time, low, high, median = (gnuplot.quote(text) for text in (
            "time_s", f"{label} {link} low", f"{label} {link} high", f"{label} {link} median"))
        curves += [f"'{file}' using {time}:{low}:{high} with filledcurves "
                   f"fillcolor '{style.band(shade)}' fillstyle solid noborder",
                   f"'{file}' using {time}:{median} with lines linewidth 1.5 "
                   f"linecolor '{shade}'"]
    return curves


def legend(experiment: Experiment, bin_s: float, seeds: int) -> str:
    """The sentence of a caption that says what is drawn how."""
    links = list(experiment.usable_runs[0].bottlenecks)
    each = "congestion control and point" if experiment.axes else "congestion control"
    text = f"One panel per {each}; {style.direction(links[0])} in colour"
    if len(links) > 1:
        text += f", {', '.join(style.direction(link) for link in links[1:])} in grey"
    spread = (f"Lines are medians over up to {seeds} seeds, bands reach from the smallest "
              "to the largest seed") if seeds > 1 else "One seed"
    return (f"{text}. {spread}, in bins of {bin_s:g} s. The shaded time is prefill and warm-up "
            f"and enters no metric.{experiment.drawn_note}")
