# SPDX-License-Identifier: GPL-2.0-only
"""What arrived at the hosts of flows where programs send, of which nobody else knows what they delivered."""

from __future__ import annotations

import numpy as np

from analysis.metrics import Metric, Shown
from analysis.read import series
from analysis.read.runs import Run

#: links of hosts are sampled so often only where somebody wants to know this
_OFTEN_US = 20_000
UNITS = {"arrived_rate_l2": "Mbit/s", "arrived_packet_mean_l2": "B"}
WINDOWED = {"arrived_rate_l2", "arrived_packet_mean_l2"}
NOT_COMPARED = ("arrived_packet_mean_l2",)
SHOWN = [Shown("arrived", "arrived_rate_l2", "", 10)]


def compute(run: Run) -> list[Metric]:
    """Bytes of layer 2 that the last link carried / the time, both of the part of the measurement interval between the
    flow's start and its stop, for each flow that has this link for itself. In runs with programs, or whose links of
    hosts are sampled every 20 ms or more often.

    With headers, retransmissions and acknowledgements of other flows' data, the same for QUIC and for TCP. Besides, the
    mean size of these packets.
    """
    if not any(flow.transport == "program" for flow in run.flows) and _sampled_us(run) > _OFTEN_US:
        return []
    last = [flow.hops[-1] for flow in run.flows]
    found = []
    for flow, link in zip(run.flows, last):
        samples = series.queue_samples(run, link, "edge_queue") if last.count(link) == 1 else None
        start_us, end_us = run.interval
        edges = np.array([max(start_us, flow.start_us or 0), min(end_us, flow.stop_us or end_us)], dtype=float)
        if samples is not None and edges[1] > edges[0]:
            scope = f"flow_{flow.flow}"
            found.append(Metric("arrived_rate_l2", scope, "Mbit/s", float(series.throughput_mbps(samples, edges)[0])))
            packets, size = (float(np.diff(series.counter_at(samples, column, edges))[0])
                             for column in ("sent_packets", "sent_bytes"))
            if packets > 0:
                found.append(Metric("arrived_packet_mean_l2", scope, "B", size / packets))
    return found


def _sampled_us(run: Run) -> float:
    """Time between two samples of links that are no bottlenecks."""
    options = run.scenario.probes.get("queue") or {}
    asked = options.get("edge_interval_us")
    return float(asked) if isinstance(asked, int) else float("inf")
