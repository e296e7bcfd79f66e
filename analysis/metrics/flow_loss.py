# SPDX-License-Identifier: GPL-2.0-only
"""What the network lost of TCP flows: of the only one of a run, and of those with links of their own at both ends."""

from __future__ import annotations

from typing import Any

from analysis import shapes, tcp
from analysis.metrics import Metric
from analysis.metrics.udp import account
from analysis.runs import Run, read_json

UNITS = {"flow_loss": "%"}
_LINK = shapes.Object({"sent_packets": shapes.COUNT, "dropped_packets": shapes.COUNT,
                       "wire_dropped_packets": shapes.COUNT, "wire_delivered_packets?": shapes.COUNT})
_COUNTERS = shapes.Object({"drained": shapes.Values(_LINK)})


def compute(run: Run) -> list[Metric]:
    """Packets dropped on the way there / packets that its sender sent, acknowledgements not among them.

    Nothing of flows of which the counters of links do not say it.
    """
    flows, path = tcp.listed_flows(run), run.path / "raw" / "counters.json"
    if not flows or not path.exists():
        return []
    links: dict[str, Any] = read_json(path, _COUNTERS)["drained"]
    found = []
    for flow in flows:
        lost = _as_the_only_one(run, flow, links) if len(flows) == 1 else _between_own_links(run, flow, links)
        first = links.get(flow["hops"][0]) if flow["hops"] else None
        sent = first["sent_packets"] + first["dropped_packets"] if first else 0
        if lost is not None and lost >= 0 and sent:
            found.append(Metric("flow_loss", f"flow_{flow['flow']}", "%", 100 * lost / sent))
    return found


def _as_the_only_one(run: Run, flow: dict[str, Any], links: dict[str, Any]) -> int | None:
    """What UDP flows lost is known by their numbers: the rest of the drops on the links of all flows is the flow's."""
    udp = [one for one in run.flows if one["transport"] == "udp"]
    counts = {one["flow"]: one for one in account(run)}
    crossed = {name for one in (flow, *udp) for name in one["hops"]}
    if (len(udp) + 1 != len(run.flows) or not crossed <= links.keys()
            or any("lost_packets" not in counts.get(one["flow"], {}) or one["sender"] == flow["sender"]
                   for one in udp)):
        return None
    dropped = sum(links[name]["dropped_packets"] + links[name]["wire_dropped_packets"] for name in crossed)
    return int(dropped - sum(counts[one["flow"]]["lost_packets"] for one in udp))


def _between_own_links(run: Run, flow: dict[str, Any], links: dict[str, Any]) -> int | None:
    """What entered the first link and did not come out of the last, where nobody else uses these two."""
    ends = {*flow["hops"][:1], *flow["hops"][-1:]}
    others = {name for one in run.flows for way in ("hops", "hops_back")
              for name in one.get(way, ()) if one["flow"] != flow["flow"] or way != "hops"}
    if len(ends) != 2 or ends & others or not ends <= links.keys():
        return None
    first, last = (links[flow["hops"][place]] for place in (0, -1))
    delivered = last.get("wire_delivered_packets")
    return None if delivered is None else int(first["sent_packets"] + first["dropped_packets"] - delivered)
