# SPDX-License-Identifier: GPL-2.0-only
"""The figure of QUIC stacks: what each gets beside the kernel's CUBIC, and its queue when it is alone."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.compare.stacks import KERNEL, QUANTITIES, Stacks
from analysis.drawing import gnuplot, style

NAME = "stacks"
_ROW_PX, _ROOM_PX = 24, 110
_PANELS = (("beside", "rate"), ("alone", "delay"))


def draw(found: Stacks, folder: Path) -> str:
    """Name of the figure in `folder`; '' where there is nothing to draw."""
    panels = [one for one in QUANTITIES if (one.pattern, one.name) in _PANELS]
    panels = [panel for panel in panels if any(found.values(one, panel) for one in found.senders)]
    senders = [one for one in found.senders if any(found.values(one, panel) for panel in panels)]
    if not senders:
        return ""
    rows = len(senders)
    height = _ROOM_PX + _ROW_PX * rows
    names = ", ".join(f"{gnuplot.tick(str(sender))} {rows - place}" for place, sender in enumerate(senders))
    body = [f"set multiplot layout 1,{len(panels)} margins 0.15,0.985,{58 / height:g},{1 - 34 / height:g} spacing 0.03",
            f"set yrange [0.4:{rows + 0.6:g}]; set grid x", f"set ytics ({names})"]
    data: dict[str, pd.Series] = {}
    for number, panel in enumerate(sorted(panels, key=lambda one: _PANELS.index((one.pattern, one.name)))):
        shown = []
        for whose, colour in (("kernel", style.PALETTE[0]), ("stacks", style.PALETTE[1])):
            table = pd.DataFrame([(summary.mean, _end(summary.low, summary.mean), _end(summary.high, summary.mean),
                                   rows - place) for place, sender in enumerate(senders)
                                  if (sender.stack == KERNEL) == (whose == "kernel")
                                  and (summary := found.summary(sender, panel))], columns=["mean", "low", "high", "y"])
            if len(table):
                shown.append((whose, colour))
                data |= {f"{number} {whose} {column}": table[column] for column in table}
        title = {"beside": "Beside the kernel's CUBIC", "alone": "Alone"}[panel.pattern]
        body += [f"set label 1 {gnuplot.quote(title)} at graph 0, graph 1 offset 0,0.8 font ',12'",
                 f"set xlabel {gnuplot.quote(f'{panel.label} ({panel.unit})')}", "set xrange [0:*]",
                 gnuplot.plot(*(f"'{NAME}.csv' using " + ":".join(
                     gnuplot.quote(f"{number} {whose} {column}") for column in ("mean", "y", "low", "high"))
                     + f" with xerrorbars linewidth 1.8 pointtype 7 pointsize 0.8 linecolor '{colour}'"
                     for whose, colour in shown)),
                 # names stand at the first panel
                 "set ytics (" + ", ".join(f"'' {place}" for place in range(1, rows + 1)) + ")"]
    gnuplot.draw(folder, NAME, pd.DataFrame(data), [*body, "unset multiplot"], height=height)
    return NAME


def _end(end: float | None, mean: float) -> float:
    return mean if end is None else end
