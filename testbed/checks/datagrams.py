# SPDX-License-Identifier: GPL-2.0-only
"""Every packet of the UDP flows was received, or dropped on its way."""
from collections.abc import Iterator, Mapping, Sequence

from testbed.checks import NOT_APPLICABLE, Evidence, Finding
from testbed.core.guest_files import Counters, DatagramCounts, LinkCounters
from topologies import standards
from topologies.links.records import Link
from topologies.wireless import airways
from traffic.workload.records import Flow


def check(evidence: Evidence) -> Iterator[Finding]:
    flows = [flow for flow in evidence.flows if flow.transport == "udp"]
    if flows:
        yield from _datagrams(evidence, flows, alone=len(flows) == len(evidence.flows))


def _datagrams(evidence: Evidence, flows: Sequence[Flow], alone: bool) -> Iterator[Finding]:
    """Every packet sent was received, or dropped on its way; alone: nothing else could have been dropped there."""
    if not evidence.can("guest.json") or not evidence.can("counters.json"):
        yield Finding(NOT_APPLICABLE, "the engine does not count the packets of UDP flows")
        return
    counts = evidence.guest.datagrams()
    unknown = [flow for flow in flows if flow.flow not in counts]
    if unknown:
        yield Finding("suspect", f"no record of the packets of {len(unknown)} of {len(flows)} UDP flows")
        return
    counters = evidence.counters
    links, air = counters.drained, _lost_on_air(counters)
    stations = {flow.flow: airways.senders(evidence.network, flow) for flow in flows}
    yield from _ends(flows, counts, links, {flow: sum(air[node] for node in nodes) for flow, nodes in stations.items()})
    sent = sum(counts[flow.flow].sent_packets for flow in flows)
    received = sum(counts[flow.flow].received_packets for flow in flows)
    again = sum(counts[flow.flow].duplicate_packets for flow in flows)
    crossed = {name for flow in flows for name in flow.hops}
    dropped = _dropped(crossed, links) + sum(air[node] for node in set().union(*stations.values()))
    # a packet of several frames is lost with any of them
    alone = alone and not any(standards.of(cell).CUTS_PACKETS for cell in evidence.network.cells)
    doubled = sum(doubled_packets(links[link.name]) for link in evidence.network.links
                  if link.duplicate_percent and link.name in crossed)
    message = f"{sent} packets sent = {received} received + {sent - received} lost of {len(flows)} UDP flows"
    if doubled or again:
        message += f", {doubled} doubled on their way and {again} of them received twice"
    if sent - received > dropped or alone and sent + doubled - received - again != dropped:
        yield Finding("invalid", f"{message}, but {dropped} were dropped on their links")
    else:
        yield Finding("ok", f"{message} ({dropped} dropped on their links)")


def _lost_on_air(counters: Counters) -> dict[str, int]:
    """Of each station: what was dropped before its radio, and frames that never arrived."""
    return {node: row.dropped_packets + row.lost for node, row in counters.air_drained.items()}


def _ends(flows: Sequence[Flow], counts: Mapping[int, DatagramCounts], links: Mapping[str, LinkCounters],
          on_air: dict[int, int]) -> Iterator[Finding]:
    """Each flow by itself: what its socket dropped, and what only its own links can have lost."""
    for flow in flows:
        one, dropped = counts[flow.flow], _dropped(set(flow.hops), links) + on_air[flow.flow]
        if one.socket_dropped_packets:
            yield Finding("invalid", f"flow {flow.flow}: the receiver's socket dropped "
                                     f"{one.socket_dropped_packets} packets")
        if not 0 <= one.sent_packets - one.received_packets <= dropped:
            yield Finding("invalid", f"flow {flow.flow}: {one.sent_packets} packets sent, "
                                     f"{one.received_packets} received, {dropped} dropped on its links")
        if not one.sent_packets:
            yield Finding("suspect", f"flow {flow.flow} sent no packet")


def doubled_packets(link: LinkCounters) -> int:
    """Packets that the wire of a link has sent twice: what it has more at its end than came to it."""
    return int(max(0, link.wire_delivered_packets + link.wire_dropped_packets + link.wire_queued_packets
                   - link.device_rx_packets))


def came_out_packets(link: Link, counts: LinkCounters) -> int:
    """Of a link's wire: each as one packet, however many segments it has, but twice what was doubled."""
    return int(counts.device_rx_packets - counts.wire_dropped_packets - counts.wire_queued_packets
               + (doubled_packets(counts) if link.duplicate_percent else 0))


def _dropped(names: set[str], links: Mapping[str, LinkCounters]) -> int:
    return sum(links[name].dropped_packets + links[name].wire_dropped_packets for name in names)
