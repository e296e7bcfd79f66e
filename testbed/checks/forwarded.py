# SPDX-License-Identifier: GPL-2.0-only
"""What the TCP/IP stack of each node sent and received is what its links took and brought: when measuring began, at the
end, and when the network had run empty.

The stacks' counters (raw/snmp.json) and those of the queues share nothing. The reading in the midst of the run tells in
which part of it a queue sent, held and dropped what its counters have.
"""
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from testbed.checks import NOT_APPLICABLE, Evidence, Finding
from testbed.checks._measured import of_links
from testbed.checks.datagrams import came_out_packets
from testbed.core.guest_files import Counters, NodeCounters
from topologies.links.records import Link, Node

NEEDS = ("kernel", "snmp.json", "counters.json")

_TABLES = ("queue", "edge_queue")
_SENT = {4: ("IpOutRequests", "IpForwDatagrams"), 6: ("Ip6OutRequests", "Ip6OutForwDatagrams")}
#: kernels that lack this counter, such as Linux 6.1, count what they forward among IPv4's OutRequests, too
_SEPARATE = "IpOutTransmits"
_TOO_LARGE = ("IpFragFails", "Ip6FragFails")
_RECEIVED = {4: "IpInReceives", 6: "Ip6InReceives"}
_UDP_SENT = ("UdpOutDatagrams", "Udp6OutDatagrams")
#: packets that one call of a program may hand over with UDP segmentation offload (UDP_MAX_SEGMENTS of Linux)
_UDP_SEGMENTS = 128

#: {link: (packets that had come to its queue at the last sample until then, at the first one from then on)}
_Came = dict[str, tuple[float, float]]


class _ByLinks(NamedTuple):
    """What links say of the stacks beside them. came: at each reading; programs: nodes with programs of others."""
    links: Sequence[Link]
    came: dict[str, _Came]
    counters: Counters
    ip_version: int
    programs: set[str]


def check(evidence: Evidence) -> Iterator[Finding]:
    if evidence.clock != "virtual":
        yield Finding(NOT_APPLICABLE, "on this clock stacks and queues are not read at one instant")
        return
    record, counters = evidence.snmp, evidence.counters
    radios = {station.node for cell in evidence.network.cells for station in cell.stations}
    came = {"measure_from": _came_until(evidence, record.measure_from_us)}
    for reading in ("at_end", "drained"):
        came[reading] = {name: (total, total) for name, one in counters.reading(reading).items()
                         for total in (one.device_tx_packets + one.dropped_packets + one.queued_packets,)}
    programs = {node for flow in evidence.flows if flow.transport == "program"
                for node in (flow.sender, flow.receiver)}
    by_links = _ByLinks(evidence.network.links, came, counters, evidence.network.ip_version, programs)
    wrong = compared = 0
    for node in evidence.network.nodes:
        name, values = node.name, record.nodes.get(node.name)
        if node.role not in ("host", "router") or not values or name in radios:
            continue                            # a switch has no such counters
        for number, reading in enumerate(record.readings):
            for law, least, most, stack in _laws(node, values, number, reading, by_links):
                compared += 1
                if not least <= stack <= most:
                    wrong += 1
                    yield Finding("invalid", f"{name}: {law} does not hold {_WHEN[reading]}: {stack:.0f} packets by "
                                             f"its stack, {least:.0f}{f' to {most:.0f}' if most > least else ''} by "
                                             "its links")
    if compared and not wrong:
        yield Finding("ok", f"the stacks of {len(record.nodes)} nodes sent and received what their links carried, "
                            f"in {compared} comparisons")


_WHEN = {"measure_from": "when measuring began", "at_end": "at the end", "drained": "when the network had run empty"}


def _laws(node: Node, values: NodeCounters, number: int, reading: str, by: _ByLinks) \
        -> Iterator[tuple[str, float, float, float]]:
    """(law, least and most by the links, by the stack) of a node at a reading, which is the number-th. A stack counts a
    large packet as one, also one that somebody else's program hands over by UDP segmentation offload."""
    out = [link for link in by.links if link.from_node == node.name]
    into = [link for link in by.links if link.to_node == node.name]
    if out and not any(link.gso for link in out) and all(link.name in by.came.get(reading, {}) for link in out):
        least, most = (sum(by.came[reading][link.name][end] for link in out) for end in (0, 1))
        sent = _SENT[by.ip_version] if by.ip_version == 6 or _SEPARATE in values else _SENT[4][:1]
        stack = sum(values[name][number] for name in sent if name in values)
        # too large for the next link: kernels differ in whether these count
        refused = sum(values[name][number] for name in _TOO_LARGE if name in values)
        if node.name in by.programs:
            least -= (_UDP_SEGMENTS - 1) * sum(values[name][number] for name in _UDP_SENT if name in values)
        yield "sent = queued", max(least, 0), most + refused, stack
    if into and by.counters.has(reading) and not any(link.gro for link in into):
        total = sum(came_out_packets(link, by.counters.reading(reading)[link.name]) for link in into)
        yield "delivered = received", total, total, values.get(_RECEIVED[by.ip_version], [0] * (number + 1))[number]


def _came_until(evidence: Evidence, at_us: int) -> _Came:
    """What had come to each queue at an instant: what it had sent, dropped and held. Rows count segments in what was
    sent, and one packet in what was dropped or held, where nobody cuts packets: they say nothing then."""
    cut = [link.name for link in evidence.network.links if not link.uncut]
    found: _Came = {}
    for table in _TABLES:
        rows = evidence.table(table)
        if rows is None:
            continue
        for name, mine in of_links(rows, cut):
            total = mine["sent_packets"] + mine["drops"] + mine["backlog_packets"]
            before, after = np.flatnonzero(mine["t_us"] <= at_us), np.flatnonzero(mine["t_us"] >= at_us)
            if len(before) and len(after):
                found[name] = float(total[before[-1]]), float(total[after[0]])
    return found
