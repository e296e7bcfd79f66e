# SPDX-License-Identifier: GPL-2.0-only
"""The hosts' TCP/IP stacks were no bottleneck: what their counters say of limits that they met (raw/snmp.json).

They count for whole namespaces, over the whole run: no connection, however short, escapes them.
"""
from collections.abc import Iterator, Mapping

from testbed.checks import Evidence, Finding
from testbed.checks._flows import misbehaving
from testbed.core.guest_files import NodeCounters
from topologies.links import wires
from traffic.greedy import DIVIDED

NEEDS = ("snmp.json",)

#: what must not happen at all: {what it means: counters of nstat}
NEVER = {
    "connections were refused for want of room in a listener's queue": (
        "TcpExtListenOverflows", "TcpExtListenDrops", "TcpExtTCPReqQFullDrop", "TcpExtTCPReqQFullDoCookies",
        "TcpExtSyncookiesSent"),
    "closed connections were forgotten before their time (tcp_max_tw_buckets)": ("TcpExtTCPTimeWaitOverflow",),
    "TCP met its limit of memory (tcp_mem)": (
        "TcpExtTCPMemoryPressures", "TcpExtTCPAbortOnMemory", "TcpExtTCPWqueueTooBig"),
    "receivers had too little buffer for what had come": (
        "TcpExtPruneCalled", "TcpExtRcvPruned", "TcpExtOfoPruned", "TcpExtTCPRcvCollapsed", "TcpExtTCPOFODrop",
        "TcpExtTCPRcvQDrop", "TcpExtTCPBacklogDrop", "TcpExtTCPZeroWindowDrop"),
    "hosts threw packets away": (
        "IpInDiscards", "IpOutDiscards", "IpInHdrErrors", "IpInAddrErrors", "IpOutNoRoutes", "IpInUnknownProtos",
        "TcpInCsumErrors", "UdpInCsumErrors", "TcpExtPFMemallocDrop", "TcpExtTCPMinTTLDrop",
        "TcpExtIPReversePathFilter", "Ip6InDiscards", "Ip6OutDiscards", "Ip6InHdrErrors", "Ip6InAddrErrors",
        "Ip6OutNoRoutes", "Ip6InNoRoutes", "Ip6InUnknownProtos", "Ip6InTruncatedPkts", "Udp6InCsumErrors"),
    "packets were cut into fragments": ("IpReasmReqds", "IpFragCreates", "Ip6ReasmReqds", "Ip6FragCreates"),
}
#: a router refused them, and told the sender (path MTU discovery); where all links and radios have one MTU, nobody may
_TOO_LARGE = ("IpFragFails", "Ip6FragFails")
#: at the end hosts reset all connections at once: what their own queues then have no room for is counted here
_UNTIL_THE_END = ("IpOutDiscards", "Ip6OutDiscards", "UdpSndbufErrors", "Udp6SndbufErrors")
#: also counted there: datagrams for which a program is told that its socket's buffer has no room (udp_sendmsg), and
#: which it sends later
_REFUSED = {"IpOutDiscards": "UdpSndbufErrors", "Ip6OutDiscards": "Udp6SndbufErrors"}
#: segments that overtook others, as senders saw it: only a link that is told to reorder lets them. TCPRenoReorder is no
#: evidence: without SACK a sender counts it when more duplicate ACKs come than segments are under way
#: (tcp_check_reno_reordering), and what it sends again in vain brings such ACKs
_REORDERING = ("TcpExtTCPSACKReorder", "TcpExtTCPTSReorder")
#: of the segments sent, beside what receivers reported to have got twice: that looks as if it had overtaken others; and
#: in all, since a single retransmission in vain does, too
_REORDERED, _REORDERED_FEW = 1e-4, 2


def _large(counters: Mapping[str, NodeCounters], evidence: Evidence) -> Iterator[Finding]:
    """Each segment of TCP is a packet of IP, unless the host hands several over at once for its device to cut."""
    wanted = {node.name for node in evidence.network.nodes if node.has("gso") and node.gso}
    requests = "Ip6OutRequests" if evidence.network.ip_version == 6 else "IpOutRequests"
    for node, values in counters.items():
        segments, packets = values.get("TcpOutSegs"), values.get(requests)
        if node not in wanted and segments and packets and segments[-1] > packets[-1]:
            yield Finding("suspect", f"{node} handed over large packets: TCP sent {segments[-1]} segments in "
                                     f"{packets[-1]} packets")


def check(evidence: Evidence) -> Iterator[Finding]:
    record = evidence.snmp
    nodes = {node.name for node in evidence.network.nodes}
    if nodes - record.nodes.keys():
        yield Finding("suspect", f"the stack of {', '.join(sorted(nodes - record.nodes.keys()))} was not read")
    totals: dict[str, int] = {}
    at_end = record.readings.index("at_end")
    for counters in record.nodes.values():
        for name, values in counters.items():
            totals[name] = totals.get(name, 0) + values[at_end if name in _UNTIL_THE_END else -1]
    for name, refused in _REFUSED.items():
        totals[name] = max(0, totals.get(name, 0) - totals.get(refused, 0))
    bad = 0
    network = evidence.network
    one_mtu = len({link.mtu_bytes for link in network.links} | {cell.mtu_bytes for cell in network.cells}) <= 1
    for what, names in {**NEVER, **({"packets were too large for a link": _TOO_LARGE} if one_mtu else {})}.items():
        met = {name: totals[name] for name in names if totals.get(name)}
        if met:
            bad += 1
            yield Finding("suspect", f"{what}: " + ", ".join(f"{name} {count}" for name, count in met.items()))
    for finding in _large(record.nodes, evidence):
        bad += 1
        yield finding
    tcp = any(flow.transport == "tcp" for flow in evidence.flows)
    sent = totals.get("TcpExtTCPOrigDataSent", 0)
    if tcp and not sent:
        yield Finding("suspect", "the hosts' TCP sent no data")
        return
    reordered = sum(totals.get(name, 0) for name in _REORDERING)
    overtaking = [link.name for link in evidence.network.links if wires.reorders(link)]
    # an acknowledgement of a part of a segment moves the sender's left edge into it; when the rest is acknowledged, the
    # segment begins before that edge, which tcp_clean_rtx_queue() takes for reordering
    divided = misbehaving(evidence, DIVIDED)
    if not overtaking and not divided and reordered > max(_REORDERED * sent, _REORDERED_FEW) + totals.get(
            "TcpExtTCPDSACKRecvSegs", 0):
        bad += 1
        yield Finding("suspect", f"senders saw {reordered} of {sent} segments overtake others, which no link here lets "
                                 "them")
    if not bad:
        again = totals.get("TcpRetransSegs", 0) - totals.get("TcpExtTCPSynRetrans", 0)
        yield Finding("ok", f"no host met a limit; TCP sent {sent} segments with new data and {again} again "
                            f"({again / max(sent + again, 1):.3%})")
