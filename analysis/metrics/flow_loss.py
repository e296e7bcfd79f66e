# SPDX-License-Identifier: GPL-2.0-only
"""What the network lost of the only TCP flow of a run, beside UDP flows."""

from __future__ import annotations

from typing import Any

from analysis import shapes, tcp
from analysis.metrics import Metric
from analysis.metrics.udp import account
from analysis.runs import Run, read_json

_LINK = shapes.Object({"sent_packets": shapes.COUNT, "dropped_packets": shapes.COUNT,
                       "wire_dropped_packets": shapes.COUNT})
_COUNTERS = shapes.Object({"drained": shapes.Values(_LINK)})


def compute(run: Run) -> list[Metric]:
    """Packets dropped on the way there / packets that its sender sent, acknowledgements not among them.

    What a queue dropped is not known by flow. What UDP flows lost is known by their numbers: the rest of the drops
    on the links of all flows is the TCP flow's, if it is the only one. Nothing where that does not say it all.
    """
    flows, udp = tcp.listed_flows(run), [flow for flow in run.flows if flow["transport"] == "udp"]
    path = run.path / "raw" / "counters.json"
    if len(flows) != 1 or len(udp) + 1 != len(run.flows) or not path.exists():
        return []
    flow = flows[0]
    counts = {one["flow"]: one for one in account(run)}
    if any("lost_packets" not in counts.get(one["flow"], {}) for one in udp):
        return []
    links: dict[str, Any] = read_json(path, _COUNTERS)["drained"]
    crossed = {name for one in (flow, *udp) for name in one["hops"]}
    if not crossed <= links.keys() or any(one["sender"] == flow["sender"] for one in udp):
        return []
    dropped = sum(links[name]["dropped_packets"] + links[name]["wire_dropped_packets"] for name in crossed)
    lost = dropped - sum(counts[one["flow"]]["lost_packets"] for one in udp)
    first = links[flow["hops"][0]]
    sent = first["sent_packets"] + first["dropped_packets"]
    return [Metric("flow_loss", f"flow_{flow['flow']}", "%", 100 * lost / sent)] if sent and lost >= 0 else []
