# SPDX-License-Identifier: GPL-2.0-only
"""Jain's index of what flows got over the whole measurement interval, of all and of those of each variant, and the part
of it that each variant got."""

from __future__ import annotations

import numpy as np

from analysis.flows import fairness
from analysis.metrics import Metric, Shown
from analysis.read import tcp
from analysis.read.runs import Run

UNITS = {"jains_index_whole": "1", "share_of_goodput": "%"}
BETTER = {"jains_index_whole": "higher"}
MARGINS = {"jains_index_whole": fairness.JAIN_MARGIN}
MOST = {"jains_index_whole": 1.0, "share_of_goodput": 100.0}
SHOWN = [Shown("journeys", "jains_index_whole", "Jain's index", 70)]


def compute(run: Run) -> list[Metric]:
    """Of two listed flows or more (and of variants with two or more); Jain's index of those that are there during the
    whole interval."""
    listed = {flow.flow: flow for flow in tcp.listed_flows(run)}
    got = tcp.acked_by_flow(run) if len(listed) > 1 else None
    if got is None:
        return []
    groups: dict[str, list[float]] = {}
    for number, flow in listed.items():
        groups.setdefault(f"cca_{tcp.variant_of(flow)}", []).append(got[number])
    several, total = sorted(groups.items()) if len(groups) > 1 else [], sum(got.values())
    found = [Metric("share_of_goodput", scope, "%", 100 * sum(values) / total)
             for scope, values in several if total > 0]
    if tcp.acked_throughout(run) is None:
        return found
    return found + [Metric("jains_index_whole", scope, "1", index(values))
                    for scope, values in [("all", list(got.values())), *several] if len(values) > 1 and sum(values) > 0]


def index(values: list[float]) -> float:
    """(Σx)² / (n Σx²)"""
    x = np.asarray(values)
    return float(x.sum() ** 2 / (len(x) * (x ** 2).sum()))
