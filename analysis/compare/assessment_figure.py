# SPDX-License-Identifier: GPL-2.0-only
"""The figure of a criterion: a panel for each test, with the candidate's values, their intervals and the thresholds."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from analysis.compare.assessment import Assessed, Finding
from analysis.drawing import gnuplot, style

_PANEL_PX, _TOP_PX, _MOST = 240, 40, 9
_GOOD, _BAD = style.PALETTE[2], style.PALETTE[1]


def draw(one: Assessed, folder: Path) -> str:
    """Name of the figure in `folder`; '' where there is nothing to draw."""
    panels: dict[str, list[Finding]] = {}
    for finding in one.findings:
        if finding.found and math.isfinite(finding.found.mean):
            panels.setdefault(finding.test.name, []).append(finding)
    if not panels:
        return ""
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    height = rows * _PANEL_PX + _TOP_PX
    body = [f"set multiplot layout {rows},{columns} margins 0.07,0.985,{70 / height:g},{1 - _TOP_PX / height:g} "
            f"spacing 0.07,{90 / height:g}"]
    data: dict[str, pd.Series] = {}
    name = one.about.name
    for number, found in enumerate(panels.values()):
        test = found[0].test
        table = pd.DataFrame([(place, *_interval(finding)) for place, finding in enumerate(found)],
                             columns=["x", "mean", "low", "high"])
        data |= {f"{number} {column}": table[column] for column in table}
        x, mean, low, high = (gnuplot.quote(f"{number} {column}") for column in table)
        limits = test.threshold
        ends = [*table.drop(columns="x").to_numpy().ravel(), limits.meets, limits.fails]
        top, bottom = max(ends), min(0.0, *ends)
        ticks = ", ".join(f"{gnuplot.quote(_tick(finding))} {place}" for place, finding in enumerate(found))
        body += [f"set xrange [-0.6:{len(found) - 0.4:g}]", f"set xtics rotate by -30 ({ticks})",
                 f"set yrange [{bottom:g}:{1.1 * top or 1:g}]",
                 f"set label 1 {gnuplot.quote(_title(found[0]))} at graph 0, graph 1.07 font ',11'",
                 gnuplot.plot(f"{limits.meets:g} with lines linewidth 1.2 dashtype 2 linecolor '{_GOOD}'",
                              f"{limits.fails:g} with lines linewidth 1.2 dashtype 2 linecolor '{_BAD}'",
                              f"'{name}.csv' using {x}:{mean}:{low}:{high} with yerrorbars linewidth 1.6 pointtype 7 "
                              f"pointsize 0.6 linecolor '{style.PALETTE[0]}'")]
    gnuplot.draw(folder, name, pd.DataFrame(data), [*body, "unset multiplot"], height=height)
    return name


def _interval(finding: Finding) -> tuple[float, float, float]:
    assert finding.found
    found = finding.found
    return found.mean, found.mean if found.low is None else found.low, found.mean if found.high is None else found.high


def _title(finding: Finding) -> str:
    test = finding.test
    return test.label + (f" ({finding.unit})" if test.of == "value" and finding.unit not in ("", "1") else "")


def _tick(finding: Finding) -> str:
    return ", ".join([*finding.point.values(), *filter(None, [finding.against])]) or " "
