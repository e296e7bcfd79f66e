# SPDX-License-Identifier: GPL-2.0-only
"""No packet appears or vanishes: on every link, and in every router and switch, whatever the graph."""
import math
from collections.abc import Iterator, Mapping, Sequence

from testbed.checks import Evidence, Finding
from testbed.checks.datagrams import came_out_packets, doubled_packets
from testbed.core.guest_files import LinkCounters, StationCounters
from topologies.links import wires
from topologies.links.records import Link

NEEDS = ("counters.json",)

#: standard deviations of the number of packets that something happens to at random; more come once in a million links
_DEVIATIONS = 5


def check(evidence: Evidence) -> Iterator[Finding]:
    network = evidence.network
    counters = evidence.counters
    links = counters.drained
    unknown = {link.name for link in network.links} ^ links.keys()
    if unknown or not (links or network.cells):
        yield Finding("invalid", f"the counters are not those of this network: "
                                 f"{', '.join(sorted(unknown)) or 'there are none'}")
        return
    wrong = 0
    double = {link.name: link.duplicate_percent for link in network.links if link.duplicate_percent}
    for link in network.links:
        for law, left, least, most in _laws(link, links[link.name]):
            if not least <= left <= most:
                wrong += 1
                yield Finding("invalid", f"{link.name}: {law} does not hold: {left} and "
                                         f"{least}{f' to {most}' if most > least else ''} packets")
    for router in (node.name for node in network.nodes if node.role in ("router", "switch")):
        finding = _router(router, network.links, links, counters.air_drained.get(router))
        wrong += finding.level != "ok"
        yield finding
    for link in network.links:
        if link.lose_segments:
            yield _chosen_losses(link, links[link.name].chosen_dropped_packets)
        if link.name in double:
            yield _duplicates(link.name, links[link.name], double[link.name] / 100)
        if link.reorder:
            yield _early(link, links[link.name], link.reorder.share_percent / 100)
    if links and not wrong:
        total = sum(one.device_rx_packets for one in links.values())
        yield Finding("ok" if total else "suspect",
                      f"every packet accounted for on {len(links)} link directions ({total} packets)")


def _laws(link: Link, one: LinkCounters) -> Iterator[tuple[str, int, int, int]]:
    """(law, left, least and most that the right may be): a packet has most_segments at most, also one that is gone."""
    most = link.most_segments
    yield "sent = left the device", one.sent_packets, one.device_tx_packets, one.device_tx_packets * most
    yield "left the device = arrived", one.device_tx_packets, one.device_rx_packets, one.device_rx_packets
    delivered = one.wire_delivered_packets - (doubled_packets(one) if link.duplicate_percent else 0)
    gone = one.wire_dropped_packets + one.wire_queued_packets
    yield "sent = delivered + lost + on the wire", one.sent_packets, delivered + gone, delivered + gone * most


def _router(router: str, links: Sequence[Link], counters: Mapping[str, LinkCounters], air: StationCounters | None) \
        -> Finding:
    """What its links bring = what its other links take, drop or still hold; air: of its radio, if it has one, for what
    becomes of packets there is the business of the check `air`."""
    into = sum(came_out_packets(link, counters[link.name]) for link in links
               if counters[link.name].to_node == router)
    leaving = [link for link in counters.values() if link.from_node == router]
    out, dropped, queued = (sum(link.device_tx_packets for link in leaving),
                            sum(link.dropped_packets for link in leaving), sum(link.queued_packets for link in leaving))
    if air:
        into, out = into + air.device_rx_packets, out + air.device_tx_packets
    holds = into == out + dropped + queued
    return Finding("ok" if holds else "invalid", f"{router}: {into} packets in {'=' if holds else 'but'} "
                                                 f"{out} out + {dropped} dropped + {queued} queued")


def _chosen_losses(link: Link, lost: int) -> Finding:
    """All that were chosen, and no others."""
    wanted = len(link.lose_segments) * link.lose_copies
    return Finding("ok" if lost == wanted else "suspect", f"{link.name}: {lost} of {wanted} chosen losses took place"
                   + ("" if lost == wanted else " (is there a transfer whose first byte has sequence number 0?)"))


def _duplicates(name: str, link: LinkCounters, share: float) -> Finding:
    packets, doubled = link.device_rx_packets, doubled_packets(link)
    return _by_chance(f"{name} sent {doubled} of {packets} packets twice", doubled, packets, share)


def _early(link: Link, counts: LinkCounters, share: float) -> Finding:
    """Those that the kernel let go before others, of those that came so far."""
    packets = counts.device_rx_packets - counts.wire_dropped_packets
    early = counts.wire_early_packets
    return _by_chance(f"{link.name} let {early} of {packets} packets go {wires.early_us(link) / 1000:g} ms early",
                      early, packets, share)


def _by_chance(message: str, count: int, packets: int, share: float) -> Finding:
    most = _DEVIATIONS * math.sqrt(packets * share * (1 - share)) + 1
    return Finding("ok" if abs(count - packets * share) <= most else "suspect",
                   f"{message}, {packets * share:.0f} expected ({100 * share:g} %)")
