# SPDX-License-Identifier: GPL-2.0-only
"""Samples of TCP flows of one connection each, told by flow and end."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from testbed.checks import Evidence
from testbed.checks._measured import Columns
from testbed.checks._sockets import ends_of
from testbed.core import grouping
from topologies import queues
from traffic.workload.records import Flow

if TYPE_CHECKING:
    import pandas as pd

#: the kernel's congestion controls that only set windows (no cong_control of their own): TCP computes the pacing rate
OF_WINDOWS = frozenset("reno cubic bic cdg dctcp highspeed htcp hybla illinois lp nv scalable vegas veno westwood yeah"
                       .split())
#: segments that are sent together at low rates at most (tcp_min_tso_segs)
_AT_ONCE = 2
#: that are paced beside a segment's payload: headers of IP and TCP, with options, at most
_HEADER_BYTES = 100
SOCKET = ("node", "src", "sport", "dst", "dport")


def single(evidence: Evidence) -> list[Flow]:
    """Records of the TCP flows of one connection each."""
    return [flow for flow in evidence.flows if flow.transport == "tcp" and flow.source is None
            and flow.connections == 1]


#: kinds of traffic whose flows have nothing to send at times
RESTING = ("on-off", "phases")


def greedy(flow: Flow) -> bool:
    """True if the flow is there to send all that it can until it is stopped: its segments are full.

    Where data go both ways, either end waits for the other.
    """
    return flow.bytes is None and flow.rate_bps is None and flow.source is None \
        and not flow.both_ways and flow.kind not in RESTING


def stamped_late_us(flow: Flow, mss: np.ndarray, total_retrans: np.ndarray, pacing_rate_bps: np.ndarray,
                    evidence: Evidence) -> float:
    """By how much less than it took a sender may take a round trip for, of its samples.

    A sender that paces itself stamps a segment with the time at which it would go by its rate. But what a timer sends
    again goes at once (__tcp_retransmit_skb), before its stamp, unless a qdisc such as fq holds it until then.
    """
    if flow.cca in OF_WINDOWS or not (total_retrans > 0).any() or any(
            queues.traits(link).paces for link in evidence.network.links if link.name == flow.hops[0]):
        return 0.0
    rate_bps = np.nanmin(np.where(pacing_rate_bps > 0, pacing_rate_bps, np.inf))
    return float(_AT_ONCE * (np.nanmax(mss) + _HEADER_BYTES) * 8e6 / rate_bps)


def misbehaving(evidence: Evidence, kind: str) -> set[str]:
    """Names of the components whose receivers misbehave in this way (traffic/greedy/misbehaving.py)."""
    return {component.name for component in evidence.workload.components if component.receiver.get("kind") == kind}


def cut(evidence: Evidence) -> bool:
    """True if links differ in the largest packet that they carry: senders find that out, and cut their segments."""
    return len({link.mtu_bytes for link in evidence.network.links}) > 1


def sack(flow: Flow, evidence: Evidence) -> bool:
    """True if both ends have selective acknowledgements."""
    settings = evidence.measured.sysctls_wanted
    return all(str(settings.get(node, {}).get("net.ipv4.tcp_sack", 1)) != "0" for node in (flow.sender, flow.receiver))


def established(evidence: Evidence, columns: Sequence[str]) -> pd.DataFrame | None:
    """Samples of established connections; None if there are none, or nobody knows one of these columns."""
    samples = evidence.table("tcp_info", usecols=[*dict.fromkeys(("t_us", *SOCKET, "state", *columns))])
    if samples is None or samples[list(columns)].isna().all().any():
        return None
    samples = samples[(samples["state"] == "ESTAB").to_numpy()]
    return samples if len(samples) else None


def by_end(samples: pd.DataFrame, flows: Sequence[Flow]) -> dict[tuple[int, str], Columns]:
    """{(flow, "sender" or "receiver"): its samples}, in the order of the table; of flows with several sockets (iperf3's
    control connection) those of the socket that has moved the most."""
    sender, receiver = ends_of(samples, flows)
    socket = grouping.numbered(samples[name] for name in SOCKET)
    values = {name: samples[name].to_numpy() for name in samples}
    moved = values["bytes_acked"] if "bytes_acked" in values else np.zeros(len(samples))
    if "bytes_received" in values:
        moved = moved + values["bytes_received"]
    found: dict[tuple[int, str], Columns] = {}
    for end, numbers in (("sender", sender), ("receiver", receiver)):
        for flow, rows in grouping.rows_of(numbers).items():
            if not flow:
                continue
            sockets = np.unique(socket[rows])
            if len(sockets) > 1:
                most = max(sockets, key=lambda one: float(moved[rows[socket[rows] == one]].max()))
                rows = rows[socket[rows] == most]
            found[int(flow), end] = {name: column[rows] for name, column in values.items()}
    return found
