# SPDX-License-Identifier: GPL-2.0-only
"""Queue length of each bottleneck link, packets."""

from __future__ import annotations

import numpy as np

from analysis.metrics import Metric
from analysis.read import series
from analysis.read.runs import Run

UNITS = {"queue_length_mean": "packets", "queue_length_max": "packets", "queue_length_sd": "packets"}
WINDOWED = {"queue_length_mean", "queue_length_max", "queue_length_sd"}


def compute(run: Run) -> list[Metric]:
    """Mean and maximum over time where the kernel counted it, else over the samples; sd over means of 1 s bins."""
    found = []
    for link in run.bottlenecks:
        samples = series.queue_samples(run, link)
        inside = None if samples is None else series.held_or_sampled(run, link, *series.covered(run, link, samples))
        if samples is None or inside is None:
            return []
        held, weights = inside
        packets = held["backlog_packets"].to_numpy()
        found += [Metric("queue_length_mean", link, "packets", float(np.average(packets, weights=weights))),
                  Metric("queue_length_max", link, "packets", float(held["most_packets"].max()))]
        bins = series.bin_means(series.middles(held), packets, weights, series.metric_edges(run, samples))
        bins = bins[np.isfinite(bins)]
        if len(bins) > 1:
            found.append(Metric("queue_length_sd", link, "packets",
                                float(np.std(bins, ddof=1))))
    return found
