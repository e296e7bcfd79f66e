# SPDX-License-Identifier: GPL-2.0-only
"""Aggregate throughput and utilisation of each bottleneck link (layer 2)."""

from __future__ import annotations

import numpy as np

from analysis.metrics import Metric, Shown
from analysis.read import series
from analysis.read.runs import Run
from topologies.links import varying

UNITS = {"throughput_mean": "Mbit/s", "utilisation": "%", "throughput_sd": "Mbit/s"}
BETTER = {"throughput_mean": "higher", "utilisation": "higher"}
MOST = {"utilisation": 100.0}
WINDOWED = {"throughput_mean", "utilisation", "throughput_sd"}
SHOWN = [Shown("links", "throughput_mean", "throughput", 10), Shown("links", "throughput_sd", "throughput, sd", 20),
         Shown("links", "utilisation", "utilisation", 30),
         Shown("link_layers", "utilisation", "utilisation, whole experiment", 50, best=1)]
NOT_COMPARED = {"utilisation"}


def compute(run: Run) -> list[Metric]:
    """Bytes sent in the measurement interval / its length; sd over bins of 1 s."""
    found = []
    for link, facts in run.bottlenecks.items():
        samples = series.queue_samples(run, link)
        if samples is None:
            return []
        edges = np.array(series.covered(run, link, samples))
        mean = float(series.throughput_mbps(samples, edges)[0])
        found.append(Metric("throughput_mean", link, "Mbit/s", mean))
        if rate_bps := varying.mean_rate_bps(facts, *edges):
            found.append(Metric("utilisation", link, "%", 100e6 * mean / rate_bps))
        bins = series.throughput_mbps(samples, series.metric_edges(run, samples))
        if len(bins) > 1:
            found.append(Metric("throughput_sd", link, "Mbit/s", float(np.std(bins, ddof=1))))
    return found
