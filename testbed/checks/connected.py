# SPDX-License-Identifier: GPL-2.0-only
"""How many flows over the air were ever connected, and that the air explains the others.

A channel that is offered too much may take every request of a flow, or every answer. TCP asks again each time, and
what it missed was lost by a radio, or dropped by a queue on the way: stations and links count these, and know nothing
of TCP.
Who asked in vain where nothing was lost was not heard for another reason, which is a fault of the network or a program.
"""
from collections.abc import Iterable, Iterator, Sequence

from testbed.checks import Evidence, Finding
from testbed.checks._programs import ends, tcp_flows
from testbed.checks._sockets import trying
from topologies.wireless import airways
from traffic.workload.records import Flow

NEEDS = ("kernel", "counters.json", "guest.json")

#: what is asked later than so much before the end may still be under way
_UNDER_WAY_US = 5_000_000
_COLUMNS = ["t_us", "node", "sport", "dst", "dport", "state", "total_retrans"]


def check(evidence: Evidence) -> Iterator[Finding]:
    flows = [flow for flow in tcp_flows(evidence) if airways.senders(evidence.network, flow)]
    found = ends(evidence)
    vain = [flow for flow in flows if not ((one := found.get((flow.flow, "sender"))) and one.ccas)]
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


def _asked_again(evidence: Evidence, flows: Sequence[Flow]) -> int:
    """How often these flows sent their requests again, but for the last of them."""
    samples = evidence.table("tcp_info", usecols=_COLUMNS)
    asking = trying(samples, flows, evidence.network)
    if asking is None:
        return 0                                # of which the check `ccas` complains
    early = asking[asking["t_us"] <= evidence.timing.duration_us - _UNDER_WAY_US]
    return int(early.groupby("flow")["total_retrans"].max().sum())


def _lost(evidence: Evidence, flows: Iterable[Flow]) -> int:
    """Packets that were lost or dropped where these flows' requests and answers go, in the whole run."""
    counters = evidence.counters
    stations, links = set[str](), set[str]()
    for flow in flows:
        stations |= airways.senders(evidence.network, flow)
        stations |= airways.senders(evidence.network, flow.changed(sender=flow.receiver, receiver=flow.sender))
        links |= {*flow.hops, *flow.hops_back}
    return sum(counters.air_drained[node].lost + counters.air_drained[node].dropped_packets for node in stations) + sum(
        counters.drained[name].dropped_packets + counters.drained[name].wire_dropped_packets for name in links)
