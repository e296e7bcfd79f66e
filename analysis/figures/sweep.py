# SPDX-License-Identifier: GPL-2.0-only
"""Results of a sweep against what it varies: one line per subject, with 95 % confidence intervals.

Bars and not bands: nothing is known of the spread between points. No line joins values that are names.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis import metrics, stats
from analysis.drawing import gnuplot, legend, named_axis, style
from analysis.figures import Figure
from analysis.read import tcp
from analysis.read.experiment import Axis, Experiment, Row

ORDER = 3  # before what shows single points
OVERVIEW = 20
MOST_PANELS = 4  # side by side
MOST_FLOWS = 4   # with a row of panels each
MOST_DESCRIBED = 2  # with a row for each quantity
MANY_VALUES = 3.0  # decades that the values of an axis span, from which on it is logarithmic
WIDTH, ROW_PX, TOP_PX, BOTTOM_PX, GAP_PX = 1000, 190, 58, 64, 26
BAR_STEP = 0.006  # between the bars of two subjects, of the width of a panel


class Quantity(NamedTuple):
    """A row of panels; a ratio has a logarithmic axis with a line at 1, and geometric means."""

    metric: str
    scope: str
    label: str
    ratio: bool = False


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    """The axis of numbers with the most values is drawn on x; where there are but names, that of names."""
    axis = drawn_axis(experiment)
    if axis is None or experiment.centre is not None:       # each axis by itself: one_at_a_time.py
        return []
    link = next(iter(experiment.usable_runs[0].bottlenecks), None)
    figures = []
    if link is not None:
        figures += panels(experiment, folder, axis, "sweep", f"Bottleneck, {style.direction(link)}", of_link(link))
    return figures + panels(experiment, folder, axis, "sweep_flows", "Long flows", of_flows(experiment))


def drawn_axis(experiment: Experiment) -> Axis | None:
    """The axis of numbers that has most values, else that of names."""
    varied = [axis for axis in experiment.axes if len(axis.values) > 1]
    numeric = [axis for axis in varied if axis.numbers is not None]
    of_most = sorted(numeric or varied, key=lambda one: -len(one.values))
    return of_most[0] if of_most else None


def of_link(link: str) -> list[Quantity]:
    """What is drawn of a bottleneck."""
    return [Quantity("throughput_mean", link, "throughput (Mbit/s)"),
            Quantity("queueing_delay_mean", link, "queueing delay (ms)"), Quantity("drop_rate", link, "drop rate (%)")]


def of_flows(experiment: Experiment) -> list[Quantity]:
    """Throughput of each flow if they are few, else their sum; of one or two all that is known."""
    flows = {flow.flow: flow for run in experiment.usable_runs for flow in tcp.listed_flows(run)}
    if len(flows) > MOST_FLOWS:
        return [Quantity("mean_agg_throughput_l4", "all", "sum of flows (Mbit/s)")]
    if len(flows) <= MOST_DESCRIBED:
        of = [(f"flow_{number}", f"flow {number}: " if len(flows) > 1 else "") for number in sorted(flows)]
        return [Quantity(metric, scope, whose + label) for metric, label in (
            ("mean_throughput_l4", "throughput (Mbit/s)" if len(flows) == 1 else "Mbit/s"),
            ("mean_srtt_l4", "round-trip time (ms)" if len(flows) == 1 else "RTT (ms)"),
            ("flow_loss", "packets lost (%)" if len(flows) == 1 else "lost (%)")) for scope, whose in of]
    return [Quantity("mean_throughput_l4", f"flow_{number}", f"flow {number} (Mbit/s)") for number in sorted(flows)]


def panels(experiment: Experiment, folder: Path, axis: Axis, name: str, title: str,
           quantities: list[Quantity]) -> list[Figure]:
    """A row of panels for each quantity that is there, against an axis; [] if none is."""
    place = experiment.axes.index(axis)
    others = list(dict.fromkeys(row.point[:place] + row.point[place + 1:] for row in experiment.rows))
    shown = others[:MOST_PANELS]
    data: dict[str, pd.Series] = {}
    for quantity in quantities:
        for other in shown:
            for subject in experiment.subjects:
                rows = [row for row in experiment.rows if row.subject == subject
                        and row.point[:place] + row.point[place + 1:] == other]
                table = values_of(experiment, rows, axis, place, quantity)
                for column in table:
                    data[f"{_key(quantity, other, subject)} {column}"] = table[column]
    quantities = [quantity for quantity in quantities if any(
        key.startswith(f"{quantity.metric} {quantity.scope} ") for key in data)]
    if not quantities:
        return []
    _script(experiment, folder, name, axis, place, quantities, shown, data)
    rest = [one for one in experiment.axes if one is not axis]
    columns = f" One column of panels for each {' and '.join(one.short for one in rest)}" if len(others) > 1 else ""
    if columns:
        columns += f", the first {len(shown)} of {len(others)}." if len(others) > len(shown) else "."
    several = max(len(experiment.usable(row)) for row in experiment.rows) > 1
    spread = ("Points are means over seeds, bars their 95 % confidence intervals, cut off where they leave the panel."
              ) if several else \
        "One seed at each point: nothing is known of the spread."
    return [Figure(name, f"{title}, against {axis.short}",
                   f"{axis.key} is what the sweep varies. {spread}{columns}")]


def _key(quantity: Quantity, other: tuple[str, ...], subject: str) -> str:
    return " ".join([quantity.metric, quantity.scope, *other, subject])


def values_of(experiment: Experiment, rows: list[Row], axis: Axis, place: int, quantity: Quantity) -> pd.DataFrame:
    """Of rows that differ by their values of one axis: x, mean, low and high of the points that have some, by x.

    No columns if none has.
    """
    found = []
    for row in rows:
        if row.point[place] not in axis.values:         # a point of the sweep that leaves this axis out
            continue
        values = [value for run in experiment.usable(row) for value in _values(metrics.load_metrics(run), quantity)]
        if values:
            summary = stats.summarise(values, quantity.ratio, metrics.most(quantity.metric))
            found.append((axis.places[axis.values.index(row.point[place])], summary.mean,
                          np.nan if summary.low is None else summary.low,
                          np.nan if summary.high is None else summary.high))
    columns = ["x", "mean", "ci95_low", "ci95_high"]
    return pd.DataFrame(sorted(found), columns=columns) if found else pd.DataFrame()


def _values(measured: pd.DataFrame, quantity: Quantity) -> list[float]:
    mine = measured[(measured["metric"] == quantity.metric) & (measured["scope"] == quantity.scope)]
    return [float(value) for value in mine["value"]]


def _script(experiment: Experiment, folder: Path, name: str, axis: Axis, place: int, quantities: list[Quantity],
            shown: list[tuple[str, ...]], data: dict[str, pd.Series]) -> None:
    xs, named = np.array(axis.places), axis.numbers is None
    logarithmic = not named and bool((xs > 0).all()) and np.log10(xs.max() / xs.min()) >= MANY_VALUES \
        and np.median(xs) < xs.max() / 10           # 0.001, 1, 2, 3, ... are even but for the first
    margin = 0.04 * (xs.max() - xs.min())
    names = named_axis.NamedAxis(axis.values, (985 - 70) / len(shown))
    step, below_px = named_axis.step(len(experiment.subjects)), BOTTOM_PX + names.more_px * named
    top_px = TOP_PX + legend.more_px(experiment.subjects)
    height = top_px + below_px + len(quantities) * (ROW_PX + GAP_PX) - GAP_PX
    ends = (xs.min() / 1.15, xs.max() * 1.15) if logarithmic else names.ends if named else \
        (xs.min() - margin, xs.max() + margin)

    def beside(x: str, steps: float) -> str:
        return f"{x} * {(ends[1] / ends[0]) ** (BAR_STEP * steps):g}" if logarithmic else \
            f"{x} + {steps * (step if named else BAR_STEP * (ends[1] - ends[0])):g}"

    def ticks(last: bool) -> str:
        return names.ticks(last) if named else f"set xtics format '{'%g' if last else ''}'"
    body = ["set multiplot", f"set xrange [{ends[0]:g}:{ends[1]:g}]",
            "set logscale x" if logarithmic else "unset logscale x",
            legend.above(experiment.subjects, 70 / WIDTH, height)]
    for row, quantity in enumerate(quantities):
        top = 1 - (top_px + row * (ROW_PX + GAP_PX)) / height
        bottom, top_value = _ends(quantity, data)
        for column, other in enumerate(shown):
            wide = (985 - 70) / len(shown)
            left = 70 + column * wide + (40 if column else 0)
            body += [f"set tmargin at screen {top:g}; set bmargin at screen {top - ROW_PX / height:g}",
                     f"set lmargin at screen {left / WIDTH:g}; "
                     f"set rmargin at screen {(70 + (column + 1) * wide) / WIDTH:g}",
                     f"set logscale y; set ytics ({style.log_ticks(bottom, top_value)})" if quantity.ratio
                     else "unset logscale y; set ytics autofreq",
                     f"set yrange [{bottom:g}:{top_value:g}]",
                     f"set ylabel {gnuplot.quote(quantity.label)} offset 1" if not column else "unset ylabel",
                     "unset xlabel" if row < len(quantities) - 1 else
                     names.label(axis.short, named_axis.LABEL_PX / height) if named else
                     f"set xlabel {gnuplot.quote(axis.label)}",
                     ticks(row == len(quantities) - 1),
                     f"set label 1 {gnuplot.quote(_panel(experiment, place, other))} at graph 0, graph 1.07 "
                     "textcolor '#444444'" if not row and len(shown) > 1 else "unset label 1"]
            curves = _curves(experiment, name, quantity, other, data, beside, named)
            if quantity.ratio:
                curves.insert(0, f"1 with lines dashtype 3 linecolor '{style.GREY}' notitle")
            body += [gnuplot.plot(*curves), "unset key"] if curves else ["plot NaN"]
    gnuplot.draw(folder, name, pd.DataFrame(data), [*body, "unset multiplot"], width=WIDTH, height=height)


def _ends(quantity: Quantity, data: dict[str, pd.Series]) -> tuple[float, float]:
    """What the axis of a quantity goes from and to: 0, or of a ratio what leaves room on both sides of 1."""
    if not quantity.ratio:
        highest = _highest(quantity, data)
        return 0, 1.06 * highest if highest > 0 else 1
    means = [value for key, column in data.items() for value in column.dropna()
             if key.startswith(f"{quantity.metric} {quantity.scope} ") and key.endswith(" mean")]
    return min([1, *means]) / 1.5, max([1, *means]) * 1.5


def _highest(quantity: Quantity, data: dict[str, pd.Series]) -> float:
    """What the panels of a quantity have to hold; wide intervals of two seeds may reach beyond."""
    of_row = [key for key in data if key.startswith(f"{quantity.metric} {quantity.scope} ") and data[key].notna().any()]
    means = max(float(data[key].max()) for key in of_row if key.endswith(" mean"))
    ends = [float(data[key].max()) for key in of_row if key.endswith(" ci95_high")]
    return min(max([means, *ends]), 2 * means) if means > 0 else max([means, *ends])


def _panel(experiment: Experiment, place: int, other: tuple[str, ...]) -> str:
    rest = experiment.axes[:place] + experiment.axes[place + 1:]
    return ", ".join(axis.say(value) for axis, value in zip(rest, other))


def _curves(experiment: Experiment, name: str, quantity: Quantity, other: tuple[str, ...],
            data: dict[str, pd.Series], beside: Callable[[str, float], str], named: bool) -> list[str]:
    """Bars first, so that they hide no line; those of the subjects a little apart: beside(x, steps)."""
    bars, lines = [], []
    for place, (subject, look) in enumerate(style.looks(experiment.subjects).items()):
        key = _key(quantity, other, subject)
        if f"{key} x" not in data:
            continue
        x, mean, low, high = (gnuplot.quote(f"{key} {column}") for column in ("x", "mean", "ci95_low", "ci95_high"))
        at = beside(f"column({x})", place - (len(experiment.subjects) - 1) / 2)
        if data[f"{key} ci95_low"].notna().any():
            bottom = f"(column({low}) < 0 ? 0 : column({low}))"
            bars.append(f"'{name}.csv' using ({at}):{bottom}:(0):(column({high}) - {bottom}) with vectors nohead "
                        f"linewidth 1 linecolor '{look.colour}'")
        points = f"({at}):{mean} with points" if named else \
            f"{x}:{mean} with linespoints linewidth 1.8 dashtype {look.dash}"
        lines.append(f"'{name}.csv' using {points} pointtype {look.point} pointsize {1 if named else 0.6} "
                     f"linecolor '{look.colour}' title {gnuplot.quote(subject)}")
    return bars + lines
