# SPDX-License-Identifier: GPL-2.0-only
"""The figure of a criterion: a panel for each test, with the candidate's values, their intervals and the thresholds."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from analysis.compare.assessment import Assessed, Finding, name_of
from analysis.drawing import gnuplot, style
from analysis.drawing.named_axis import LETTER_PX
from testbed.core import assessed

_PANEL_PX, _TOP_PX = 240, 54
#: of which panels are wide, all together
_WIDTH_PX = 850
_POINTS, _OTHERS = (4, 8, 6, 12), "#70757c"
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
    shown: dict[str, None] = {}
    name = one.about.name
    for number, found in enumerate(panels.values()):
        test = found[0].test
        others = [name for name in found[0].measured if name != one.candidate] if test.of == assessed.VALUE else []
        table = pd.DataFrame([(place, *_interval(finding), *(finding.measured.get(other, math.nan) for other in others))
                              for place, finding in enumerate(found)],
                             columns=["x", "mean", "low", "high", *(f"of {other}" for other in others)])
        data |= {f"{number} {column}": table[column] for column in table}
        x, mean, low, high, *theirs = (gnuplot.quote(f"{number} {column}") for column in table)
        limits = test.threshold
        ends = [end for end in (*table.drop(columns="x").to_numpy().ravel(), limits.meets, limits.fails)
                if math.isfinite(end)]
        top, bottom = max(ends), min(0.0, *ends)
        shown |= dict.fromkeys(others)
        longest_px = LETTER_PX * max(len(_tick(finding)) for finding in found)
        turn = "rotate by -30" if longest_px > _WIDTH_PX / columns / len(found) else "norotate"
        ticks = ", ".join(f"{gnuplot.quote(_tick(finding))} {place}" for place, finding in enumerate(found))
        body += [f"set xrange [-0.6:{len(found) - 0.4:g}]", f"set xtics {turn} ({ticks})",
                 f"set yrange [{bottom:g}:{1.1 * top or 1:g}]",
                 f"set label 1 {gnuplot.quote(_title(found[0]))} at graph 0, graph 1.07 font ',11'",
                 gnuplot.plot(f"{limits.meets:g} with lines linewidth 1.2 dashtype 2 linecolor '{_GOOD}'",
                              f"{limits.fails:g} with lines linewidth 1.2 dashtype 2 linecolor '{_BAD}'",
                              f"'{name}.csv' using {x}:{mean}:{low}:{high} with yerrorbars linewidth 1.6 pointtype 7 "
                              f"pointsize 0.6 linecolor '{style.PALETTE[0]}'",
                              *(f"'{name}.csv' using (column({x})+{0.12 * (1 + place):g}):{their} with points "
                                f"pointtype {_POINTS[place % len(_POINTS)]} pointsize 0.7 linecolor '{_OTHERS}'"
                                for place, their in enumerate(theirs)))]
    for place, other in enumerate(shown):
        body.insert(0, f"set label {10 + place} {gnuplot.quote(other)} at screen {0.12 + 0.1 * place:g}, screen "
                       f"{1 - 14 / height:g} point pointtype {_POINTS[place % len(_POINTS)]} linecolor '{_OTHERS}' "
                       f"offset 1,0 textcolor '{_OTHERS}'")
    gnuplot.draw(folder, name, pd.DataFrame(data), [*body, "unset multiplot"], height=height)
    return name


def _interval(finding: Finding) -> tuple[float, float, float]:
    assert finding.found
    found = finding.found
    return found.mean, found.mean if found.low is None else found.low, found.mean if found.high is None else found.high


def _title(finding: Finding) -> str:
    return name_of(finding.test) + (f" ({finding.unit})" if finding.test.of in assessed.IN_UNIT and
                                    finding.unit not in ("", "1") else "")


def _tick(finding: Finding) -> str:
    return ", ".join([*finding.said.values(), *filter(None, [finding.against])]) or " "
