# SPDX-License-Identifier: GPL-2.0-only
"""Drop rate of each bottleneck link: percent of the packets offered to its queue."""

from __future__ import annotations

import numpy as np

from analysis.metrics import Metric, Shown
from analysis.read import series
from analysis.read.runs import Run

UNITS = {"drops": "packets", "drop_rate": "%", "drop_rate_sd": "%"}
BETTER = {"drops": "lower", "drop_rate": "lower"}
OF_ANY_SENDER = {"drop_rate": ""}
WINDOWED = {"drops", "drop_rate", "drop_rate_sd"}
SHOWN = [Shown("links", "drop_rate", "drop rate", 60)]


def compute(run: Run) -> list[Metric]:
    """Drops / (sent + dropped + growth of the backlog); sd over bins of 1 s."""
    found = []
    for link in run.bottlenecks:
        samples = series.queue_samples(run, link)
        if samples is None:
            return []
        edges = np.array(series.covered(run, link, samples))
        dropped = float(np.diff(series.counter_at(samples, "drops", edges))[0])
        found.append(Metric("drops", link, "packets", dropped))
        if run.bottlenecks[link].uncut:
            continue                            # what was sent is counted in segments, what was dropped in packets
        rate = series.drop_percent(samples, edges)[0]
        if np.isfinite(rate):
            found.append(Metric("drop_rate", link, "%", float(rate)))
        bins = series.drop_percent(samples, series.metric_edges(run, samples))
        bins = bins[np.isfinite(bins)]
        if len(bins) > 1:
            found.append(Metric("drop_rate_sd", link, "%", float(np.std(bins, ddof=1))))
    return found
