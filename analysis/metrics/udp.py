# SPDX-License-Identifier: GPL-2.0-only
"""What arrived of UDP flows, from the account that their programs keep."""

from __future__ import annotations

from analysis.metrics import Metric, Shown
from analysis.read.runs import Run
from testbed.core.guest_files import DatagramCounts, Guest

UNITS = {
    "udp_received_rate": "Mbit/s", "udp_loss": "%", "udp_one_way_delay_mean": "ms", "udp_one_way_delay_p50": "ms",
    "udp_one_way_delay_p95": "ms", "udp_one_way_delay_p99": "ms"}
OF_ANY_SENDER = {"udp_received_rate": "", "udp_loss": "", "udp_one_way_delay_p95": ""}
SHOWN = [Shown("udp", "udp_received_rate", "received", 10), Shown("udp", "udp_loss", "lost", 20)]


def compute(run: Run) -> list[Metric]:
    """Rate received over the time that the flow sends (IP packets), share of its packets that were lost, delays.

    Counts are of the whole flow: there are none of the measurement interval alone.
    """
    flows = {flow.flow: flow for flow in run.flows if flow.transport == "udp"}
    found = []
    for counts in account(run) if flows else ():
        flow = flows.get(counts.flow)
        if flow is None:
            continue
        scope = f"flow_{counts.flow}"
        end_us = run.interval.end_us
        sends_us = min(flow.stop_us or end_us, end_us) - (flow.start_us or 0)
        if counts.has("received_bytes") and sends_us > 0:
            found.append(Metric("udp_received_rate", scope, "Mbit/s", counts.received_bytes * 8 / sends_us))
        if counts.has("sent_packets") and counts.sent_packets and counts.lost_packets is not None:
            found.append(Metric("udp_loss", scope, "%", 100 * counts.lost_packets / counts.sent_packets))
        found += [Metric(f"udp_one_way_delay_{name}", scope, "ms", delay_us / 1e3) for name, delay_us in (
            ("mean", counts.delay_mean_us), ("p50", counts.delay_p50_us), ("p95", counts.delay_p95_us),
            ("p99", counts.delay_p99_us)) if delay_us is not None]
    return found


def account(run: Run) -> list[DatagramCounts]:
    """The counts of each UDP flow, of all components that keep some; [] where nobody kept any."""
    guest = run.record(Guest, "guest.json")
    return list(guest.datagrams().values()) if guest else []
