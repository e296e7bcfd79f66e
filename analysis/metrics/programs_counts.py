# SPDX-License-Identifier: GPL-2.0-only
"""What the programs of greedy flows wrote and read: what iperf3's sender and receiver report."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.metrics import Metric
from analysis.read.runs import Run
from testbed.core.guest_files import Guest, ProgramAccount

UNITS = {"written_rate": "Mbit/s", "read_rate": "Mbit/s"}
BETTER = {"written_rate": "higher", "read_rate": "higher"}


def compute(run: Run) -> list[Metric]:
    """Bytes that the programs of all flows wrote, and read, each over the time in which it did.

    iperf3 counts both itself. Its receiver counts until it hears that the test is over. Sockets write from the flow's
    start to its stop, and nobody counts how long they read. What waits in a socket or is in flight at the end is
    written, and not read.

    Of runs whose flows are all greedy and have no size. These are no metrics of the measurement interval: a program's
    count is known at its end only.
    """
    guest = run.record(Guest, "guest.json")
    greedy = {component.name for component in run.components if component.kind == "greedy"}
    if guest is None or not run.flows or any(flow.component not in greedy or flow.bytes for flow in run.flows):
        return []
    lasts_us = {str(flow.flow): (flow.stop_us or 0) - (flow.start_us or 0) for flow in run.flows}
    known = {"written_rate": _rate_mbps([(one, one.sent_bytes) for one in guest.accounts], lasts_us),
             "read_rate": _rate_mbps([(one, one.received_bytes) for one in guest.accounts], dict.fromkeys(lasts_us, 0))}
    return [Metric(name, "all", "Mbit/s", rate) for name, rate in known.items() if rate is not None]


def _rate_mbps(counts: list[tuple[ProgramAccount, Mapping[str, int]]], lasts_us: Mapping[str, int]) -> float | None:
    """The flows' rates together, over the times that programs counted or else lasts_us; None where one is not known.

    counts: [(account, {flow: bytes})]
    """
    total = 0.0
    for flow, us in lasts_us.items():
        found = [(count[flow], account.counted_us.get(flow, us)) for account, count in counts if flow in count]
        if not found or found[0][1] <= 0:
            return None
        total += 8 * found[0][0] / found[0][1]
    return total
