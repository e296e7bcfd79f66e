# SPDX-License-Identifier: GPL-2.0-only
"""A sweep that varies one thing at a time: a figure for each axis, what the whole network did against it.

Bands and lines over numbers; of values that are names, bars and points side by side.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.drawing import gnuplot, legend, named_axis, style
from analysis.figures import Figure
from analysis.figures.sweep import Quantity, values_of
from analysis.read.experiment import Axis, Experiment

ORDER = 4
WIDTH, ROW_PX, TOP_PX, BOTTOM_PX, GAP_PX, LEFT_PX, BETWEEN_PX = 1000, 190, 70, 56, 34, 64, 62
COLUMNS = 3


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    """Nothing unless all points differ from one of them on a single axis."""
    if experiment.centre is None:
        return []
    found = []
    for axis in experiment.axes:
        if len(axis.values) > 1:
            found += _draw(experiment, folder, axis, experiment.centre)
    return found


def _quantities(experiment: Experiment) -> list[Quantity]:
    """What is drawn of a network, as far as it was measured."""
    run = experiment.usable_runs[0]
    link = next(iter(run.targets), "")
    ends = {run.direction_between(flow.sender, flow.receiver) for flow in run.flows}
    direction = run.bottlenecks[link].direction if link else ends.pop() if len(ends) == 1 else ""
    return [Quantity("throughput_mean", link, "throughput (Mbit/s)") if link else
            Quantity("arrived_rate_l3", "all", "throughput (Mbit/s)"),
            Quantity("goodput", direction or "all", "goodput (Mbit/s)"),
            Quantity("end_to_end_delay_mean", "all", "end-to-end delay (ms)"),
            Quantity("delivery_ratio", "all", "delivered (%)"), Quantity("drop_ratio", "all", "dropped (%)"),
            Quantity("jains_index_whole", "all", "Jain's index"),
            *(Quantity("air_busy", str(cell.name), "channel busy (%)") for cell in run.network.cells),
            Quantity("attempts_per_frame", "all", "attempts per frame"),
            Quantity("air_queue_mean", "all", "frames waiting")]


def _draw(experiment: Experiment, folder: Path, axis: Axis, centre: tuple[str, ...]) -> list[Figure]:
    place, name = experiment.axes.index(axis), f"sweep_{axis.short.replace('.', '_')}"
    data: dict[str, pd.Series] = {}
    drawn: list[tuple[Quantity, dict[str, str]]] = []
    for quantity in _quantities(experiment):
        keys = {}
        for subject in experiment.subjects:
            rows = [row for row in experiment.rows if row.subject == subject
                    and row.point[:place] + row.point[place + 1:] == centre[:place] + centre[place + 1:]]
            table = values_of(experiment, rows, axis, place, quantity)
            if len(table):
                keys[subject] = f"{quantity.metric} {subject}"
                data |= {f"{keys[subject]} {column}": table[column] for column in table}
        if keys:
            drawn.append((quantity, keys))
    if not drawn:
        return []
    _script(experiment, folder, name, axis, drawn, data)
    fixed = ", ".join(one.say(value) for one, value in zip(experiment.axes, centre) if one is not axis)
    several = max(len(experiment.usable(row)) for row in experiment.rows) > 1
    named = axis.numbers is None
    spread = f"Points are means over seeds, {'bars' if named else 'bands'} their 95 % confidence intervals" if several \
        else "One seed at each point: nothing is known of the spread"
    between = "" if named else "; between points nothing was measured"
    return [Figure(name, f"The network, against {axis.short}",
                   f"At {fixed}. {spread}{between}. Axes do not begin at 0.")]


def _script(experiment: Experiment, folder: Path, name: str, axis: Axis,
            drawn: list[tuple[Quantity, dict[str, str]]], data: dict[str, pd.Series]) -> None:
    looks = style.looks(experiment.subjects)
    rows = -(-len(drawn) // COLUMNS)
    top_px = TOP_PX + legend.more_px(experiment.subjects)
    wide = (WIDTH - LEFT_PX - 14 + BETWEEN_PX) / COLUMNS
    names = named_axis.NamedAxis(axis.values, wide - BETWEEN_PX) if axis.numbers is None else None
    below_px = BOTTOM_PX + (names.more_px if names else 0)
    height = top_px + below_px + rows * (ROW_PX + GAP_PX) - GAP_PX
    low, high = min(axis.places), max(axis.places)
    ends = names.ends if names else (low - 0.04 * (high - low), high + 0.04 * (high - low))
    body = ["set multiplot", f"set xrange [{ends[0]:g}:{ends[1]:g}]",
            "set style fill transparent solid 0.25 noborder",
            legend.above(experiment.subjects, LEFT_PX / WIDTH, height)]
    for number, (quantity, keys) in enumerate(drawn):
        row, column = divmod(number, COLUMNS)
        top, left = 1 - (top_px + row * (ROW_PX + GAP_PX)) / height, (LEFT_PX + column * wide) / WIDTH
        bounds = _range([data[f"{key} {part}"] for key in keys.values()
                         for part in ("mean", "ci95_low", "ci95_high")])
        bottom = number + COLUMNS >= len(drawn)
        body += [f"set tmargin at screen {top:g}; set bmargin at screen {top - ROW_PX / height:g}",
                 f"set lmargin at screen {left:g}; set rmargin at screen {left + (wide - BETWEEN_PX) / WIDTH:g}",
                 f"set yrange [{bounds[0]:g}:{bounds[1]:g}]",
                 f"set label 1 {gnuplot.quote(quantity.label)} at graph 0, graph 1.08",
                 "unset xlabel" if not bottom else
                 names.label(axis.short, top - (ROW_PX + below_px - named_axis.LABEL_PX) / height) if names else
                 f"set xlabel {gnuplot.quote(axis.label)}",
                 names.ticks(bottom) if names else f"set xtics format '{'%g' if bottom else ''}'"]
        spreads, means = [], []
        for subject, key in keys.items():
            x, mean, least, most = (gnuplot.quote(f"{key} {part}") for part in ("x", "mean", "ci95_low", "ci95_high"))
            look, place = looks[subject], experiment.subjects.index(subject) - (len(experiment.subjects) - 1) / 2
            at = f"(column({x}) + {place * named_axis.step(len(experiment.subjects)):g})" if names else x
            if data[f"{key} ci95_low"].notna().any():
                length = f"(column({most}) - column({least}))"
                spreads.append(f"'{name}.csv' using {at}:{least}:(0):{length} with vectors "
                               f"nohead linewidth 1 linecolor '{look.colour}'" if names else
                               f"'{name}.csv' using {at}:{least}:{most} with filledcurves fillcolor '{look.colour}'")
            drawn_as = "points" if names else f"linespoints linewidth 1.8 dashtype {look.dash}"
            means.append(f"'{name}.csv' using {at}:{mean} with {drawn_as} pointtype {look.point} pointsize "
                         f"{1 if names else 0.6} linecolor '{look.colour}' title {gnuplot.quote(subject)}")
        body += [gnuplot.plot(*spreads, *means), "unset key"]
    gnuplot.draw(folder, name, pd.DataFrame(data), [*body, "unset multiplot"], width=WIDTH, height=height)


def _range(columns: list[pd.Series]) -> tuple[float, float]:
    """Around all values, at least a hundredth of them wide."""
    low, high = (float(getattr(pd.concat(columns), end)()) for end in ("min", "max"))
    margin = max(0.08 * (high - low), 0.005 * max(abs(low), abs(high)), 1e-9)
    return low - margin, high + margin
