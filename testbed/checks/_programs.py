# SPDX-License-Identifier: GPL-2.0-only
"""What the programs of TCP flows say of their sockets: `ends` of the accounts in guest.json."""
from collections.abc import Iterable

from testbed.checks import Evidence
from testbed.core.guest_files import FlowEnd
from traffic.workload.records import Flow


def ends(evidence: Evidence) -> dict[tuple[int, str], FlowEnd]:
    """{(flow, "sender" or "receiver"): what that end found}."""
    return evidence.guest.ends()


def tcp_flows(evidence: Evidence) -> list[Flow]:
    """Records of the flows that are TCP and have connections."""
    return [flow for flow in evidence.flows if flow.transport == "tcp" and flow.connections > 0]


def receivers(flows: Iterable[Flow]) -> list[tuple[int, str]]:
    """The ends that data go to: of flows that go both ways the sender, too."""
    return [(flow.flow, end) for flow in flows
            for end in ("receiver", *(["sender"] if flow.both_ways else []))]
