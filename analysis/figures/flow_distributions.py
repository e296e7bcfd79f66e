# SPDX-License-Identifier: GPL-2.0-only
"""Distributions of what single flows see: throughput, in flight and sRTT, pooled over flows and seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.drawing import gnuplot
from analysis.figures import Figure
from analysis.flows import flow_curves, flow_means
from analysis.read.experiment import Experiment
from analysis.read.runs import Array, Run

ORDER = 62
STEPS = 400         # points of a curve
QUANTITIES = (("throughput", "throughput (Mbit/s)"), ("in flight", "in flight (segments)"), ("sRTT", "sRTT (ms)"))


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    """Nothing unless several flows come and go, or share: a single one has its time series."""
    found = {row.label: [values for run in experiment.usable(row) for values in _of_run(run)]
             for row in experiment.drawn}
    found = {label: flows for label, flows in found.items() if len(flows) > 1}
    if not found:
        return []
    name, looks = "flow_distributions", experiment.looks(experiment.drawn)
    shares = np.linspace(0, 100, STEPS + 1)
    data = {"percent": shares}
    for label, flows in found.items():
        for place, (quantity, _) in enumerate(QUANTITIES):
            data[f"{label} {quantity}"] = np.percentile(np.concatenate([flow[place] for flow in flows]), shares)
    body = ["set multiplot layout 1,3 margins 0.06,0.985,0.14,0.87 spacing 0.05,0.1", "set yrange [0:100]"]
    for place, (quantity, words) in enumerate(QUANTITIES):
        body += [f"set xlabel {gnuplot.quote(words)}", "set xrange [0:*]",
                 "set ylabel 'bins (%)' offset 1" if not place else "unset ylabel",
                 "set key at screen 0.06,0.99 left top horizontal samplen 2" if not place else "unset key",
                 gnuplot.plot(*(f"'{name}.csv' using {gnuplot.quote(f'{label} {quantity}')}:'percent' with lines "
                                f"linewidth 2 dashtype {looks[label].dash} linecolor '{looks[label].colour}' "
                                f"title {gnuplot.quote(label)}" for label in found))]
    gnuplot.draw(folder, name, pd.DataFrame(data), [*body, "unset multiplot"], height=380)
    return [Figure(name, "Distributions over the life of the flows", (
        f"Share of bins of {flow_means.BIN_US / 1e3:g} ms with at most that much, of all flows and seeds, from the "
        f"start of a flow until its socket is gone.{experiment.drawn_note}"))]


def _of_run(run: Run) -> list[tuple[Array, ...]]:
    """(Mbit/s, segments, ms) in the bins of each flow's life."""
    found: list[tuple[Array, ...]] = []
    for one in flow_curves.of_run(run):
        flight = one.in_flight()
        edges = flow_means.edges(one.start_us, one.gone_us or one.end_us)
        if flight is None or len(edges) < 2:
            continue
        srtt = one.srtt_ms(edges[1:])
        known = np.isfinite(srtt)
        if known.any():
            found.append((one.rates_mbps(edges)[known], np.nan_to_num(flow_means.held(edges[1:], *flight))[known],
                          srtt[known]))
    return found
