# SPDX-License-Identifier: GPL-2.0-only
"""Two long flows of which one joins the other: throughput of the one that joined over that of the first."""

from __future__ import annotations

from analysis.metrics import Metric, Shown
from analysis.read import tcp
from analysis.read.runs import Run

UNITS = {"throughput_ratio_joined_first": "1"}
RATIOS = {"throughput_ratio_joined_first"}
SHOWN = [Shown("flow_ratios", "throughput_ratio_joined_first", "ratio joined : first", 20)]


def compute(run: Run) -> list[Metric]:
    """Acknowledged payload in the measurement interval, of two flows of components of their own that are there in all
    of it; one that gets less than a segment through counts as one segment, so that the ratio has a logarithm. Nothing
    where neither got anything through.
    """
    listed = sorted(tcp.listed_flows(run), key=lambda flow: flow.start_us or 0)
    if (len(listed) != 2 or listed[0].component == listed[1].component
            or (listed[0].start_us or 0) == (listed[1].start_us or 0)):
        return []
    acked = tcp.acked_throughout(run)
    if acked is None:
        return []
    if not any(acked.values()):
        return []
    first, joined = (max(acked[flow.flow], float(run.network.segment_bytes(flow.hops)))
                     for flow in listed)
    return [Metric("throughput_ratio_joined_first", f"flow_{listed[1].flow}_to_flow_{listed[0].flow}", "1",
                   joined / first)]
