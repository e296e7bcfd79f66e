# SPDX-License-Identifier: GPL-2.0-only
"""How full the buffer of each bottleneck link is, %."""

from __future__ import annotations

import numpy as np

from analysis.metrics import Metric
from analysis.read import series
from analysis.read.runs import Run

UNITS = {"buffer_occupancy": "%"}
MOST = {"buffer_occupancy": 100.0}
WINDOWED = {"buffer_occupancy"}


def compute(run: Run) -> list[Metric]:
    """Mean backlog over time in bytes, of the bytes that the queue's limit holds."""
    found = []
    for link, described in run.bottlenecks.items():
        samples = series.queue_samples(run, link)
        inside = None if samples is None else series.held_or_sampled(run, link, *series.covered(run, link, samples))
        if inside is None or not len(inside[0]):
            continue
        held, weights = inside
        mean_bytes = float(np.average(held["backlog_bytes"].to_numpy(), weights=weights))
        found.append(Metric("buffer_occupancy", link, "%", 100 * mean_bytes / described.capacity_bytes))
    return found
