# SPDX-License-Identifier: GPL-2.0-only
"""Congestion marks (CE) are accounted for: flow by flow what left a queue is what it says that it marked, and arrives.

Three instruments count: the queue itself, copies of the headers that leave it (testbed/probes/ce_marks.py), and the
stacks of the hosts to which the packets go.
"""
from collections.abc import Iterator, Mapping

from testbed.checks import Evidence, Finding
from testbed.checks.datagrams import doubled_packets
from testbed.core.guest_files import LinkCounters
from topologies import queues
from topologies.links.records import Link
from traffic.workload.records import Flow

NEEDS = ("kernel",)

#: {(number of the flow, whether back to its sender, link): packets with CE}
_Counts = dict[tuple[int, bool, str], int]


def check(evidence: Evidence) -> Iterator[Finding]:
    links = {link.name: link for link in evidence.network.links if queues.traits(link).marks}
    if not links:
        return
    table = evidence.table("ce_marks")
    if table is None:
        yield Finding("suspect", f"the marks of {len(links)} queues were not counted by flow")
        return
    lost = _lost(evidence)
    if lost:
        yield Finding("invalid", f"there was no room for {lost} packets with CE: which flows they are of is not known")
        return
    counts: _Counts = {(int(flow), bool(back), str(link)): int(packets) for (flow, back, link), packets in
                       table.groupby(["flow", "backward", "link"])["packets"].sum().items()}
    flows = {flow.flow: flow for flow in evidence.flows}
    unknown = sum(packets for (flow, _, _), packets in counts.items() if flow not in flows)
    if unknown:
        yield Finding("suspect", f"{unknown} packets with CE are of none of the {len(flows)} flows")
    counters = evidence.counters.drained
    for name, link in links.items():
        before = sum(packets for (flow, back, at), packets in counts.items() if flow in flows
                     and name in (way := flows[flow].way(back))
                     and at == queues.last_marking(way[:way.index(name)], set(links)))
        yield _left(link, sum(packets for (_, _, at), packets in counts.items() if at == name), before, counters[name])
    yield from _arrived(counts, flows, set(links), evidence)


def _lost(evidence: Evidence) -> int:
    """Packets for which the probe had no room."""
    notes = evidence.guest.probes
    return notes["ce_marks"].lost_packets if "ce_marks" in notes else 0


def _left(link: Link, left: int, before: int, counts: LinkCounters) -> Finding:
    """What left with CE is what was marked; where packets come with CE already, a queue may mark them once more."""
    marked = counts.ce_marked_packets
    traits = queues.traits(link)
    least = (marked / 2 if traits.counts_marks_twice else marked) - (
        counts.dropped_packets if traits.drops_marked else 0)
    return Finding("ok" if least <= left <= marked + before else "invalid",
                   f"{link.name}: {left} packets left with CE, of {marked} that its queue marked"
                   + f" and {before} that came with it" * bool(before))


def _arrived(counts: _Counts, flows: Mapping[int, Flow], links: set[str], evidence: Evidence) -> Iterator[Finding]:
    """The hosts' stacks counted what left the last of these queues on its way, but for what was lost behind it."""
    counters, nodes = evidence.counters.drained, evidence.snmp.nodes
    sent: dict[str, int] = {}
    behind: dict[str, set[str]] = {}
    for flow in flows.values():
        for back in (False, True):
            way = flow.way(back)
            last = queues.last_marking(way, links)
            if last:
                host = flow.sender if back else flow.receiver
                sent[host] = sent.get(host, 0) + counts.get((flow.flow, back, last), 0)
                behind.setdefault(host, set()).update(way[way.index(last):])
    wrong = 0
    for host, packets in sent.items():
        arrived = sum(series[-1] for name, series in nodes.get(host, {}).items() if name.endswith("InCEPkts"))
        lost = sum(counters[name].wire_dropped_packets + (name not in links) * counters[name].dropped_packets
                   for name in behind[host])
        doubled = sum(doubled_packets(counters[name]) for name in behind[host])
        if not packets - lost <= arrived <= packets + doubled:
            wrong += 1
            yield Finding("invalid", f"{host}: {arrived} packets arrived with CE, {packets} left the queues that mark "
                                     f"({lost} packets were lost behind them)")
    if sent and not wrong:
        yield Finding("ok", f"{sum(sent.values())} packets of {len(flows)} flows left queues with CE and arrived with "
                            "it")
