# SPDX-License-Identifier: GPL-2.0-only
"""What left and arrived at the hosts of flows where programs send, of which nobody else knows what they delivered."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.flows import fairness
from analysis.metrics import Metric, Shown, shares
from analysis.read import series
from analysis.read.runs import Array, Run
from traffic.workload.records import Flow

#: links of hosts are sampled so often only where somebody wants to know this
_OFTEN_US = 20_000
UNITS = {"arrived_rate_l2": "Mbit/s", "arrived_packet_mean_l2": "B", "sent_rate_l2": "Mbit/s",
         "jains_index_arrived": "1"}
BETTER = {"jains_index_arrived": "higher"}
MARGINS = {"jains_index_arrived": fairness.JAIN_MARGIN}
MOST = {"jains_index_arrived": 1.0}
WINDOWED = {"arrived_rate_l2", "arrived_packet_mean_l2", "sent_rate_l2", "jains_index_arrived"}
OF_ANY_SENDER = {"arrived_rate_l2": "mean_throughput_l4", "sent_rate_l2": "mean_sending_rate_l4",
                 "jains_index_arrived": "jains_index_whole"}
NOT_COMPARED = ("arrived_packet_mean_l2",)
SHOWN = [Shown("arrived", "arrived_rate_l2", "", 10)]


def compute(run: Run) -> list[Metric]:
    """Bytes of layer 2 that the last link carried / the time, both of the part of the measurement interval between the
    flow's start and its stop, for each flow that has this link for itself. In runs with programs, or whose links of
    hosts are sampled every 20 ms or more often.

    With headers, retransmissions and acknowledgements of other flows' data, the same for QUIC and for TCP. Besides, the
    mean size of these packets; the same rate on the first link; and Jain's index of what arrived, where that is known
    of all flows, and all are there during the whole interval.
    """
    if not any(flow.transport == "program" for flow in run.flows) and _sampled_us(run) > _OFTEN_US:
        return []
    first, last = ([flow.hops[place] for flow in run.flows] for place in (0, -1))
    found, rates = [], []
    for flow in run.flows:
        scope, edges = f"flow_{flow.flow}", _lived(run, flow)
        if edges[1] <= edges[0]:
            continue
        if (samples := _own(run, first, flow.hops[0])) is not None:
            found.append(Metric("sent_rate_l2", scope, "Mbit/s", float(series.throughput_mbps(samples, edges)[0])))
        if (samples := _own(run, last, flow.hops[-1])) is not None:
            rates.append(float(series.throughput_mbps(samples, edges)[0]))
            found.append(Metric("arrived_rate_l2", scope, "Mbit/s", rates[-1]))
            packets, size = (float(np.diff(series.counter_at(samples, column, edges))[0])
                             for column in ("sent_packets", "sent_bytes"))
            if packets > 0:
                found.append(Metric("arrived_packet_mean_l2", scope, "B", size / packets))
    whole = all(tuple(_lived(run, flow)) == tuple(run.interval) for flow in run.flows)
    if whole and len(rates) == len(run.flows) > 1 and sum(rates) > 0:
        found.append(Metric("jains_index_arrived", "all", "1", shares.index(rates)))
    return found


def _lived(run: Run, flow: Flow) -> Array:
    """From when to when a flow is there within the measurement interval."""
    start_us, end_us = run.interval
    return np.array([max(start_us, flow.start_us or 0), min(end_us, flow.stop_us or end_us)], dtype=float)


def _own(run: Run, used: list[str], link: str) -> pd.DataFrame | None:
    """Samples of a link that one flow alone uses."""
    table = "queue" if link in run.bottlenecks else "edge_queue"
    return series.queue_samples(run, link, table) if used.count(link) == 1 else None


def _sampled_us(run: Run) -> float:
    """Time between two samples of links that are no bottlenecks."""
    options = run.scenario.probes.get("queue") or {}
    asked = options.get("edge_interval_us")
    return float(asked) if isinstance(asked, int) else float("inf")
