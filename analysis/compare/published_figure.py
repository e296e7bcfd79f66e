# SPDX-License-Identifier: GPL-2.0-only
"""The figure of a published result: theirs, ours and where ours would agree, over the axis with the most values.

A panel for each quantity and for each value of the other axes.
"""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.compare.published import Judged, Verdict
from analysis.drawing import gnuplot, style
from analysis.read.experiment import Axis, axis_of

_COLUMNS, _PANEL_PX, _TOP_PX = 3, 210, 54
MOST_PANELS = 12
_THEIRS, _OURS, _AGREES = style.PALETTE[1], style.PALETTE[0], "#dfe6dc"


def draw(one: Judged, folder: Path) -> str:
    """Name of the figure in `folder`; '' where there is nothing to draw."""
    shown = [verdict for verdict in one.verdicts if verdict.ours.values]
    if not shown:
        return ""
    axes = {axis: list(dict.fromkeys(verdict.cell.point[axis] for verdict in shown)) for axis in shown[0].cell.point}
    across = max(axes, key=lambda axis: len(axes[axis]), default="")
    panels: dict[str, list[Verdict]] = {}
    for verdict in shown:
        others = [f"{one.axes[name].short} {one.axes[name].with_unit(value)}"
                  for name, value in verdict.cell.point.items() if name != across]
        title = ", ".join(filter(None, [verdict.label, verdict.cell.cca, *others]))
        panels.setdefault(title, []).append(verdict)
    axis = axis_of(across, across.rpartition(".")[2], axes.get(across, [""]),
                   unit=one.axes[across].unit if across else "")
    _draw(folder, one.about.name, axis, dict(list(panels.items())[:MOST_PANELS]))
    return one.about.name


def _draw(folder: Path, name: str, axis: Axis, panels: dict[str, list[Verdict]]) -> None:
    places = dict(zip(axis.values, axis.places))
    log = axis.numbers is not None and min(axis.numbers) > 0 and max(axis.numbers) / min(axis.numbers) > 20
    columns = min(_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    height = rows * _PANEL_PX + _TOP_PX
    margin = 0.06 * (max(axis.places) - min(axis.places) or 1)
    low, high = (min(axis.places) / 1.3, max(axis.places) * 1.3) if log else (
        min(axis.places) - margin, max(axis.places) + margin)
    body = [f"set multiplot layout {rows},{columns} margins 0.07,0.985,{46 / height:g},{1 - _TOP_PX / height:g} "
            f"spacing 0.06,{56 / height:g}",
            f"set label 2 'published' at screen 0.07, screen {1 - 16 / height:g} textcolor '{_THEIRS}'",
            f"set label 3 'here' at screen 0.17, screen {1 - 16 / height:g} textcolor '{_OURS}'",
            f"set label 4 'grey: where ours would agree' at screen 0.23, screen {1 - 16 / height:g}",
            *(["set logscale x"] if log else []), f"set xrange [{low:g}:{high:g}]"]
    if axis.numbers is None or len(places) == 1:
        shown = axis.values if axis.numbers is None else [f"{number:g}" for number in axis.numbers]
        body.append("set xtics (" + ", ".join(f"{gnuplot.tick(value)} {place:g}"
                                              for value, place in zip(shown, axis.places)) + ")")
    # beside each other, so that neither hides the other
    aside = "*1.025" if log else f"+{0.02 * (high - low):g}"
    data: dict[str, pd.Series] = {}
    for number, (title, verdicts) in enumerate(panels.items()):
        table = pd.DataFrame([(places[verdict.cell.point.get(axis.key, axis.values[0])], *_theirs(verdict),
                               verdict.ours.mean, verdict.ours.mean - verdict.ours.sd,
                               verdict.ours.mean + verdict.ours.sd) for verdict in verdicts],
                             columns=["x", "theirs", "least", "most", "ours", "low", "high"])
        finite = table.drop(columns="x").to_numpy().ravel()
        top = max((float(value) for value in finite if math.isfinite(value)), default=1.0)
        bottom = min((float(value) for value in finite if math.isfinite(value)), default=0.0)
        ends = min(0.0, 1.1 * bottom), 1.1 * top or 1
        # of no more than the panel shows: limits may be infinite
        table["from"], table["to"] = np.clip([(verdict.low, verdict.high) for verdict in verdicts], *ends).T
        data |= {f"{number} {column}": table[column] for column in table}
        x, theirs, least, most, ours, below, above, start, end = (
            gnuplot.quote(f"{number} {column}") for column in table)
        body += [f"set yrange [{ends[0]:g}:{ends[1]:g}]",
                 f"set label 1 {gnuplot.quote(title)} at graph 0, graph 1.07 font ',11'",
                 f"set xlabel {gnuplot.quote(axis.label)} offset 0,0.4",
                 gnuplot.plot(f"'{name}.csv' using {x}:{start}:(0):(column({end})-column({start})) with vectors nohead "
                              f"linewidth 16 linecolor '{_AGREES}'",
                              f"'{name}.csv' using {x}:{theirs}:{least}:{most} with yerrorbars linewidth 1.6 "
                              f"pointtype 6 pointsize 0.7 linecolor '{_THEIRS}'",
                              f"'{name}.csv' using (column({x}){aside}):{ours}:{below}:{above} with yerrorbars "
                              f"linewidth 1.6 pointtype 7 pointsize 0.5 linecolor '{_OURS}'"),
                 "unset label 2", "unset label 3", "unset label 4"]
    gnuplot.draw(folder, name, pd.DataFrame(data), [*body, "unset multiplot"], height=height)


def _theirs(verdict: Verdict) -> tuple[float, float, float]:
    """Mean, least and most of trials; of bounds their middle, or the only one."""
    trials = verdict.cell.trials
    if trials:
        return statistics.fmean(trials), min(trials), max(trials)
    ends = [end for end in (verdict.cell.least, verdict.cell.most) if end is not None]
    return statistics.fmean(ends), min(ends), max(ends)
