# SPDX-License-Identifier: GPL-2.0-only
"""Congestion window and slow-start threshold as tcp_probe has them: of the whole run, and of a part of it.

On request (probe tcp_probe), for the listed TCP flows of the first seed.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.drawing import gnuplot, style
from analysis.figures import Figure
from analysis.flows import recovery, windows
from analysis.read import tcp, zooms
from analysis.read.experiment import Experiment, Row
from analysis.read.runs import Run
from traffic.workload.records import Flow

ORDER = 6
MOST_FLOWS = 4      # in a panel
INK = "#222222"
PANEL_PX, TOP_PX, BOTTOM_PX, GAP_PX = 190, 52, 52, 64
WHOLE, PART = (0.055, 0.555), (0.615, 0.985)  # edges of the two columns, share of the width


class Curve(NamedTuple):
    """What is drawn of a flow; tables have t in us and one value that holds until the next row."""

    label: str
    window: pd.DataFrame
    threshold: pd.DataFrame


class Panel(NamedTuple):
    """A row of the figure."""

    label: str
    curves: list[Curve]
    part: zooms.Span
    end_us: float


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    panels, seeds = [], set()
    for row in experiment.drawn:
        for run in experiment.usable(row)[:1]:
            if panel := _panel(experiment, row, run):
                panels.append(panel)
                seeds.add(run.seed)
    if not panels:
        return []
    _script(experiment, folder, panels)
    return [Figure("cwnd", "Congestion window and slow-start threshold",
                   "From tcp_probe, at every segment that the sender receives: the congestion window (solid) and the "
                   "slow-start threshold (dashed, from when it is first set). Left: the whole run; right: the shaded "
                   f"part of it, {_which(experiment)}. Seed {', '.join(map(str, sorted(seeds)))} only, of each run "
                   f"at most the first {MOST_FLOWS} flows.{experiment.drawn_note}")]


def _which(experiment: Experiment) -> str:
    return "as asked for" if experiment.zoom else "around the first retransmission (another: testbed report --zoom)"


def _panel(experiment: Experiment, row: Row, run: Run) -> Panel | None:
    table, again = run.frame("tcp_probe"), run.frame("retransmissions")
    if table is None:
        return None
    curves, losses, rtts = [], [], []
    for flow in tcp.listed_flows(run)[:MOST_FLOWS]:
        mine = windows.of(table, flow)
        mine = mine[mine["snd_una"] != 0]
        if len(mine) < 2:
            continue
        curves.append(_curve(flow, mine))
        rtts.append(float(mine["srtt_us"].median()))
        if again is not None:
            losses += windows.of(again, flow)["t_us"].head(1).tolist()
    if not curves:
        return None
    end_us = float(run.interval.end_us)
    part = experiment.zoom or zooms.around(min(losses, default=None), max(rtts), end_us)
    return Panel(row.label, curves, part, end_us)


def _curve(flow: Flow, rows: pd.DataFrame) -> Curve:
    t = rows["t_us"].to_numpy()
    return Curve(f"{flow.sender}→{flow.receiver} {tcp.variant_of(flow)}",
                 recovery.changes(t, "cwnd", rows["snd_cwnd"].to_numpy()),
                 recovery.changes(t, "ssthresh", recovery.threshold(rows)).dropna())


def _script(experiment: Experiment, folder: Path, panels: list[Panel]) -> None:
    looks, body = experiment.looks(experiment.drawn), ["set multiplot"]
    columns: dict[str, pd.Series] = {}
    height = TOP_PX + BOTTOM_PX + PANEL_PX * len(panels) + GAP_PX * (len(panels) - 1)
    for place, panel in enumerate(panels):
        top = 1 - (TOP_PX + place * (PANEL_PX + GAP_PX)) / height
        body += [f"set tmargin at screen {top:g}; set bmargin at screen {top - PANEL_PX / height:g}",
                 "set xlabel 'time (s)'" if place == len(panels) - 1 else "unset xlabel"]
        for side, edges, span in (("whole", WHOLE, zooms.Span(0, panel.end_us)), ("part", PART, panel.part)):
            highest, curves = 0.0, []
            for number, curve in enumerate(panel.curves):
                colour = looks[panel.label].colour if len(panel.curves) == 1 else style.PALETTE[number]
                for kind, table in (("cwnd", curve.window), ("ssthresh", curve.threshold)):
                    shown = _within(table, kind, span)
                    name = f"{panel.label} {side} {number} {kind}"
                    columns |= {f"{name} t": shown["t"] / 1e6, name: shown[kind]}
                    # a threshold above all windows tells nothing and would make them small
                    highest = max(highest, shown["cwnd"].max()) if kind == "cwnd" else highest
                    looks_like = f"linewidth 2 linecolor '{colour}'" if kind == "cwnd" else \
                        f"linewidth 1.3 dashtype 2 linecolor '{colour if len(panel.curves) > 1 else INK}'"
                    said = {"cwnd": curve.label if len(panel.curves) > 1 else "congestion window",
                            "ssthresh": "slow-start threshold"}[kind]
                    titled = side == "whole" and (kind == "cwnd" or number == len(panel.curves) - 1)
                    curves.append(f"'cwnd.csv' using {gnuplot.quote(name + ' t')}:{gnuplot.quote(name)} with steps "
                                  f"{looks_like} {'title ' + gnuplot.quote(said) if titled else 'notitle'}")
            body += _side(panel, side, edges, span, highest)
            body += [gnuplot.plot(*curves), "unset label 1", "unset object"]
    data = pd.DataFrame({name: values.reset_index(drop=True) for name, values in columns.items()})
    gnuplot.draw(folder, "cwnd", data, [*body, "unset multiplot"], height=height)


def _side(panel: Panel, side: str, edges: tuple[float, float], span: zooms.Span, highest: float) -> list[str]:
    """The frame of one side of a row."""
    start_s, end_s = span.start_us / 1e6, span.end_us / 1e6
    lines = [f"set lmargin at screen {edges[0]:g}; set rmargin at screen {edges[1]:g}",
             f"set xrange [{start_s:g}:{end_s:g}]; set yrange [0:{1.1 * highest or 1:g}]"]
    if side == "part":
        return [*lines, "unset ylabel; unset key"]
    return [*lines, "set ylabel 'segments' offset 1.5",
            "set key horizontal right bottom at graph 1, graph 1.02 samplen 2 font ',11'",
            f"set label 1 {gnuplot.quote(panel.label)} at graph 0, graph 1.09 font ',13'",
            f"set object 1 rectangle from {panel.part.start_us / 1e6:g}, graph 0 "
            f"to {panel.part.end_us / 1e6:g}, graph 1 behind fillcolor '#e6e6e6' fillstyle solid noborder"]


def _within(table: pd.DataFrame, kind: str, span: zooms.Span) -> pd.DataFrame:
    """What is drawn of a table in a span, with what holds at its beginning and to its end."""
    inside = table[(table["t"] >= span.start_us) & (table["t"] <= span.end_us)]
    before = table[table["t"] < span.start_us].tail(1).assign(t=span.start_us)
    shown = pd.concat([before, inside])
    shown = pd.concat([shown, shown.tail(1).assign(t=span.end_us)])
    return shown.iloc[zooms.thinned(shown["t"].to_numpy(dtype=float), np.asarray(shown[kind], dtype=float))] \
        if len(shown) else shown
