# SPDX-License-Identifier: GPL-2.0-only
"""What becomes of the data packets of TCP flows between their hosts: delivered, dropped, how long they take.

FlowMonitor's numbers, by which studies in ns-3 judge a network: of the packets themselves where the probe `journeys`
followed them, else from counters of links.
"""

from __future__ import annotations

import pandas as pd

from analysis.metrics import Metric, Shown
from analysis.read.runs import Run
from analysis.read.series import sojourn_samples, whole_intervals
from testbed.core.guest_files import Counters
from topologies.links import wires

UNITS = {"delivery_ratio": "%", "drop_ratio": "%", "end_to_end_delay_mean": "ms", "arrived_rate_l3": "Mbit/s"}
MOST = {"delivery_ratio": 100.0}
SHOWN = [Shown("journeys", "arrived_rate_l3", "throughput, layer 3", 30),
         Shown("journeys", "delivery_ratio", "delivered", 40),
         Shown("journeys", "drop_ratio", "dropped", 50),
         Shown("journeys", "end_to_end_delay_mean", "end-to-end delay", 60)]


def compute(run: Run) -> list[Metric]:
    """As the packets were followed, or as counters say."""
    table = run.frame("journeys")
    return _counted(run) if table is None else _followed(run, table)


def _followed(run: Run, table: pd.DataFrame) -> list[Metric]:
    """Of data packets sent in the measurement interval, and what arrived of them, whenever it did."""
    start_us, end_us = whole_intervals(run, "journeys")
    rows = table[(table["t_us"] >= start_us) & (table["t_us"] < end_us)]
    sent, arrived = int(rows["sent_packets"].sum()), int(rows["arrived_packets"].sum())
    if not sent:
        return []
    share = 100 * arrived / sent
    found = [Metric("delivery_ratio", "all", "%", share), Metric("drop_ratio", "all", "%", 100 - share),
             Metric("arrived_rate_l3", "all", "Mbit/s", float(rows["arrived_bytes"].sum()) * 8 / (end_us - start_us))]
    if arrived:
        total_us = float((rows["mean_us"].fillna(0) * rows["arrived_packets"]).sum())
        found.append(Metric("end_to_end_delay_mean", "all", "ms", total_us / arrived / 1e3))
    return found


def _counted(run: Run) -> list[Metric]:
    """Of runs whose flows are all TCP, with hosts that only send data or only receive them, and without radios, of
    whose time and losses links know nothing."""
    if run.network.cells:
        return []
    flows = run.flows
    counters = run.record(Counters, "counters.json") if flows else None
    if counters is None or any(flow.transport != "tcp" or flow.both_ways or not flow.hops for flow in flows):
        return []
    first, last = ({flow.hops[place] for flow in flows} for place in (0, -1))
    back = {name for flow in flows for name in flow.hops_back}
    links = counters.drained
    if (first | last) & back or not first | last <= links.keys():
        return []
    sent = sum(links[name].sent_packets + links[name].dropped_packets for name in first)
    if not sent or not all(links[name].has("wire_delivered_packets") for name in last):
        return []
    share = 100 * sum(links[name].wire_delivered_packets for name in last) / sent
    found = [Metric("delivery_ratio", "all", "%", share), Metric("drop_ratio", "all", "%", 100 - share)]
    delay_ms = _delay_ms(run)
    return found if delay_ms is None else [*found, Metric("end_to_end_delay_mean", "all", "ms", delay_ms)]


def _delay_ms(run: Run) -> float | None:
    """Of a full packet: delays and transmission times of its links, and the mean sojourn in the bottlenecks' queues.

    Mean over flows of equal paths only: of others nobody knows whose packets waited. None without sojourn times.
    """
    links = {link.name: link for link in run.network.links}
    bottlenecks = {tuple(name for name in flow.hops if links[name].bottleneck) for flow in run.flows}
    bare = {sum(links[name].delay_us + wires.frame_us(links[name], run.network.frame_bytes(flow.hops))
                for name in flow.hops) for flow in run.flows}
    if len(bottlenecks) != 1 or len(bare) != 1:
        return None
    total_us = bare.pop()
    start_us, end_us = run.interval
    for name in bottlenecks.pop():
        rows = sojourn_samples(run, name)
        inside = None if rows is None else rows[(rows["t_us"] >= start_us) & (rows["t_us"] < end_us)]
        if inside is None or not inside["packets"].sum():
            return None
        total_us += float((inside["mean_us"] * inside["packets"]).sum() / inside["packets"].sum())
    return float(total_us / 1e3)
