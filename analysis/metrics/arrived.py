# SPDX-License-Identifier: GPL-2.0-only
"""What arrived at the hosts of flows where programs send, of which nobody else knows what they delivered."""

from __future__ import annotations

import numpy as np

from analysis.metrics import Metric, Shown
from analysis.read import series
from analysis.read.runs import Run

UNITS = {"arrived_rate_l2": "Mbit/s"}
WINDOWED = {"arrived_rate_l2"}
SHOWN = [Shown("arrived", "arrived_rate_l2", "", 10)]


def compute(run: Run) -> list[Metric]:
    """Bytes of layer 2 that the last link carried / the time, both of the part of the measurement interval between the
    flow's start and its stop, for each flow of a run with programs that has this link for itself.

    With headers, retransmissions and acknowledgements of other flows' data, the same for QUIC and for TCP.
    """
    if not any(flow.transport == "program" for flow in run.flows):
        return []
    last = [flow.hops[-1] for flow in run.flows]
    found = []
    for flow, link in zip(run.flows, last):
        samples = series.queue_samples(run, link, "edge_queue") if last.count(link) == 1 else None
        start_us, end_us = run.interval
        edges = np.array([max(start_us, flow.start_us or 0), min(end_us, flow.stop_us or end_us)], dtype=float)
        if samples is not None and edges[1] > edges[0]:
            found.append(Metric("arrived_rate_l2", f"flow_{flow.flow}", "Mbit/s",
                                float(series.throughput_mbps(samples, edges)[0])))
    return found
