# SPDX-License-Identifier: GPL-2.0-only
"""Queueing delay against throughput and against drop rate: a curve per subject through the buffers of a sweep."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.drawing import gnuplot, legend, style
from analysis.figures import Figure
from analysis.figures.sweep import Quantity, values_of
from analysis.read.experiment import Axis, Experiment, Row

ORDER = 2       # of a sweep over buffers this is the point
MOST_ROWS = 3   # of panels, where other things vary, too
WIDTH, ROW_PX, TOP_PX, BOTTOM_PX, GAP_PX = 1000, 300, 58, 58, 30
PANELS = ((0.066, 0.49), (0.575, 0.985))    # left and right edges, share of the width
COLUMNS = ("mean", "ci95_low", "ci95_high")


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    """Nothing unless the sweep varies the limit of a queue, in packets or bytes."""
    axis = next((one for one in experiment.axes if len(one.values) > 1 and one.numbers is not None
                 and f".{one.key}".endswith((".queue.limit", ".queue.limit_bytes"))), None)
    if axis is None:
        return []
    place = experiment.axes.index(axis)
    others = list(dict.fromkeys(row.point[:place] + row.point[place + 1:] for row in experiment.rows))[:MOST_ROWS]
    first = experiment.usable_runs[0]
    return [figure for link in (first.targets or list(first.bottlenecks))[:1]
            for figure in _draw(experiment, folder, axis, others, link)]


def _draw(experiment: Experiment, folder: Path, axis: Axis, others: list[tuple[str, ...]], link: str) -> list[Figure]:
    place = experiment.axes.index(axis)
    data: dict[str, pd.Series] = {}
    for number, other in enumerate(others):
        for subject in experiment.subjects:
            rows = [row for row in experiment.rows if row.subject == subject
                    and row.point[:place] + row.point[place + 1:] == other]
            curve = _curve(experiment, rows, axis, link)
            data |= {f"{number} {subject} {column}": curve[column] for column in curve}
    if not data:
        return []
    _script(experiment, folder, axis, others, data)
    several = max(len(experiment.usable(row)) for row in experiment.rows) > 1
    spread = "points are means over seeds, bars their 95 % confidence intervals." if several else \
        "of one seed each: nothing is known of the spread."
    return [Figure("delay_throughput", f"Delay, throughput and drops over buffers, {style.direction(link)}", (
        f"A curve leads from the smallest buffer to the largest ({axis.key}: {', '.join(axis.values)}"
        f"{f' {axis.unit}' if axis.unit else ''}); {spread} Better is to the left, above in the left panel and below "
        "in the right one. Scales do not begin at 0."))]


def _curve(experiment: Experiment, rows: list[Row], axis: Axis, link: str) -> pd.DataFrame:
    """By buffer, with columns `limit` and `delay mean`, `delay ci95_low`, ...; no columns without values."""
    place = experiment.axes.index(axis)
    found = pd.DataFrame()
    for name, metric in (("delay", "queueing_delay_mean"), ("throughput", "throughput_mean"), ("drops", "drop_rate")):
        table = values_of(experiment, rows, axis, place, Quantity(metric, link, name))
        if table.empty:
            return pd.DataFrame()
        table = table.rename(columns={"x": "limit", **{column: f"{name} {column}" for column in COLUMNS}})
        found = table if found.empty else found.merge(table, on="limit")
    return found


def _script(experiment: Experiment, folder: Path, axis: Axis, others: list[tuple[str, ...]],
            data: dict[str, pd.Series]) -> None:
    top_px = TOP_PX + legend.more_px(experiment.subjects)
    height = top_px + BOTTOM_PX + len(others) * (ROW_PX + GAP_PX) - GAP_PX
    rest = [one for one in experiment.axes if one is not axis]
    body = ["set multiplot", legend.above(experiment.subjects, PANELS[0][0], height)]
    for number, other in enumerate(others):
        top = 1 - (top_px + number * (ROW_PX + GAP_PX)) / height
        named = ", ".join(one.say(value) for one, value in zip(rest, other))
        for (left, right), quantity, label in zip(PANELS, ("throughput", "drops"), (
                "throughput (Mbit/s), more is better →", "drop rate (%), ← less is better")):
            x_low, x_high = _limits(data, number, experiment.subjects, "delay")
            y_low, y_high = _limits(data, number, experiment.subjects, quantity)
            body += [f"set tmargin at screen {top:g}; set bmargin at screen {top - ROW_PX / height:g}",
                     f"set lmargin at screen {left:g}; set rmargin at screen {right:g}",
                     f"set xrange [{x_low:g}:{x_high:g}]; set yrange [{y_low:g}:{y_high:g}]",
                     f"set ylabel {gnuplot.quote(label)} offset 1",
                     "set xlabel 'queueing delay (ms), ← less is better'" if number == len(others) - 1
                     else "unset xlabel",
                     f"set label 1 {gnuplot.quote(named)} at graph 0, graph 1.04 textcolor '#444444'"
                     if named and quantity == "throughput" else "unset label 1"]
            curves = [curve for subject in experiment.subjects
                      for curve in _lines(experiment, data, number, subject, quantity)]
            body += [gnuplot.plot(*curves), "unset key"] if curves else ["plot NaN"]
    gnuplot.draw(folder, "delay_throughput", pd.DataFrame(data), [*body, "unset multiplot"], width=WIDTH, height=height)


def _limits(data: dict[str, pd.Series], number: int, subjects: list[str], quantity: str) -> tuple[float, float]:
    """The range of the means and of as much of their intervals as leaves the means room; not below 0."""
    known = {column: pd.concat([data[key] for subject in subjects if (
        key := f"{number} {subject} {quantity} {column}") in data]) for column in COLUMNS}
    low, high = known["mean"].min(), known["mean"].max()
    reach = max(high - low, 0.02 * high)
    low = max(np.nanmin([low, known["ci95_low"].min()]), low - reach / 2)
    high = min(np.nanmax([high, known["ci95_high"].max()]), high + reach / 2)
    margin = 0.06 * (high - low) or 0.5
    return max(0.0, low - margin), high + margin


def _lines(experiment: Experiment, data: dict[str, pd.Series], number: int, subject: str, quantity: str) -> list[str]:
    """Bars of both intervals, then the curve; the buffers beside the points of the first subject."""
    if f"{number} {subject} limit" not in data:
        return []

    def of(name: str) -> str:
        return gnuplot.quote(f"{number} {subject} {name}")

    def at(name: str) -> str:
        return f"(column({of(name)}))"
    look = style.looks(experiment.subjects)[subject]
    file, bar = "'delay_throughput.csv' using", f"with vectors nohead linewidth 1 linecolor '{look.colour}'"
    x, y = at("delay mean"), at(f"{quantity} mean")
    found = []
    if data[f"{number} {subject} delay ci95_low"].notna().any():
        found = [f"{file} {at('delay ci95_low')}:{y}:({at('delay ci95_high')} - {at('delay ci95_low')}):(0) {bar}",
                 f"{file} {x}:{at(f'{quantity} ci95_low')}:(0):({at(f'{quantity} ci95_high')} - "
                 f"{at(f'{quantity} ci95_low')}) {bar}"]
    found.append(f"{file} {x}:{y} with linespoints linewidth 1.8 dashtype {look.dash} pointtype {look.point} "
                 f"pointsize 0.7 linecolor '{look.colour}' title {gnuplot.quote(subject)}")
    if subject == experiment.subjects[0]:
        found.append(f"{file} {x}:{y}:(sprintf('%g', {at('limit')})) with labels offset 0.3,0.9 left font ',9' "
                     f"textcolor '{look.colour}'")
    return found
