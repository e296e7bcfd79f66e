# SPDX-License-Identifier: GPL-2.0-only
"""How many TCP flows over the air were ever connected: a channel that is offered too much takes requests, too."""

from __future__ import annotations

from analysis.metrics import Metric, Shown
from analysis.read.runs import Run
from testbed.core.guest_files import Guest

UNITS = {"flows_connected": "1", "flows_connected_share": "%"}
MOST = {"flows_connected_share": 100.0}
SHOWN = [Shown("journeys", "flows_connected", "flows connected", 10),
         Shown("journeys", "flows_connected_share", "of all flows", 20)]


def compute(run: Run) -> list[Metric]:
    """Until the end of the run, of all flows of networks with radios whose senders say so."""
    guest = run.record(Guest, "guest.json") if run.network.cells else None
    if guest is None:
        return []
    asked = {flow.flow for flow in run.flows if flow.transport == "tcp"}
    connected = {flow: bool(one.ccas) for (flow, end), one in guest.ends().items() if end == "sender"}
    if not asked or not asked <= connected.keys():
        return []
    count = sum(connected[flow] for flow in asked)
    return [Metric("flows_connected", "all", "1", float(count)),
            Metric("flows_connected_share", "all", "%", 100 * count / len(asked))]
