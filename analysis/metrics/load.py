# SPDX-License-Identifier: GPL-2.0-only
"""Offered load of each bottleneck link, and how much of it was carried."""

from __future__ import annotations

import numpy as np

from analysis import series
from analysis.metrics import Metric
from analysis.runs import Run


def compute(run: Run) -> list[Metric]:
    """From workload.json: offered_bps and, for the stationarity check, thirds_bps."""
    found = []
    offered_bps = run.workload.get("offered_bps") or {}
    thirds_bps = run.workload.get("thirds_bps") or {}
    for link, facts in run.bottlenecks.items():
        offered = offered_bps.get(link)
        if offered:
            found += [Metric("offered_load", link, "Mbit/s", offered / 1e6),
                      Metric("offered_load_share", link, "%", 100 * offered / facts["rate_bps"])]
            samples = series.queue_samples(run, link)
            if samples is not None:
                edges = np.array(series.covered(run, link, samples))
                carried = float(series.throughput_mbps(samples, edges)[0]) * 1e6
                found.append(Metric("carried_over_offered", link, "%", 100 * carried / offered))
        thirds = thirds_bps.get(link)
        if thirds and thirds[2]:
            found.append(Metric("offered_load_thirds_difference", link, "%",
                                100 * abs(thirds[1] - thirds[2]) / thirds[2]))
    return found
