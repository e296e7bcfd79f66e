# SPDX-License-Identifier: GPL-2.0-only
"""tcptrace's graphs of the captures at the senders: time sequence, throughput, round-trip times.

On request (probe pcap), for the first listed TCP flow of the first seed; the xplot files are kept beside the figure.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from analysis.drawing import gnuplot
from analysis.figures import Figure
from analysis.packets import captures, tcptrace, xplot
from analysis.read import tcp, zooms
from analysis.read.experiment import Experiment
from analysis.read.runs import Run

ORDER = 7
PANEL_PX, TOP_PX, BOTTOM_PX, GAP_PX = 200, 76, 52, 68
EDGES = {"time-sequence": (0.06, 0.36), "throughput": (0.425, 0.69), "rtt": (0.75, 0.985)}
#: {graph: (label of the axis, what y is multiplied by)}; bytes a second, milliseconds and bytes are tcptrace's
SCALES = {"time-sequence": ("data (kB)", 1e-3), "throughput": ("Mbit/s", 8e-6), "rtt": ("RTT (ms)", 1.0)}


class Traced(NamedTuple):
    label: str
    graphs: dict[str, xplot.Graph]
    span: zooms.Span
    end_us: int


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    found, seeds = [], set()
    for row in experiment.drawn:
        for run in experiment.usable(row)[:1]:
            if traced := _traced(experiment, run, row.label, folder):
                found.append(traced)
                seeds.add(run.seed)
    if not found:
        return []
    _script(experiment, folder, found)
    part = "a part of it, as asked for" if experiment.zoom else "about the first segment that was sent again"
    return [Figure("tcptrace", "What tcptrace sees at the sender",
                   "The first TCP flow of each run, from the capture at its sender. Left: time sequence, "
                   f"{part} (another: testbed report --zoom); where the acknowledgements' line is flat the receiver "
                   "waits for a segment. Middle and right: throughput (of one segment, the mean of ten, and the "
                   "average so far) and round-trip times of the whole run; of many points the extremes are drawn. "
                   "The xplot files are in figures/tcptrace. "
                   f"Seed {', '.join(map(str, sorted(seeds)))} only.{experiment.drawn_note}")]


def _traced(experiment: Experiment, run: Run, label: str, folder: Path) -> Traced | None:
    """The graphs of the first listed flow with a capture at its sender."""
    files = {path.name.partition(".")[0]: path for path in captures.files(run.path)}
    if not files:
        return None
    devices = {link.from_node: f"capture-{link.device}" for link in run.network.links if link.device}
    for flow in tcp.listed_flows(run):
        path = files.get(devices.get(flow.sender, ""))
        ends = _ends(path, flow.src, flow.sport, f"{flow.dst}:{flow.dport}") if path else None
        if path and ends:
            made = tcptrace.graphs(path, *ends, folder / "tcptrace", f"{run.name}-")
            drawn = {name: xplot.read(file) for name, file in made.items()}
            if "time-sequence" in drawn:
                return Traced(label, drawn, experiment.zoom or _about(drawn, run), run.interval.end_us)
    return None


def _ends(path: Path, src: str, sport: int | None, dst: str) -> tuple[str, str] | None:
    """The sender's address:port and its peer's, of the flow's connection; of the one with most packets where its port
    is not known. iperf3 has another one, by which its ends agree."""
    for one in sorted(tcptrace.connections(path), key=lambda one: -one.packets):
        for ends in ((one.one, one.other), (one.other, one.one)):
            if ends[1] == dst and (ends[0].startswith(f"{src}:") if sport is None else ends[0] == f"{src}:{sport}"):
                return ends
    return None


def _about(graphs: dict[str, xplot.Graph], run: Run) -> zooms.Span:
    """About the first retransmission that the time sequence shows."""
    again = graphs["time-sequence"].of(("line",), "red", 4)
    rtts = graphs["rtt"].of(("dot",), "red", 2) if "rtt" in graphs else again[:0, :2]
    rtt_us = float(pd.Series(rtts[:, 1]).median()) * 1000 if len(rtts) else 100_000.0
    return zooms.around(float(again[0, 0]) * 1e6 if len(again) else None, rtt_us, float(run.interval.end_us))


def _script(experiment: Experiment, folder: Path, found: list[Traced]) -> None:
    looks, columns = experiment.looks(experiment.drawn), dict[str, object]()
    height = TOP_PX + BOTTOM_PX + PANEL_PX * len(found) + GAP_PX * (len(found) - 1)
    body = ["set multiplot"]
    for place, traced in enumerate(found):
        top = 1 - (TOP_PX + place * (PANEL_PX + GAP_PX)) / height
        body += [f"set tmargin at screen {top:g}; set bmargin at screen {top - PANEL_PX / height:g}",
                 "set xlabel 'time (s)'" if place == len(found) - 1 else "unset xlabel",
                 f"set label 1 {gnuplot.quote(traced.label)} at screen 0.005, screen {top + 32 / height:g} "
                 f"textcolor '{looks[traced.label].colour}' font ',13'"]
        for name, graph in traced.graphs.items():
            span = traced.span if name == "time-sequence" else None
            body += _panel(traced, name, graph, span, place == 0, columns)
    data = pd.DataFrame({key: pd.Series(values) for key, values in columns.items()})
    gnuplot.draw(folder, "tcptrace", data, [*body, "unset multiplot"], height=height)


def _panel(traced: Traced, name: str, graph: xplot.Graph, span: zooms.Span | None, titled: bool,
           columns: dict[str, object]) -> list[str]:
    label, factor = SCALES[name]
    # sequence numbers begin anywhere
    sent = graph.of(("line",), "white", 4)
    floor = float(sent[0, 1]) if name == "time-sequence" and len(sent) else 0.0
    meanings = tcptrace.MEANINGS[name]
    parts = xplot.curves(graph.only(tcptrace.KINDS[name], meanings), "tcptrace.csv", f"{traced.label} {name}", factor,
                         span, meanings if titled else {}, floor)
    if not parts:
        return []
    for part in parts:
        columns.update(part.columns)
    low, high = EDGES[name]
    # single segments that leave one right after the other have the rate of their device
    ten = graph.of(("dot",), "red", 2)[:, 1] if name == "throughput" else sent[:0, 0]
    ranges = f"set xrange [0:{traced.end_us / 1e6:g}]; set yrange [0:{1.5 * factor * ten.max() if len(ten) else '*'}]"
    if span is not None:
        inside = sent[(sent[:, 0] >= span.start_us / 1e6) & (sent[:, 0] <= span.end_us / 1e6)]
        bottom, top = ((inside[:, 1].min() - floor) * factor, (inside[:, 3].max() - floor) * factor) \
            if len(inside) else (0.0, 1.0)
        ranges = (f"set xrange [{span.start_us / 1e6:g}:{span.end_us / 1e6:g}]; "
                  f"set yrange [{bottom - 0.1 * (top - bottom):g}:{top + 0.05 * (top - bottom):g}]")
    return [f"set lmargin at screen {low:g}; set rmargin at screen {high:g}", ranges,
            f"set ylabel {gnuplot.quote(label)} offset 1.5",
            "set key horizontal right bottom at graph 1, graph 1.02 samplen 1 width -3 font ',10'" if titled
            else "unset key", gnuplot.plot(*(part.command for part in parts)), "unset label 1"]
