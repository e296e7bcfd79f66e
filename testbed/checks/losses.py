# SPDX-License-Identifier: GPL-2.0-only
"""Packets are lost where the scenario loses them: in queues of bottlenecks, and on lossy links as often as it says."""
import math
from collections.abc import Iterator

from testbed.checks import Evidence, Finding
from testbed.core.guest_files import LinkCounters
from topologies.links import varying, wires
from topologies.links.records import Link, Policer

NEEDS = ("counters.json",)

#: standard deviations of the number of random losses; more come by chance once in a million links
_DEVIATIONS = 5
#: how long counters go on after the end (testbed/guest/main.py), and programs take to end
_DRAINING_S = 15


def check(evidence: Evidence) -> Iterator[Finding]:
    counters = evidence.counters
    links = evidence.network.links
    found = [finding for link in links for finding in _edge(link, counters.at_end[link.name])]
    found += [finding for link in links for finding in _link(link, counters.drained[link.name], evidence)]
    yield from found
    if all(finding.level == "ok" for finding in found):
        yield Finding("ok", f"no packet lost but in the queues of bottlenecks and on lossy links "
                            f"({len(links)} link directions)")


def _edge(link: Link, counts: LinkCounters) -> Iterator[Finding]:
    """Until the end: then hosts reset all connections at once, tens of thousands in an overload."""
    if counts.dropped_packets and not link.bottleneck:
        yield Finding("suspect", f"{link.name} is no bottleneck, but its queue dropped {counts.dropped_packets} "
                                 "packets")


def _link(link: Link, counts: LinkCounters, evidence: Evidence) -> Iterator[Finding]:
    name, chosen = link.name, counts.chosen_dropped_packets
    lost, packets = counts.wire_dropped_packets - chosen, counts.device_rx_packets - chosen
    if varying.varies(link, "loss_percent"):
        yield _changing(link, lost, packets, evidence)
        return
    if link.loss_model and link.loss_model.kind == "periodic":
        yield _periodic(link, chosen, counts.device_rx_packets, link.loss_model.every)
    if link.policer:
        yield _policed(link, link.policer, chosen, counts, evidence)
    share = wires.lost_share(link)
    if not share:
        if lost:
            yield Finding("invalid", f"{name} has no random loss, but lost {lost} packets on the wire")
        return
    most = _DEVIATIONS * wires.lost_deviation(link, packets) + 1
    yield Finding("ok" if abs(lost - packets * share) <= most else "suspect",
                  f"{name} lost {lost} of {packets} packets at random, {packets * share:.0f} expected "
                  f"({100 * share:.4g} %)")


def _changing(link: Link, lost: int, packets: int, evidence: Evidence) -> Finding:
    """A link whose loss changes: as many are expected as arrived while each probability was there."""
    table = evidence.table("link_changes")
    if table is None:
        return Finding("suspect", f"{link.name}: no record of its changes, and of what it was sent between them")
    mine = table[table["link"] == link.name]
    arrived = [0, *mine["arrived_packets"], packets]
    shares = [link.loss_percent / 100, *(mine["loss_percent"] / 100)]
    parts = [(later - earlier, share) for earlier, later, share in zip(arrived, arrived[1:], shares)]
    expected = sum(count * share for count, share in parts)
    most = _DEVIATIONS * math.sqrt(sum(count * share * (1 - share) for count, share in parts)) + 1
    return Finding("ok" if abs(lost - expected) <= most else "suspect",
                   f"{link.name} lost {lost} of {packets} packets at random, {expected:.0f} expected "
                   f"({len(mine)} changes)")


def _periodic(link: Link, lost: int, packets: int, every: int) -> Finding:
    """The kernel has counted since before traffic: one more or less."""
    return Finding("ok" if abs(lost - packets / every) <= 1 else "invalid",
                   f"{link.name} lost {lost} of {packets} packets, every {every}th")


def _policed(link: Link, limits: Policer, lost: int, counts: LinkCounters, evidence: Evidence) -> Finding:
    """A policer lets no more through than bucket and rate; what was on the wire when counting began is extra."""
    seconds = evidence.timing.duration_us / 1e6 + _DRAINING_S
    most = limits.burst_bytes + limits.rate_bps / 8 * seconds + link.rate_bps / 8e6 * link.delay_us
    passed = counts.wire_delivered_bytes
    return Finding("ok" if passed <= most else "invalid",
                   f"{link.name}: its policer dropped {lost} of {counts.device_rx_packets} packets, {passed} "
                   f"bytes went on, of {most:.0f} that it admits")
