# SPDX-License-Identifier: GPL-2.0-only
"""Listed flows, each with its own path, time, transport and congestion control, as a component of the traffic
(docs/howto/flows.md).

    kind: flows
    flows:
      - {path: n4->n1, start: 1 s, stop: 9 s, cca: bic}     sends all it can until it stops
      - {rtt: 158 ms, start: 2 s, bytes: 3 MB}              sends so much, over a path with this base RTT
      - {transport: udp, rate: 2 Mbit/s, packet: 500 B}     as kind cbr does

Defaults: the first path, in the direction of the acceptor's data; start and stop of the component; tcp; its congestion
controls, with which the flows that name none take turns.
"""
import dataclasses

from testbed.core import fields
from testbed.core.fields import FieldError
from testbed.core.timing import Timing
from testbed.core.units import show
from topologies.links.records import Network
from traffic.datagrams import orders
from traffic.datagrams.orders import FIRST_PORT, collect
from traffic.greedy.orders import socket_programs
from traffic.workload import routes
from traffic.workload.components import NAME_PATTERN, Component, Context, Flow, Prepared

__all__ = ["FIRST_PORT", "Section", "bulk_routes", "ccas", "collect", "flows", "foreign_sockets", "prepare", "validate"]

#: simulators can send it, too (testbed/engines/_simulators/workload.py)
SIMULATED = True
_USUAL_PACKET_BYTES = 1000


@dataclasses.dataclass(frozen=True)
class FlowSection:
    """The fields of one flow."""
    path: str | None = routes.path_field()
    rtt_us: int | None = fields.time(default=None)
    start_us: int | None = fields.time(default=None)
    stop_us: int | None = fields.time(default=None, least=1)
    bytes_bytes: int | None = fields.size(default=None, least=1)
    cca: str | None = fields.word(default=None, pattern=NAME_PATTERN, example="cubic")
    transport: str = fields.word(choices=("tcp", "udp"), default="tcp")
    rate_bps: int | None = fields.rate(default=None)
    packet_bytes: int | None = orders.packet_field(default=None)

    def __post_init__(self) -> None:
        for name, transport in (("bytes_bytes", "tcp"), ("cca", "tcp"), ("rate_bps", "udp"), ("packet_bytes", "udp")):
            if getattr(self, name) is not None and self.transport != transport:
                raise FieldError(fields.plain(name), f"only with transport: {transport}")
        if self.path is not None and self.rtt_us is not None:
            raise FieldError("rtt", "path or rtt expected, not both")
        if self.transport == "udp":
            if self.rate_bps is None:
                raise FieldError("rate", "is missing: a UDP flow has one")
            orders.gap_ns(self.rate_bps, self.packet)

    @property
    def packet(self) -> int:
        """Size of an IP packet."""
        return self.packet_bytes or _USUAL_PACKET_BYTES


@dataclasses.dataclass(frozen=True)
class Section:
    """The flows of a component."""
    flows: tuple[FlowSection, ...] = fields.listing(fields.section(FlowSection), least=1)


def ccas(section: Section) -> list[str]:
    """The variants that single flows of a component name."""
    return [one.cca for one in section.flows if one.cca]


def uses_ccas(section: Section) -> bool:
    """Whether a congestion control of the component makes a difference to its flows."""
    return any(one.transport == "tcp" and one.cca is None for one in section.flows)


def foreign_sockets(_section: Section) -> str:
    """Programs of ours open all sockets."""
    return ""


def bulk_routes(section: Section, network: Network) -> list[routes.Route]:
    return [route for one in section.flows if one.transport == "tcp" for route in _routes(one, network)]


def validate(section: Section, component: Component, network: Network, _timing: Timing) -> None:
    for place, one in enumerate(section.flows, start=1):
        try:
            _routes(one, network)
            if one.transport == "udp":
                orders.fits(one.packet, network, _routes(one, network))
            start_us, stop_us = _times(one, component)
            if not component.start_us <= start_us < stop_us:
                raise FieldError("start", f"a time from {show('us', component.start_us)} until before "
                                          f"{show('us', stop_us)} expected, not {show('us', start_us)}")
        except FieldError as problem:
            raise problem.inside(f"flows.{place}") from None


def _times(one: FlowSection, component: Component) -> tuple[int, int]:
    """When a flow begins and stops."""
    return (component.start_us if one.start_us is None else one.start_us,
            component.stop_us if one.stop_us is None else min(one.stop_us, component.stop_us))


def _routes(one: FlowSection, network: Network) -> list[routes.Route]:
    """The paths that a flow may take: the one it names, or those with its base RTT."""
    if one.rtt_us is None:
        return routes.find(network, [] if one.path is None else [one.path], "path")
    there = [routes.back(route) for route in routes.routes(network)]
    found = [route for route in there if route.base_rtt_us == one.rtt_us]
    if not found:
        known = sorted({route.base_rtt_us for route in there})
        raise FieldError("rtt", f"no path has this base RTT; there are: {', '.join(show('us', rtt) for rtt in known)}")
    return found


def flows(section: Section, component: Component, context: Context) -> list[Flow]:
    """As they are listed. Flows of the same base RTT take turns with the paths that have it."""
    used: dict[int, int] = {}
    found = []
    for one in section.flows:
        possible = _routes(one, context.network)
        turn = used.get(one.rtt_us or 0, 0)
        used[one.rtt_us or 0] = turn + 1
        start_us, stop_us = _times(one, component)
        found.append(Flow(**dataclasses.asdict(possible[turn % len(possible)]), start_us=start_us, stop_us=stop_us,
                          transport=one.transport, bytes=one.bytes_bytes, rate_bps=one.rate_bps, own_variant=one.cca))
    return found


def prepare(section: Section, component: Component, flows: list[Flow], context: Context) -> Prepared:
    """One job file per host and transport."""
    tcp = [flow for flow in flows if flow.transport == "tcp"]
    found = socket_programs(component, tcp, context, {flow.flow: {} for flow in tcp}) if tcp else []
    udp = {flow.flow: one for flow, one in zip(flows, section.flows) if flow.transport == "udp"}
    if udp:
        found += orders.programs(
            component, [flow for flow in flows if flow.flow in udp], {flow: one.packet for flow, one in udp.items()},
            {flow: {"gap_ns": orders.gap_ns(one.rate_bps or 0, one.packet)} for flow, one in udp.items()}, context)
    return Prepared(found, {})
