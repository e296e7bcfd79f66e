# SPDX-License-Identifier: GPL-2.0-only
"""No frame appears or vanishes on the air: what stations sent is what others received, or is known to be lost.

The counters are of two kinds that know nothing of each other: those of the computed channel (kernel-modules/air) and
those of the kernel's devices.
"""
from collections.abc import Iterator, Mapping

from testbed.checks import Evidence, Finding
from testbed.core.guest_files import StationCounters
from topologies import standards
from topologies.links.records import Cell

NEEDS = ("counters.json",)

_MOST_AT_ONCE = 32


def check(evidence: Evidence) -> Iterator[Finding]:
    found = evidence.counters.air_drained
    for cell in evidence.network.cells:
        unknown = [station.node for station in cell.stations if station.node not in found]
        if unknown:
            yield Finding("invalid", f"no counters of the radios of {', '.join(unknown)}")
            continue
        yield from _cell(cell, {station.node: found[station.node] for station in cell.stations})


def _cell(cell: Cell, stations: Mapping[str, StationCounters]) -> Iterator[Finding]:
    wrong = 0
    queue_at_device = standards.of(cell).QUEUE_AT_DEVICE
    for node, counts in stations.items():
        for law, left, right in _laws(counts, queue_at_device):
            if left != right:
                wrong += 1
                yield Finding("invalid", f"{node} on the air: {law} does not hold: {left} and {right}")
        if not queue_at_device and not _dropped(counts):
            wrong += 1
            dropped, by_codel, times = (counts.dropped_packets, counts.codel_dropped, counts.overlimits)
            yield Finding("invalid", f"{node} on the air: {dropped} packets vanished before the radio, but CoDel "
                                     f"dropped {by_codel} and its queues were too long {times} times")
        if counts.queued:
            wrong += 1
            yield Finding("suspect", f"{node} on the air: {counts.queued} frames still waited when the network had "
                                     "had time to run empty")
    delivered, lost, attempts, sent = (sum(values) for values in zip(*(
        (counts.delivered, counts.lost, counts.attempts, counts.frames) for counts in stations.values())))
    arrived = delivered + lost
    if arrived != sent:
        wrong += 1
        yield Finding("invalid", f"{sent} frames on the air, but {delivered} were delivered and "
                                 f"{lost} lost")
    if not wrong:
        yield Finding("ok" if sent else "suspect",
                      f"every frame accounted for on the air ({sent} of {len(stations)} stations: {delivered} "
                      f"delivered, {lost} lost after {attempts} attempts)")


def _dropped(counts: StationCounters) -> bool:
    """Whether mac80211 says that it dropped as many packets as are missing: of a queue that is too long it drops
    several at once (fq_flow_drop in include/net/fq_impl.h)."""
    others = counts.dropped_packets - counts.codel_dropped
    return counts.overlimits <= others <= _MOST_AT_ONCE * counts.overlimits


def _laws(counts: StationCounters, queue_at_device: bool) -> Iterator[tuple[str, int, int]]:
    yield ("frames = acknowledged + given up + without access", counts.frames,
           counts.acknowledged + counts.given_up + counts.no_access)
    yield "received = delivered + repeated", counts.received, counts.delivered + counts.duplicates
    yield "delivered by the channel = received by the device", counts.delivered, counts.device_rx_packets
    if queue_at_device:
        yield "sent by the device = frames", counts.device_tx_packets, counts.frames
