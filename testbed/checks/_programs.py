# SPDX-License-Identifier: GPL-2.0-only
"""What the programs of TCP flows say of their sockets: `ends` of the accounts in guest.json."""
from collections.abc import Iterable, Mapping
from typing import Any

from testbed.checks import Evidence

Json = Mapping[str, Any]


def ends(evidence: Evidence) -> dict[tuple[int, str], Json]:
    """{(flow, "sender" or "receiver"): what that end found}."""
    accounts = evidence.json("guest.json").get("accounts") or []
    return {(end["flow"], end["end"]): end for account in accounts for end in account.get("ends") or ()}


def tcp_flows(evidence: Evidence) -> list[Json]:
    """Records of the flows that are TCP and have connections."""
    return [flow for flow in evidence.flows if flow["transport"] == "tcp" and flow["connections"] > 0]


def receivers(flows: Iterable[Json]) -> list[tuple[int, str]]:
    """The ends that data go to: of flows that go both ways the sender, too."""
    return [(flow["flow"], end) for flow in flows
            for end in ("receiver", *(["sender"] if flow["both_ways"] else []))]
