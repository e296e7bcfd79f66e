# SPDX-License-Identifier: GPL-2.0-only
"""How many flows over the air were ever connected, and that the air explains the others.

A channel that is offered too much may take every request of a flow, or every answer. TCP asks again each time, and
what it missed was lost by a radio, or dropped by a queue on the way: stations and links count these, and know nothing
of TCP.
Who asked in vain where nothing was lost was not heard for another reason, which is a fault of the network or a program.
"""
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from testbed.checks import Evidence, Finding
from testbed.checks._programs import ends, tcp_flows
from testbed.checks._sockets import trying
from topologies.wireless import airways

NEEDS = ("kernel", "counters.json", "guest.json")

#: what is asked later than so much before the end may still be under way
_UNDER_WAY_US = 5_000_000
_COLUMNS = ["t_us", "node", "sport", "dst", "dport", "state", "total_retrans"]

Json = Mapping[str, Any]


def check(evidence: Evidence) -> Iterator[Finding]:
    flows = [flow for flow in tcp_flows(evidence) if airways.senders(evidence.network, flow)]
    found = ends(evidence)
    vain = [flow for flow in flows if not (found.get((flow["flow"], "sender")) or {}).get("ccas")]
    if not flows:
        return
    if not vain:
        yield Finding("ok", f"all {len(flows)} flows over the air were connected")
        return
    again, lost = _asked_again(evidence, vain), _lost(evidence, vain)
    said = f"{len(vain)} of {len(flows)} flows over the air were never connected"
    if again > lost:
        yield Finding("suspect", f"{said}: they asked {again} times again, but on their ways only {lost} packets were "
                                 "lost or dropped")
    else:
        yield Finding("ok", f"{said}: they asked {again} times again, and {lost} packets were lost or dropped by "
                            "radios and queues on their ways")


def _asked_again(evidence: Evidence, flows: list[Json]) -> int:
    """How often these flows sent their requests again, but for the last of them."""
    samples = evidence.table("tcp_info", usecols=_COLUMNS)
    asking = trying(samples, flows, evidence.network)
    if asking is None:
        return 0                                # of which the check `ccas` complains
    early = asking[asking["t_us"] <= evidence.timing.duration_us - _UNDER_WAY_US]
    return int(early.groupby("flow")["total_retrans"].max().sum())


def _lost(evidence: Evidence, flows: Iterable[Json]) -> int:
    """Packets that were lost or dropped where these flows' requests and answers go, in the whole run."""
    counters = evidence.json("counters.json")
    stations, links = set[str](), set[str]()
    for flow in flows:
        stations |= airways.senders(evidence.network, flow)
        stations |= airways.senders(evidence.network, {"sender": flow["receiver"], "receiver": flow["sender"]})
        links |= {*flow["hops"], *flow["hops_back"]}
    return int(sum(counters["air_drained"][node][key] for node in stations for key in ("lost", "dropped_packets"))
               + sum(counters["drained"][name].get(key) or 0 for name in links
                     for key in ("dropped_packets", "wire_dropped_packets")))
