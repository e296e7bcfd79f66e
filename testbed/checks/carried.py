# SPDX-License-Identifier: GPL-2.0-only
"""Every component carried data, and no program says that it failed: some of them end with status 0 all the same.

Programs of others keep no account. What their hosts sent is known where no other flow has these hosts: segments of TCP
with data, and all packets that are not TCP's.
"""
import json
from collections.abc import Iterator, Mapping

from testbed.checks import NOT_APPLICABLE, Evidence, Finding
from testbed.checks._programs import ends, receivers, tcp_flows
from testbed.core.guest_files import TrafficAccount
from traffic.workload.records import Flow

NEEDS = ("guest.json",)

#: what iperf3 says when it is ended by a signal, as servers are
_ENDED = "interrupt"
#: of what a program said last
_LAST_WORDS = 300


def check(evidence: Evidence) -> Iterator[Finding]:
    traffic = evidence.guest.traffic
    bad = 0
    for component, files in _files(traffic):
        for name in files:
            if error := _error(_text(evidence, name)):
                bad += 1
                yield Finding("suspect", f"{component}: {name} says that the program failed: {error}")
    carried = _carried(evidence)
    outputs = dict(_files(traffic))
    for component in sorted(name for name, amount in carried.items() if not amount):
        bad += 1
        words = " ".join(filter(None, (" ".join(_text(evidence, name).split()) for name in outputs.get(component, ()))))
        yield Finding("suspect", f"{component} carried no data" + f"; its programs' last words: {words[-_LAST_WORDS:]}"
                      * bool(words))
    if not bad and carried:
        yield Finding("ok", f"{', '.join(sorted(carried))} carried data")
    elif not bad:
        yield Finding(NOT_APPLICABLE, "nobody counts what components carried")


def _files(traffic: Mapping[str, TrafficAccount]) -> Iterator[tuple[str, list[str]]]:
    """(component, files of raw/ that its programs left)"""
    for component, account in traffic.items():
        if account.files:
            yield component, [name for names in account.files.values() for name in names]


def _text(evidence: Evidence, name: str) -> str:
    path = evidence.run_dir / "raw" / name
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _error(text: str) -> str:
    """What a program says in JSON went wrong, "" if nothing: iperf3 has `error`, as lines (--json-stream) an event."""
    if not text.lstrip().startswith("{"):
        return ""
    for part in (text, *text.splitlines()):
        try:
            said = json.loads(part)
        except (ValueError, RecursionError):
            continue
        if isinstance(said, dict):
            error = said.get("data") if said.get("event") == "error" else said.get("error")
            if error and not str(error).startswith(_ENDED):
                return " ".join(str(error).split())
            if part is text:
                return ""
    return ""


def _carried(evidence: Evidence) -> dict[str, int]:
    """{component: an amount of data, 0 if none} of the components of whose flows all are known."""
    amounts: dict[str, list[int | None]] = {}
    accounts, counts, tables = ends(evidence), _datagrams(evidence), _delivered(evidence)
    both = {flow.flow: receivers([flow]) for flow in tcp_flows(evidence)}
    for flow in evidence.flows:
        if flow.transport == "program":
            amount = _sent(flow, evidence)
        elif flow.source is not None:
            amount = tables.get(flow.source)
        elif flow.transport == "udp":
            amount = counts.get(flow.flow)
        else:
            known = [accounts[end] for end in both.get(flow.flow, ()) if end in accounts]
            amount = sum(one.checked_bytes + one.unchecked_bytes for one in known) if known else None
        amounts.setdefault(flow.component, []).append(amount)
    return {component: sum(filter(None, of_flows)) for component, of_flows in amounts.items() if None not in of_flows}


def _datagrams(evidence: Evidence) -> dict[int, int]:
    """{UDP flow: packets that it received}"""
    return {flow: one.received_packets for flow, one in evidence.guest.datagrams().items()}


def _delivered(evidence: Evidence) -> dict[int, int]:
    """{source: bytes delivered on its connections} of those that had some to deliver."""
    if all(flow.source is None for flow in evidence.flows):
        return {}
    connections = evidence.table("connections", low_memory=False)
    if connections is None:
        return {}                               # of which other checks complain
    asked, delivered = (connections[[f"{side}_bytes_{what}" for side in ("init", "acc")]].astype(float).sum(axis=1)
                        .groupby(connections["source"]).sum() for what in ("asked", "delivered"))
    return {int(source): int(delivered[source]) for source in asked.index[asked > 0]}


def _sent(flow: Flow, evidence: Evidence) -> int | None:
    """Segments with data and packets of other protocols that both hosts of a flow sent; None if others share them."""
    hosts = {flow.sender, flow.receiver}
    if not evidence.can("snmp.json") or any(hosts & {other.sender, other.receiver} for other in evidence.flows
                                            if other.flow != flow.flow):
        return None
    nodes, total = evidence.snmp.nodes, 0
    for host in hosts:
        last = {name: values[-1] for name, values in nodes.get(host, {}).items()}
        # neighbours are looked for by ICMPv6
        packets = last.get("IpOutRequests", 0) + last.get("Ip6OutRequests", 0) - last.get("Icmp6OutMsgs", 0)
        of_tcp = last.get("TcpOutSegs", 0) + last.get("TcpRetransSegs", 0)
        total += last.get("TcpExtTCPOrigDataSent", 0) + max(0, packets - of_tcp)
    return total
