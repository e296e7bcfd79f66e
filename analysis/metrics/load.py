# SPDX-License-Identifier: GPL-2.0-only
"""Offered load of each bottleneck link, and how much of it was carried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from analysis.metrics import Metric, Shown
from analysis.read import series
from analysis.read.runs import Array, Run
from testbed.core import steadiness
from topologies.links import varying
from traffic.workload.records import Component

UNITS = {
    "offered_load": "Mbit/s", "offered_load_share": "%", "carried_over_offered": "%",
    "offered_load_thirds_difference": "%"}
SHOWN = [Shown("load", "offered_load", "offered load", 10), Shown("load", "offered_load_share", "of the link rate", 20),
         Shown("load", "carried_over_offered", "carried / offered", 30),
         Shown("load", "offered_load_thirds_difference", "second vs last third", 40)]
NOT_COMPARED = {"offered_load", "offered_load_share", "offered_load_thirds_difference"}


def compute(run: Run) -> list[Metric]:
    """From workload.json: offered_bps and, for the stationarity check, thirds_bps; sums over the components.

    A component that starts or stops within the measurement interval offers its load for a part of it; thirds are those
    of the whole interval. What the link carried is only compared where all components say what they offer.
    """
    found = []
    offered_bps = _sum([(component.offered_bps, _share(run, component)) for component in run.components])
    whole = all(_share(run, component) == 1 for component in run.components if component.thirds_bps)
    thirds_bps = _sum([(component.thirds_bps, 1.0) for component in run.components]) if whole else {}
    all_offer = all(component.offered_bps for component in run.components)
    for link, facts in run.bottlenecks.items():
        offered = offered_bps.get(link)
        if offered is not None and offered > 0:
            offered = float(offered)
            rate_bps = varying.mean_rate_bps(facts, *run.interval)
            found.append(Metric("offered_load", link, "Mbit/s", offered / 1e6))
            if rate_bps:
                found.append(Metric("offered_load_share", link, "%", 100 * offered / rate_bps))
            samples = series.queue_samples(run, link) if all_offer else None
            if samples is not None:
                edges = np.array(series.covered(run, link, samples))
                carried = float(series.throughput_mbps(samples, edges)[0]) * 1e6
                found.append(Metric("carried_over_offered", link, "%", 100 * carried / offered))
        thirds = thirds_bps.get(link)
        if thirds is not None and thirds[1]:
            found.append(Metric("offered_load_thirds_difference", link, "%", 100 * steadiness.difference(thirds)))
    return found


def _share(run: Run, component: Component) -> float:
    """Which part of the measurement interval the component's load is meant for."""
    start_us, end_us = component.measured_us if component.has("measured_us") else run.interval
    inside_us = min(end_us, run.interval.end_us) - max(start_us, run.interval.start_us)
    return max(0.0, inside_us / (run.interval.end_us - run.interval.start_us))


def _sum(parts: Iterable[tuple[Mapping[str, float | Sequence[float]] | None, float]]) -> dict[str, Array]:
    """{link: weighted sum} of what components say, each with its weight."""
    totals: dict[str, Array] = {}
    for of_links, weight in parts:
        for link, values in (of_links or {}).items():
            totals[link] = totals.get(link, 0) + weight * np.array(values, dtype=float)
    return totals
