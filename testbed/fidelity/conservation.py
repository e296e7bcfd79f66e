# SPDX-License-Identifier: GPL-2.0-only
"""No packet appears or vanishes: on every link, and across every router."""
from testbed.fidelity import Finding


def check(evidence):
    counters = evidence.json("counters.json")
    network = evidence.json("network.json")
    links = counters["drained"]
    unknown = {l["name"] for l in network["links"]} ^ links.keys()
    if unknown or not links:
        yield Finding("invalid", f"the counters are not those of this network: {', '.join(sorted(unknown)) or 'there are none'}")
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
    for router in (n["name"] for n in network["nodes"] if n["role"] == "router"):
        entered = sum(l["wire_delivered_packets"] for l in links.values() if l["to"] == router)
        left = sum(l["sent_packets"] + l["dropped_packets"] + l["queued_packets"]
                   for l in links.values() if l["from"] == router)
        if entered != left:
            wrong += 1
            yield Finding("invalid", f"{router}: {entered} packets in, {left} out, dropped or queued")
    for link in network["links"]:
        if link["bottleneck"]:
            yield from _bottleneck(link, links)
        if link.get("lose_segments"):
            yield _chosen_losses(link, links[link["name"]]["chosen_dropped_packets"])
    if not wrong:
        total = sum(l["device_rx_packets"] for l in links.values())
        yield Finding("ok" if total else "suspect", f"every packet accounted for on {len(links)} link directions ({total} packets)")


def _bottleneck(link, links):
    """What the access links bring = out + dropped + still queued (hosts of one side do not talk)."""
    into = sum(l["wire_delivered_packets"] for l in links.values()
               if l["to"] == link["from"] and l["from"] != link["to"])
    mine = links[link["name"]]
    out, dropped, queued = mine["sent_packets"], mine["dropped_packets"], mine["queued_packets"]
    holds = into == out + dropped + queued
    yield Finding("ok" if holds else "invalid", f"{link['name']}: {into} packets in {'=' if holds else 'but'} "
                                                f"{out} out + {dropped} dropped + {queued} queued")


def _chosen_losses(link, lost):
    """All that were chosen, and no others."""
    wanted = len(link["lose_segments"]) * link["lose_copies"]
    return Finding("ok" if lost == wanted else "suspect", f"{link['name']}: {lost} of {wanted} chosen losses took place"
                   + ("" if lost == wanted else " (is there a transfer whose first byte has sequence number 0?)"))
