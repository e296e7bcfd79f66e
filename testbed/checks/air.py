# SPDX-License-Identifier: GPL-2.0-only
"""No frame appears or vanishes on the air: what stations sent is what others received, or is known to be lost.

The counters are of two kinds that know nothing of each other: those of the computed channel (kernel-modules/air) and
those of the kernel's devices.
"""
from collections.abc import Iterator, Mapping
from typing import Any

from testbed.checks import Evidence, Finding
from topologies import standards

NEEDS = ("counters.json",)

_MOST_AT_ONCE = 32

Counters = dict[str, int]


def check(evidence: Evidence) -> Iterator[Finding]:
    cells = evidence.network.get("cells") or []
    found: dict[str, Counters] = evidence.json("counters.json").get("air_drained") or {}
    for cell in cells:
        unknown = [station["node"] for station in cell["stations"] if station["node"] not in found]
        if unknown:
            yield Finding("invalid", f"no counters of the radios of {', '.join(unknown)}")
            continue
        yield from _cell(cell, {station["node"]: found[station["node"]] for station in cell["stations"]})


def _cell(cell: Mapping[str, Any], stations: dict[str, Counters]) -> Iterator[Finding]:
    wrong = 0
    queue_at_device = standards.of(cell).QUEUE_AT_DEVICE
    for node, counts in stations.items():
        for law, left, right in _laws(counts, queue_at_device):
            if left != right:
                wrong += 1
                yield Finding("invalid", f"{node} on the air: {law} does not hold: {left} and {right}")
        if not queue_at_device and not _dropped(counts):
            wrong += 1
            dropped, by_codel, times = (counts[key] for key in ("dropped_packets", "codel_dropped", "overlimits"))
            yield Finding("invalid", f"{node} on the air: {dropped} packets vanished before the radio, but CoDel "
                                     f"dropped {by_codel} and its queues were too long {times} times")
        if counts["queued"]:
            wrong += 1
            yield Finding("suspect", f"{node} on the air: {counts['queued']} frames still waited when the network had "
                                     "had time to run empty")
    sums = {key: sum(counts[key] for counts in stations.values()) for key in next(iter(stations.values()))}
    arrived, sent = sums["delivered"] + sums["lost"], sums["frames"]
    if arrived != sent:
        wrong += 1
        yield Finding("invalid", f"{sent} frames on the air, but {sums['delivered']} were delivered and "
                                 f"{sums['lost']} lost")
    if not wrong:
        yield Finding("ok" if sent else "suspect",
                      f"every frame accounted for on the air ({sent} of {len(stations)} stations: {sums['delivered']} "
                      f"delivered, {sums['lost']} lost after {sums['attempts']} attempts)")


def _dropped(counts: Counters) -> bool:
    """Whether mac80211 says that it dropped as many packets as are missing: of a queue that is too long it drops
    several at once (fq_flow_drop in include/net/fq_impl.h)."""
    others = counts["dropped_packets"] - counts["codel_dropped"]
    return counts["overlimits"] <= others <= _MOST_AT_ONCE * counts["overlimits"]


def _laws(counts: Counters, queue_at_device: bool) -> Iterator[tuple[str, int, int]]:
    yield ("frames = acknowledged + given up + without access", counts["frames"],
           counts["acknowledged"] + counts["given_up"] + counts["no_access"])
    yield "received = delivered + repeated", counts["received"], counts["delivered"] + counts["duplicates"]
    yield "delivered by the channel = received by the device", counts["delivered"], counts["device_rx_packets"]
    if queue_at_device:
        yield "sent by the device = frames", counts["device_tx_packets"], counts["frames"]
