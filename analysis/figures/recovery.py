# SPDX-License-Identifier: GPL-2.0-only
"""What a flow does about its first losses: window and threshold, and data sent and acknowledged.

From tcp_probe, on request; nothing for workloads of many flows.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.drawing import gnuplot, style
from analysis.figures import Figure
from analysis.flows.recovery import LOSS, RECOVERY, Flow, first_to_lose
from analysis.read.experiment import Experiment

ORDER = 5  # first: only there where its probe was asked for
OVERVIEW = 40
MOST_RTTS = 40      # drawn after the first retransmission
INK = "#222222"
SHADES = {RECOVERY: "#e6e6e6", LOSS: "#cfcfcf"}
PANEL_PX, TOP_PX, BOTTOM_PX, GAP_PX = 220, 62, 52, 32
LEFT_AT, RIGHT_AT = (0.055, 0.425), (0.505, 0.985)  # edges of the two columns, share of the width


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    flows: dict[str, Flow] = {}
    seeds = set()
    for row in experiment.drawn:
        for run in experiment.usable(row):
            if row.label not in flows and (flow := first_to_lose(run)):
                flows[row.label] = flow
                seeds.add(run.seed)
    if not flows:
        return []
    name = "recovery"
    _script(experiment, folder, name, flows)
    return [Figure(name, "Loss recovery, segment by segment",
                   "The first retransmissions of the flow that is first to have any, one row per "
                   "congestion control. Left: congestion window and slow-start threshold; look at "
                   "how far and how often they fall, and whether the window then grows from one "
                   "segment (slow start). Shaded, where tcp_info was sampled often enough, is the "
                   "time of repair: light in fast recovery, darker where the kernel works as after "
                   "a timeout. Right: segments sent for the first time and acknowledged; where the "
                   "lower line is flat the receiver waits for a lost segment, where the upper one "
                   "is flat nothing new is sent. Retransmissions are drawn at the time they are "
                   "sent, at the height of what is "
                   f"acknowledged then. Seed {', '.join(map(str, sorted(seeds)))} only.{experiment.drawn_note}")]


def _script(experiment: Experiment, folder: Path, name: str, flows: dict[str, Flow]) -> None:
    rtt_us = max(flow.rtt_us for flow in flows.values())
    first = min(flow.first_us for flow in flows.values())
    start = max(0.0, first - 3 * rtt_us)
    end = min(max(flow.last_us for flow in flows.values()) + 5 * rtt_us, first + MOST_RTTS * rtt_us)
    labels = list(flows)
    looks = experiment.looks(experiment.drawn)
    columns: dict[str, pd.Series] = {}
    for label in labels:
        for kind, table in zip(Flow._fields, flows[label][:6]):
            reach = _within(table, start, end, kind in ("window", "threshold", "progress"))
            for column in table:
                values = reach[column] / 1e6 if column == "t" else reach[column]
                columns[f"{label} {kind} {column}"] = values.reset_index(drop=True)
    data = pd.DataFrame(columns)
    height = TOP_PX + BOTTOM_PX + PANEL_PX * len(labels) + GAP_PX * (len(labels) - 1)
    highest = max(data[[f"{label} window cwnd", f"{label} threshold ssthresh"]].max().max()
                  for label in labels)
    # what comes long after the repair would make it small
    reach = max(_sent_at(flow, min(flow.last_us, end) + flow.rtt_us) for flow in flows.values())
    acked = min(data[f"{label} progress acked"].min() for label in labels)
    body = [f"set multiplot; set xrange [{start / 1e6:g}:{end / 1e6:g}]",
            "set key horizontal left bottom at graph -0.02, graph 1.13 samplen 2 width 1 "
            "font ',11'"]
    for place, label in enumerate(labels):
        top = 1 - (TOP_PX + place * (PANEL_PX + GAP_PX)) / height
        body += [f"set tmargin at screen {top:g}",
                 f"set bmargin at screen {top - PANEL_PX / height:g}",
                 "set xlabel 'time (s)'; set xtics format '%g'" if place == len(labels) - 1
                 else "unset xlabel; set xtics format ''"]
        body += _windows(name, label, looks[label].colour, flows[label], highest)
        body += _progress(name, label, looks[label].colour, acked, reach,
                          any(len(flow.losses) for flow in flows.values()))
        body.append("unset key")
    gnuplot.draw(folder, name, data, [*body, "unset multiplot"], height=height)


def _sent_at(flow: Flow, t: float) -> float:
    """Segments sent for the first time by then."""
    known = flow.progress[flow.progress["t"] <= t]
    return float(known["sent"].iloc[-1] if len(known) else flow.progress["sent"].iloc[0])


def _within(table: pd.DataFrame, start: float, end: float, lasting: bool) -> pd.DataFrame:
    """Rows of a time range; of values that last, with the one before it, and up to its end."""
    inside = table[(table["t"] >= start) & (table["t"] <= end)]
    if not lasting:
        return inside
    before = table[table["t"] < start].tail(1)
    return pd.concat([before, inside, pd.concat([before, inside]).tail(1).assign(t=end)])


def _windows(name: str, label: str, colour: str, flow: Flow, highest: float) -> list[str]:
    """The left panel."""
    shades = [f"set object {number} rectangle from {row.start / 1e6:g}, graph 0 "
              f"to {row.end / 1e6:g}, graph 1 behind "
              f"fillcolor '{SHADES[int(row.ca_state)]}' fillstyle solid noborder"
              for number, row in enumerate(flow.states.itertuples(), start=1)]
    return [*_column(LEFT_AT), *shades,
            f"set yrange [0:{1.08 * highest:g}]; set ylabel 'segments' offset 1.5",
            f"set label 1 {gnuplot.quote(label)} at graph 0.98, graph 0.9 right "
            f"textcolor '{colour}' font ',13'",
            gnuplot.plot(_curve(name, label, "window", "cwnd", f"2 linecolor '{colour}'", "window"),
                         _curve(name, label, "threshold", "ssthresh",
                                f"1.5 dashtype 2 linecolor '{INK}'", "threshold")),
            "unset label 1", *(["unset object"] if shades else [])]


def _progress(name: str, label: str, colour: str, lowest: float, highest: float,
              lost: bool) -> list[str]:
    """The right panel."""
    top = highest + 0.05 * (highest - lowest)
    return [*_column(RIGHT_AT),
            f"set yrange [{lowest:g}:{top:g}]; set ylabel 'segment' offset 1.5",
            gnuplot.plot(
                _curve(name, label, "progress", "sent", f"1.5 linecolor '{style.GREY}'", "sent"),
                _curve(name, label, "progress", "acked", f"2 linecolor '{colour}'", "acknowledged"),
                _marks(name, label, "duplicates", "acked", "7 pointsize 0.3", "duplicate ACK"),
                _marks(name, label, "duplicates", "acked", "6 pointsize 1.2", "the third", "nth", 3),
                _marks(name, label, "retransmissions", "acked", "9 pointsize 1", "retransmission"),
                *([_marks(name, label, "losses", "segment", "2 pointsize 0.8 linewidth 1.5", "lost")]
                  if lost else []))]


def _curve(name: str, label: str, kind: str, column: str, width_and_looks: str, title: str) -> str:
    return (f"'{name}.csv' using {gnuplot.quote(f'{label} {kind} t')}:"
            f"{gnuplot.quote(f'{label} {kind} {column}')} with steps "
            f"linewidth {width_and_looks} title '{title}'")


def _marks(name: str, label: str, kind: str, column: str, point_and_looks: str, title: str,
           only: str = "", value: int = 0) -> str:
    """Points of a table's rows; of those where the column `only` has `value`, if it is given."""
    x, y = gnuplot.quote(f"{label} {kind} t"), gnuplot.quote(f"{label} {kind} {column}")
    if only:
        y = f"(column({gnuplot.quote(f'{label} {kind} {only}')}) == {value} ? column({y}) : NaN)"
    return (f"'{name}.csv' using {x}:{y} with points pointtype {point_and_looks} "
            f"linecolor '{INK}' title '{title}'")


def _column(edges: tuple[float, float]) -> list[str]:
    return [f"set lmargin at screen {edges[0]:g}; set rmargin at screen {edges[1]:g}"]
