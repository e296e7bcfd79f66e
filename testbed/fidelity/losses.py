# SPDX-License-Identifier: GPL-2.0-only
"""Packets are lost where the scenario loses them: in queues of bottlenecks, and on lossy links as often as it says."""
import math
from collections.abc import Iterator
from typing import Any

from testbed.fidelity import Evidence, Finding

NEEDS = ("kernel",)

#: standard deviations of the number of random losses; more come by chance once in a million links
_DEVIATIONS = 5


def check(evidence: Evidence) -> Iterator[Finding]:
    counters = evidence.json("counters.json")["drained"]
    links = evidence.json("network.json")["links"]
    found = [finding for link in links for finding in _link(link, counters[link["name"]])]
    yield from found
    if all(finding.level == "ok" for finding in found):
        yield Finding("ok", f"no packet lost but in the queues of bottlenecks and on lossy links "
                            f"({len(links)} link directions)")


def _link(link: dict[str, Any], counts: dict[str, int]) -> Iterator[Finding]:
    name, chosen = link["name"], counts.get("chosen_dropped_packets", 0)
    if counts["dropped_packets"] and not link["bottleneck"]:
        yield Finding("suspect", f"{name} is no bottleneck, but its queue dropped {counts['dropped_packets']} packets")
    lost, packets = counts["wire_dropped_packets"] - chosen, counts["device_rx_packets"] - chosen
    share = link["loss_percent"] / 100
    if not share:
        if lost:
            yield Finding("invalid", f"{name} has no random loss, but lost {lost} packets on the wire")
        return
    most = _DEVIATIONS * math.sqrt(packets * share * (1 - share)) + 1
    yield Finding("ok" if abs(lost - packets * share) <= most else "suspect",
                  f"{name} lost {lost} of {packets} packets at random, {packets * share:.0f} expected "
                  f"({link['loss_percent']:g} %)")
