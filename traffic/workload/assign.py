# SPDX-License-Identifier: GPL-2.0-only
"""What is decided for all flows of a run in one place: numbers, congestion controls, ports.

Flows are numbered from 1 in the order of the components. In a component they take turns with its
variants: those under test, or those that its `cca` names; a flow may name its own. Every socket has its flow's
congestion control before its SYN, since what another one leaves behind stays: pacing, ECN. So a host's default is that
of all its flows, or of those whose programs cannot choose. Where they differ it is one that leaves nothing behind, and
programs choose.
"""
import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from testbed.core import fields
from traffic.workload import records
from traffic.workload.records import Variant

if TYPE_CHECKING:
    from traffic.workload.components import Component, Flow, Kind

#: leaves nothing in a socket: it has no state, no pacing, no function that runs when a connection begins, and takes ECN
#: as the host has it (net/ipv4/tcp_cong.c, tcp_reno); and every kernel has it
NEUTRAL_CCA = "reno"

#: ports of flows whose kind asks for none in particular
FIRST_PORT = 7000
_PORTS = 65536
#: source ports of programs that open a connection from a port of its own for each: first, number
SOURCE_PORTS = (1024, 60000)


def variants_of(names: Sequence[str], variants: Sequence[Variant]) -> tuple[Variant, ...]:
    """The variants that a component's flows take turns with: those with these names, or those under test."""
    if not names:
        return tuple(v for v in variants if v.under_test)
    known = {v.name: v for v in variants}
    for name in names:
        if name not in known:
            raise fields.FieldError("cca", f"{name} is not one of this run's variants: {', '.join(known) or 'none'}")
    return tuple(known[name] for name in names)


def take_turns(flows: Sequence["Flow"], variants: Sequence[Variant], known: Sequence[Variant]) -> None:
    """Give the TCP flows of a component its variants in turn, but those that name one of the known ones this one."""
    tcp = [flow for flow in flows if flow.transport in ("tcp", "program")]
    turns = itertools.cycle(variants)
    for flow in tcp if variants else ():
        variant = next(turns) if flow.own_variant is None else variants_of([flow.own_variant], known)[0]
        flow.variant, flow.cca = variant.name, variant.kernel_cca
        flow.socket_options = [(option.name, option.level, option.number, option.value)
                               for option in variant.socket_options]


def host_variants(nodes: Iterable[str], flows: Iterable[records.Flow], variants: Sequence[Variant]) \
        -> dict[str, list[Variant]]:
    """{node: the variants that have flows there, in the order of `variants`}.

    flows: flow records. Of other nodes it is the first variant under test.
    """
    first = [v for v in variants if v.under_test][:1] or list(variants[:1])
    used: dict[str, set[str]] = {}
    for flow in flows:
        if flow.variant is not None:
            used.setdefault(flow.sender, set()).add(flow.variant)
            used.setdefault(flow.receiver, set()).add(flow.variant)
    return {node: [v for v in variants if v.name in used[node]] if node in used else first for node in nodes}


def host_defaults(nodes: Iterable[str], flows: Sequence[records.Flow], variants: Sequence[Variant]) \
        -> dict[str, str]:
    """{node: its default congestion control}

    flows: flow records. FieldError where programs that cannot choose need two.
    """
    fixed: dict[str, dict[str, str]] = {}           # node -> {congestion control: a component that needs it}
    for flow in flows:
        if not flow.chooses_cca and flow.cca:
            for node in (flow.sender, flow.receiver):
                fixed.setdefault(node, {}).setdefault(flow.cca, flow.component)
    found = {}
    for node, used in host_variants(nodes, flows, variants).items():
        needed = fixed.get(node, {})
        if len(needed) > 1:
            raise fields.FieldError("cca", " and ".join(f"{of} ({cca})" for cca, of in needed.items()) + " have the "
                                    f"default of their host {node}, as programs that choose no congestion control "
                                    "before they connect: use paths between different hosts")
        ccas = list(needed) or list(dict.fromkeys(variant.kernel_cca for variant in used))
        if ccas:
            found[node] = ccas[0] if len(ccas) == 1 else NEUTRAL_CCA
    return found


def choose_at_hosts(flows: Sequence["Flow"], variants: Sequence[Variant]) -> None:
    """Note at each flow which of its ends must choose its congestion control: the others have it by default."""
    said = [flow.record() for flow in flows]
    defaults = host_defaults({end for one in said for end in (one.sender, one.receiver)}, said, variants)
    for flow in flows:
        flow.sender_cca = flow.cca if flow.cca != defaults.get(flow.sender) else None
        flow.receiver_cca = flow.cca if flow.cca != defaults.get(flow.receiver) else None


def number(flows: Sequence["Flow"]) -> None:
    """Number the flows from 1, and the sources of one component on from those of the one before."""
    offset, after, component = 0, 0, None
    for place, flow in enumerate(flows, start=1):
        flow.flow = place
        if flow.component != component:
            component, offset = flow.component, after
        if flow.source is not None:
            flow.source += offset
            after = max(after, flow.source + 1)


def ports(components: Sequence[tuple["Component", "Kind", Sequence["Flow"]]]) -> None:
    """Give every flow a port of its receiver, and a source port if it wants one; all are unique in a run.

    FieldError if there are not enough.
    """
    # a program may use its port with either
    tcp: set[int] = set()
    udp: set[int] = set()
    taken = {"tcp": [tcp], "udp": [udp], "program": [tcp, udp]}
    after: dict[tuple[str, str], int] = {}
    for component, kind, flows in components:
        for flow in flows:
            for name, first in (("dport", getattr(kind, "FIRST_PORT", FIRST_PORT)),
                                ("sport", getattr(kind, "FIRST_SOURCE_PORT", FIRST_PORT))):
                if name == "sport" and not flow.wants_source_port:
                    continue
                port = after.get((component.kind, name), first)
                while any(port in ports_of for ports_of in taken[flow.transport]):
                    port += 1
                if port >= _PORTS:
                    raise fields.FieldError("flows", "there are more flows than ports")
                setattr(flow, name, port)
                for ports_of in taken[flow.transport]:
                    ports_of.add(port)
                after[component.kind, name] = port + 1
    _source_ranges([flow for _, _, flows in components for flow in flows])


def _source_ranges(flows: Sequence["Flow"]) -> None:
    """The source ports of flows of many connections: the longest range that nobody else uses at the sender, each
    component a part of its own: their programs know nothing of each other."""
    used: dict[str, set[int]] = {}
    for flow in flows:
        if flow.transport == "tcp":
            used.setdefault(flow.receiver, set()).add(flow.dport)
            if flow.sport is not None:
                used.setdefault(flow.sender, set()).add(flow.sport)
    first, count = SOURCE_PORTS
    sharing: dict[str, list[str]] = {}
    for flow in flows:
        if flow.wants_source_range and flow.component not in sharing.setdefault(flow.sender, []):
            sharing[flow.sender].append(flow.component)
    for flow in flows:
        if flow.wants_source_range:
            components = sharing[flow.sender]
            edges = sorted({first - 1, first + count,
                            *(port for port in used.get(flow.sender, ()) if first <= port < first + count)})
            a, b = max(zip(edges, edges[1:]), key=lambda pair: pair[1] - pair[0])
            part = (b - a - 1) // len(components)
            flow.source_range = a + 1 + components.index(flow.component) * part, part
