# SPDX-License-Identifier: GPL-2.0-only
"""No packet appears or vanishes: on every link, and in every router, whatever the graph."""
from collections.abc import Iterator
from typing import Any

from testbed.fidelity import Evidence, Finding

NEEDS = ("counters.json",)

Counters = dict[str, Any]


def check(evidence: Evidence) -> Iterator[Finding]:
    network = evidence.json("network.json")
    links: dict[str, Counters] = evidence.json("counters.json")["drained"]
    unknown = {link["name"] for link in network["links"]} ^ links.keys()
    if unknown or not links:
        yield Finding("invalid", f"the counters are not those of this network: "
                                 f"{', '.join(sorted(unknown)) or 'there are none'}")
        return
    wrong = 0
    for name, link in links.items():
        for law, left, right in (
                ("sent = left the device", link["sent_packets"], link["device_tx_packets"]),
                ("left the device = arrived", link["device_tx_packets"], link["device_rx_packets"]),
                ("arrived = delivered + lost + on the wire", link["device_rx_packets"],
                 link["wire_delivered_packets"] + link["wire_dropped_packets"] + link["wire_queued_packets"])):
            if left != right:
                wrong += 1
                yield Finding("invalid", f"{name}: {law} does not hold: {left} and {right} packets")
    for router in (node["name"] for node in network["nodes"] if node["role"] == "router"):
        finding = _router(router, links)
        wrong += finding.level != "ok"
        yield finding
    for link in network["links"]:
        if link.get("lose_segments"):
            yield _chosen_losses(link, links[link["name"]]["chosen_dropped_packets"])
    if not wrong:
        total = sum(link["device_rx_packets"] for link in links.values())
        yield Finding("ok" if total else "suspect",
                      f"every packet accounted for on {len(links)} link directions ({total} packets)")


def _router(router: str, links: dict[str, Counters]) -> Finding:
    """What its links bring = what its other links take, drop or still hold."""
    into = sum(link["wire_delivered_packets"] for link in links.values() if link["to"] == router)
    out, dropped, queued = (sum(link[what] for link in links.values() if link["from"] == router)
                            for what in ("sent_packets", "dropped_packets", "queued_packets"))
    holds = into == out + dropped + queued
    return Finding("ok" if holds else "invalid", f"{router}: {into} packets in {'=' if holds else 'but'} "
                                                 f"{out} out + {dropped} dropped + {queued} queued")


def _chosen_losses(link: dict[str, Any], lost: int) -> Finding:
    """All that were chosen, and no others."""
    wanted = len(link["lose_segments"]) * link["lose_copies"]
    return Finding("ok" if lost == wanted else "suspect", f"{link['name']}: {lost} of {wanted} chosen losses took place"
                   + ("" if lost == wanted else " (is there a transfer whose first byte has sequence number 0?)"))
