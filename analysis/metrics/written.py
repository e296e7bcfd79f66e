# SPDX-License-Identifier: GPL-2.0-only
"""What the programs of greedy flows wrote: what iperf3's sender reports."""

from __future__ import annotations

from analysis.metrics import Metric
from analysis.read.runs import Run
from testbed.core.guest_files import Guest
from traffic.workload.records import Flow

UNITS = {"written_rate": "Mbit/s"}
BETTER = {"written_rate": "higher"}


def compute(run: Run) -> list[Metric]:
    """Bytes that the programs of all flows wrote, each over the time in which it did: iperf3 counts that itself,
    sockets write from the flow's start to its stop. What waits in a socket or is in flight at the end is in it.

    Of runs whose flows are all greedy and have no size. It is no metric of the measurement interval: a program's count
    is known at its end only.
    """
    guest = run.record(Guest, "guest.json")
    greedy = {component.name for component in run.components if component.kind == "greedy"}
    if guest is None or not run.flows or any(flow.component not in greedy or flow.bytes for flow in run.flows):
        return []
    rates = [_rate_mbps(guest, flow) for flow in run.flows]
    known = [rate for rate in rates if rate is not None]
    return [Metric("written_rate", "all", "Mbit/s", sum(known))] if len(known) == len(rates) else []


def _rate_mbps(guest: Guest, flow: Flow) -> float | None:
    """None where nobody counted."""
    number = str(flow.flow)
    for account in guest.accounts:
        if number in account.sent_bytes:
            us = account.counted_us.get(number, (flow.stop_us or 0) - (flow.start_us or 0))
            return 8 * account.sent_bytes[number] / us if us > 0 else None
    return None
