# SPDX-License-Identifier: GPL-2.0-only
"""A sweep in several experiments: what it varies on x, their lines with confidence bands in the same panels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from analysis.compare.experiments import Group
from analysis.drawing import gnuplot, style
from analysis.figures import Figure, sweep
from analysis.read.experiment import Axis, Experiment

MOST_COLUMNS = 4
WIDTH, ROW_PX, TOP_PX, BOTTOM_PX, GAP_PX = 1000, 170, 64, 52, 22
LEFT_PX, RIGHT_PX, BETWEEN_PX = 74, 14, 18


def draw(group: Group, folder: Path, looks: dict[str, style.Look]) -> Iterator[Figure]:
    """A column of panels for each congestion control, a row for each quantity; nothing without a sweep of numbers."""
    axis = sweep.drawn_axis(group.reference)
    if axis is None or axis.numbers is None:
        return
    first = next((run for run in group.reference.usable_runs), None)
    link = next(iter(first.bottlenecks), None) if first else None
    quantities = sweep.of_flows(group.reference) or (sweep.of_link(link) if link else [])
    others = group.reference.axes[:], next(iter(group.rows)).point
    subjects = list(dict.fromkeys(row.subject for row in group.rows))
    data: dict[tuple[str, str, str], pd.DataFrame] = {}
    for experiment in group.experiments:
        label, own = group.labels[experiment.path], _same(experiment, axis)
        if own is None:
            continue
        for subject in subjects[:MOST_COLUMNS]:
            for quantity in quantities:
                table = _values(experiment, own, subject, quantity, others)
                if len(table):
                    data[quantity.metric + quantity.scope, subject, label] = table
    quantities = [one for one in quantities if any(key[0] == one.metric + one.scope for key in data)]
    if not quantities:
        return
    _script(folder, axis, quantities, subjects[:MOST_COLUMNS], data, looks)
    fixed = [one.say(value) for one, value in zip(*others) if one is not axis]
    said = f" At {', '.join(fixed)}." if fixed else ""
    rest = f" {len(subjects) - MOST_COLUMNS} more congestion controls are not drawn." * (len(subjects) > MOST_COLUMNS)
    what = "Long flows" if quantities[0].scope != link else f"Bottleneck, {style.direction(link)}"
    yield Figure("sweep", f"{what}, against {axis.short}", (
        f"{axis.key} is what the sweep varies. Points are means over seeds, bands their 95 % confidence intervals at "
        f"the points; between them nothing was measured.{said}{rest}"))


def _same(experiment: Experiment, axis: Axis) -> Axis | None:
    return next((one for one in experiment.axes if one.key == axis.key and one.numbers is not None), None)


def _values(experiment: Experiment, axis: Axis, subject: str, quantity: sweep.Quantity,
            others: tuple[list[Axis], tuple[str, ...]]) -> pd.DataFrame:
    """x, mean, low and high; of other axes of the sweep, at the first point of the reference."""
    fixed = {one.key: value for one, value in zip(*others) if one.key != axis.key}
    rows = [row for row in experiment.rows if row.subject == subject and all(
        fixed.get(one.key, value) == value for one, value in zip(experiment.axes, row.point))]
    return sweep.values_of(experiment, rows, axis, experiment.axes.index(axis), quantity)


def _script(folder: Path, axis: Axis, quantities: list[sweep.Quantity], subjects: list[str],
            data: dict[tuple[str, str, str], pd.DataFrame], looks: dict[str, style.Look]) -> None:
    height = TOP_PX + BOTTOM_PX + len(quantities) * (ROW_PX + GAP_PX) - GAP_PX
    wide = (WIDTH - LEFT_PX - RIGHT_PX + BETWEEN_PX) / len(subjects)
    ends = [number for number in axis.numbers or []]
    margin = 0.03 * (max(ends) - min(ends))
    body = ["set multiplot", f"set xrange [{min(ends) - margin:g}:{max(ends) + margin:g}]",
            f"set key horizontal left bottom at screen {LEFT_PX / WIDTH:g}, screen {1 - 26 / height:g} samplen 2",
            "set style fill transparent solid 0.25 noborder"]
    for row, quantity in enumerate(quantities):
        key = quantity.metric + quantity.scope
        top = 1 - (TOP_PX + row * (ROW_PX + GAP_PX)) / height
        highest = max(float(table["mean"].max()) for place, table in data.items() if place[0] == key)
        last = row == len(quantities) - 1
        for column, subject in enumerate(subjects):
            left = (LEFT_PX + column * wide) / WIDTH
            body += [f"set tmargin at screen {top:g}; set bmargin at screen {top - ROW_PX / height:g}",
                     f"set lmargin at screen {left:g}; set rmargin at screen {left + (wide - BETWEEN_PX) / WIDTH:g}",
                     f"set yrange [0:{1.1 * highest if highest > 0 else 1:g}]",
                     f"set ylabel {gnuplot.quote(quantity.label)} offset 0; set ytics format '%g'" if not column else
                     "unset ylabel; set ytics format ''",
                     f"set xlabel {gnuplot.quote(axis.label)}; "
                     "set xtics format '%g'" if last else "unset xlabel; set xtics format ''",
                     f"set label 1 {gnuplot.quote(subject)} at graph 0, graph 1.07 font ',13'" if not row else
                     "unset label 1"]
            curves = _curves(quantity, subject, data, looks)
            body += [gnuplot.plot(*curves), "unset key"] if curves else ["plot NaN"]
    columns = {f"{_column(key)} {name}": table[name].reset_index(drop=True)
               for key, table in data.items() for name in table}
    gnuplot.draw(folder, "sweep", pd.DataFrame(columns), [*body, "unset multiplot"], width=WIDTH, height=height)


def _curves(quantity: sweep.Quantity, subject: str, data: dict[tuple[str, str, str], pd.DataFrame],
            looks: dict[str, style.Look]) -> list[str]:
    """Bands first, so that they hide no line."""
    bands, lines = [], []
    for key, table in data.items():
        if key[:2] != (quantity.metric + quantity.scope, subject):
            continue
        x, mean, low, high = (gnuplot.quote(f"{_column(key)} {name}") for name in table)
        look = looks[key[2]]
        if table["ci95_low"].notna().any():
            bands.append(f"'sweep.csv' using {x}:(column({low}) < 0 ? 0 : column({low})):{high} with filledcurves "
                         f"fillcolor '{look.colour}'")
        lines.append(f"'sweep.csv' using {x}:{mean} with linespoints linewidth 1.6 pointtype {look.point} "
                     f"pointsize 0.5 linecolor '{look.colour}' title {gnuplot.quote(key[2])}")
    return bands + lines


def _column(key: tuple[str, str, str]) -> str:
    """The name of a column: gnuplot takes a comma for its end."""
    return " ".join(key).replace(",", "")
