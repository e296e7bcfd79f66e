# SPDX-License-Identifier: GPL-2.0-only
"""Where flows that share one bottleneck operate: throughput and sRTT against what is in flight, and their means.

The optimum is that of Kleinrock: a bandwidth-delay product in flight, the whole rate, no queue.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.drawing import gnuplot, style
from analysis.figures import Figure
from analysis.flows import flow_curves, flow_means
from analysis.metrics.flow_layers import packet_bytes, slowest_bps
from analysis.read.experiment import Experiment
from analysis.read.runs import Array, Run
from testbed.core import ip

ORDER = 61
MOST_PANELS = 4     # side by side
WIDTH = 1000


class Optimum(NamedTuple):
    """segments in flight, Mbit/s of payload, ms"""

    in_flight: float
    rate_mbps: float
    rtt_ms: float


class Points(NamedTuple):
    """Of all flows together, in bins in which anything is in flight: segments, Mbit/s, mean sRTT of those in ms."""

    in_flight: Array
    rate_mbps: Array
    srtt_ms: Array


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    """Nothing unless all flows of the runs cross one bottleneck, have one base RTT, and their buffers were sampled."""
    optima = {optimum(run) for run in experiment.usable_runs}
    best = optima.pop() if len(optima) == 1 else None
    if best is None:
        return []
    found = {row.label: [points for run in experiment.usable(row) if (points := of_run(run)) is not None]
             for row in experiment.drawn}
    found = {label: runs for label, runs in found.items() if runs}
    if not found:
        return []
    return [_against_in_flight(experiment, folder, found, best), _plane(experiment, folder, found, best)]


def optimum(run: Run) -> Optimum | None:
    """None where flows differ in bottleneck or base RTT, or nothing is known of them."""
    curves = flow_curves.of_run(run)
    facts = {(rate_bps, one.flow.base_rtt_us, packet_bytes(run, one))
             if (rate_bps := slowest_bps(run, one, *run.interval)) else None
             for one in curves if one.buffers is not None}
    fact = facts.pop() if len(facts) == 1 else None
    if fact is None or fact[1] is None:
        return None
    rate_bps, rtt_us, size = float(fact[0]), float(fact[1]), fact[2]
    headers = run.network.packet_bytes() - run.network.segment_bytes()
    payload = (size - headers) / (size + ip.ETHERNET_BYTES)
    return Optimum(rate_bps * rtt_us / 8e6 / size, rate_bps * payload / 1e6, rtt_us / 1e3)


def of_run(run: Run) -> Points | None:
    """None where nothing was in flight."""
    edges = flow_means.edges(*run.interval)
    flights, rates, srtts = [], [], []
    for one in flow_curves.of_run(run):
        flight = one.in_flight()
        if flight is not None:
            flights.append(np.nan_to_num(flow_means.held(edges[1:], *flight)))
            rates.append(one.rates_mbps(edges))
            srtts.append(np.where(flights[-1] > 0, one.srtt_ms(edges[1:]), np.nan))
    if not flights:
        return None
    under_way = np.isfinite(srtts).any(axis=0)
    if not under_way.any():
        return None
    return Points(np.sum(flights, axis=0)[under_way], np.sum(rates, axis=0)[under_way],
                  np.nanmean(np.array(srtts)[:, under_way], axis=0))


def _against_in_flight(experiment: Experiment, folder: Path, found: dict[str, list[Points]], best: Optimum) -> Figure:
    """One column of panels per row of the experiment, of its first seed."""
    name, labels = "operating_point", list(found)[:MOST_PANELS]
    looks = experiment.looks(experiment.drawn)
    data = {f"{label} {column}": pd.Series(getattr(found[label][0], column))
            for label in labels for column in Points._fields}
    wide = 1.08 * max(best.in_flight, *(data[f"{label} in_flight"].max() for label in labels))
    body = [f"set multiplot layout 2,{len(labels)} margins 0.07,0.985,0.11,0.93 spacing 0.045,0.05",
            f"set xrange [0:{wide:g}]", f"set xtics {_step(wide)}"]
    for column, words, level in (("rate_mbps", "throughput (Mbit/s)", best.rate_mbps),
                                 ("srtt_ms", "mean sRTT (ms)", best.rtt_ms)):
        top = 1.08 * max(level, *(data[f"{label} {column}"].max() for label in labels))
        for place, label in enumerate(labels):
            colour = looks[label].colour
            last = column == "srtt_ms"
            body += [f"set yrange [0:{top:g}]",
                     f"set ylabel {gnuplot.quote(words)} offset 1" if not place else "unset ylabel",
                     "set xlabel 'in flight (segments)'; set xtics format '%g'" if last
                     else "unset xlabel; set xtics format ''",
                     f"set label 1 {gnuplot.quote('' if last else label)} at graph 0, graph 1.06 "
                     f"textcolor '{colour}' font ',13'",
                     f"set label 2 '★' at {best.in_flight:g},{level:g} center front font ',20' textcolor '#000000'",
                     gnuplot.plot(f"'{name}.csv' using {gnuplot.quote(f'{label} in_flight')}:"
                                  f"{gnuplot.quote(f'{label} {column}')} with points pointtype 7 pointsize 0.3 "
                                  f"linecolor '{colour}'")]
    gnuplot.draw(folder, name, pd.DataFrame(data), [*body, "unset multiplot"], width=WIDTH, height=520)
    first = [experiment.usable(row)[0].seed for row in experiment.drawn if row.label in labels]
    left_out = f" Of {len(found)} rows the first {len(labels)}." if len(found) > len(labels) else ""
    return Figure(name, "In flight and operating point", (
        f"All flows together, a point for each bin of {flow_means.BIN_US / 1e3:g} ms in which anything is in flight; "
        f"seed {', '.join(map(str, sorted(set(first))))} only. Throughput is acknowledged payload, sRTT the mean of "
        "the flows under way. The star is the optimum: one bandwidth-delay product in flight "
        f"({style.number(best.in_flight)} segments), all of the rate ({style.number(best.rate_mbps)} Mbit/s of "
        "payload) and the base RTT. To the right of "
        "it a queue stands; below it the link is idle part of the time. More than the rate is acknowledged at once "
        f"when a lost segment, for which others waited, has come.{left_out}{experiment.drawn_note}"))


def _step(wide: float) -> int:
    """Distance of the tics of a narrow panel."""
    return max(1, next(step for step in (10, 20, 50, 100, 200, 500, 1000, 10**6) if wide / step < 6))


def _plane(experiment: Experiment, folder: Path, found: dict[str, list[Points]], best: Optimum) -> Figure:
    """A small point per run, a large one for their mean."""
    name, looks = "operating_plane", experiment.looks(experiment.drawn)
    columns = {}
    for label, runs in found.items():
        columns[f"{label} delay_ms"] = pd.Series([float(points.srtt_ms.mean()) - best.rtt_ms for points in runs])
        columns[f"{label} rate_mbps"] = pd.Series([float(points.rate_mbps.mean()) for points in runs])
    data = pd.DataFrame(columns)
    delays, rates = ([*data[[key for key in data if key.endswith(end)]].to_numpy().ravel(), star]
                     for end, star in (("delay_ms", 0.0), ("rate_mbps", best.rate_mbps)))
    right, (low, high) = 1.1 * np.nanmax(delays), (np.nanmin(rates), np.nanmax(rates))
    margin = 0.12 * (high - low) or 1
    body = [f"set xrange [{right or 1:g}:{-0.04 * right:g}]", f"set yrange [{low - margin:g}:{high + margin:g}]",
            "set key outside right top samplen 1", "set xlabel 'mean sRTT - base RTT (ms), less is better →'",
            "set ylabel 'mean throughput (Mbit/s), more is better →'",
            f"set label 1 '★' at 0,{best.rate_mbps:g} center front font ',22'"]
    curves = []
    for place, label in enumerate(found):
        look, x, y = looks[label], f"{label} delay_ms", f"{label} rate_mbps"
        curves.append(f"'{name}.csv' using {gnuplot.quote(x)}:{gnuplot.quote(y)} with points pointtype {look.point} "
                      f"pointsize 0.6 linecolor '{style.band(look.colour)}'")
        body.append(f"set label {place + 2} '' at {data[x].mean():g},{data[y].mean():g} point pointtype {look.point} "
                    f"pointsize 1.5 linecolor '{look.colour}' front")
        curves.append(f"NaN with points pointtype {look.point} pointsize 1.5 linecolor '{look.colour}' "
                      f"title {gnuplot.quote(label)}")
    gnuplot.draw(folder, name, data, [*body, gnuplot.plot(*curves)], width=WIDTH, height=430)
    return Figure(name, "Mean operating point", (
        "A small point is the mean of a run, a large one the mean over seeds: of all flows together, over the bins in "
        "which anything is in flight. The star is the optimum: the whole rate and no queue. Up and to the right is "
        f"better.{experiment.drawn_note}"))
