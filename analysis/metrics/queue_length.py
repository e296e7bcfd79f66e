# SPDX-License-Identifier: GPL-2.0-only
"""Queue length of each bottleneck link, packets."""

from __future__ import annotations

import numpy as np

from analysis import series
from analysis.metrics import Metric
from analysis.runs import Run

UNITS = {"queue_length_mean": "packets", "queue_length_max": "packets", "queue_length_sd": "packets"}


def compute(run: Run) -> list[Metric]:
    """Mean and maximum over the samples; sd over the means of 1 s bins."""
    found = []
    for link in run.bottlenecks:
        samples = series.queue_samples(run, link)
        if samples is None:
            return []
        start, end = series.covered(run, link, samples)
        inside = samples[(samples["t_us"] >= start) & (samples["t_us"] < end)]
        found += [Metric("queue_length_mean", link, "packets",
                         float(inside["backlog_packets"].mean())),
                  Metric("queue_length_max", link, "packets",
                         float(inside["backlog_packets"].max()))]
        bins = series.bin_means(inside["t_us"].to_numpy(),
                                inside["backlog_packets"].to_numpy(),
                                np.ones(len(inside)), series.metric_edges(run, samples))
        bins = bins[np.isfinite(bins)]
        if len(bins) > 1:
            found.append(Metric("queue_length_sd", link, "packets",
                                float(np.std(bins, ddof=1))))
    return found
