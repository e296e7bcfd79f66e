# SPDX-License-Identifier: GPL-2.0-only
"""Offered load of each bottleneck link, and how much of it was carried."""

from __future__ import annotations

import numpy as np

from analysis import series
from analysis.metrics import Metric
from analysis.runs import Array, Run


def compute(run: Run) -> list[Metric]:
    """From workload.json: offered_bps and, for the stationarity check, thirds_bps; sums over the components.

    What the link carried is only compared where all components say what they offer.
    """
    found = []
    offered_bps = _sum(run, "offered_bps")
    thirds_bps = _sum(run, "thirds_bps")
    all_offer = all(component.get("offered_bps") for component in run.components)
    for link, facts in run.bottlenecks.items():
        offered = offered_bps.get(link)
        if offered is not None and offered > 0:
            offered = float(offered)
            found += [Metric("offered_load", link, "Mbit/s", offered / 1e6),
                      Metric("offered_load_share", link, "%", 100 * offered / facts["rate_bps"])]
            samples = series.queue_samples(run, link) if all_offer else None
            if samples is not None:
                edges = np.array(series.covered(run, link, samples))
                carried = float(series.throughput_mbps(samples, edges)[0]) * 1e6
                found.append(Metric("carried_over_offered", link, "%", 100 * carried / offered))
        thirds = thirds_bps.get(link)
        if thirds is not None and thirds[2]:
            found.append(Metric("offered_load_thirds_difference", link, "%",
                                100 * float(abs(thirds[1] - thirds[2]) / thirds[2])))
    return found


def _sum(run: Run, key: str) -> dict[str, Array]:
    """{link: sum} of what the components say under a key."""
    totals: dict[str, Array] = {}
    for component in run.components:
        for link, values in (component.get(key) or {}).items():
            totals[link] = totals.get(link, 0) + np.array(values, dtype=float)
    return totals
