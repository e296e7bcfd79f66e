# SPDX-License-Identifier: GPL-2.0-only
"""Flows that send for a while and rest for a while, as a component of the traffic (docs/howto/on-off.md).

    kind: on-off
    on: 1 s                     how long a flow sends, and ...
    off: 1 s                    ... how long it rests, in the mean
    lengths: constant           or exponential, or pareto: how the lengths of both are distributed
    pareto_shape: 1.5           pareto only: above 1; up to 2 their variance is infinite
    transport: udp              or tcp: one connection, which sends all it can
    rate: 2 Mbit/s              udp only: while it sends, as a link counts it: Ethernet header included
    packet: 1000 B              udp only: size of an IP packet
    paths: [n4->n1]             sender->receiver (default: the first path, in the direction of the acceptor's data)
    flows: 1                    flows on each of them
    start_within: 0 s           every start is later by a random time below this one, from the run's seed

A flow begins to send at its start. Lengths are drawn beforehand, so that they are the same whatever the network does.
"""
import dataclasses
import math
import random
from collections.abc import Callable

from testbed.core import fields, ip
from testbed.core.fields import FieldError
from testbed.core.timing import Timing
from topologies.links.records import Network
from traffic.datagrams import orders
from traffic.datagrams.orders import FIRST_PORT, collect
from traffic.greedy.orders import socket_programs
from traffic.workload import routes
from traffic.workload.components import Component, Context, Flow, Prepared

__all__ = ["FIRST_PORT", "Section", "bulk_routes", "collect", "flows", "foreign_sockets", "prepare", "uses_ccas",
           "validate"]

#: simulators can send it, too (testbed/engines/_simulators/workload.py)
SIMULATED = True
#: of a component: each is a pair of numbers in an order
_MOST_BURSTS = 1_000_000
_USUAL_PACKET_BYTES, _USUAL_SHAPE = 1000, 1.5

Bursts = list[tuple[int, int]]


@dataclasses.dataclass(frozen=True)
class Section:
    """The fields of an on-off component."""
    on_us: int = fields.time(least=1)
    off_us: int = fields.time(least=1)
    lengths: str = fields.word(choices=("constant", "exponential", "pareto"), default="constant")
    pareto_shape: float | None = fields.number(default=None, above=1, most=100)
    transport: str = fields.word(choices=("udp", "tcp"), default="udp")
    rate_bps: int | None = fields.rate(default=None)
    packet_bytes: int | None = orders.packet_field(default=None)
    paths: tuple[str, ...] = routes.paths_field()
    flows: int = fields.count(default=1, least=1, most=10_000)
    start_within_us: int = fields.time(default=0)

    def __post_init__(self) -> None:
        if self.transport == "udp":
            if self.rate_bps is None:
                raise FieldError("rate", "is missing: a UDP flow has one")
            orders.gap_ns(self.rate_bps, self.packet)
        for name in ("rate_bps", "packet_bytes"):
            if self.transport == "tcp" and getattr(self, name) is not None:
                raise FieldError(fields.plain(name), "only with transport: udp")
        if self.pareto_shape is not None and self.lengths != "pareto":
            raise FieldError("pareto_shape", "only with lengths: pareto")

    @property
    def packet(self) -> int:
        """Size of an IP packet."""
        return self.packet_bytes or _USUAL_PACKET_BYTES


def uses_ccas(section: Section) -> bool:
    """Whether a congestion control makes a difference to its flows."""
    return section.transport == "tcp"


def foreign_sockets(_section: Section) -> str:
    """Programs of ours open all sockets."""
    return ""


def bulk_routes(section: Section, network: Network) -> list[routes.Route]:
    return routes.find(network, section.paths) if section.transport == "tcp" else []


def validate(section: Section, component: Component, network: Network, _timing: Timing) -> None:
    total = section.flows * len(routes.find(network, section.paths))
    routes.in_time(component.start_us + section.start_within_us - 1, component.stop_us, "start_within")
    orders.enough_ports(total)
    if section.rate_bps is not None:
        orders.fits(section.packet, network, routes.find(network, section.paths))
    wanted = total * (component.stop_us - component.start_us) / (section.on_us + section.off_us)
    if wanted > _MOST_BURSTS:
        raise FieldError("on", f"some {wanted:.0f} times of sending; at most {_MOST_BURSTS} expected")


def flows(section: Section, component: Component, context: Context) -> list[Flow]:
    """Path by path, each flow with its start. The rate of a UDP flow is that of its packets until it
    stops."""
    chosen = [route for route in routes.find(context.network, section.paths) for _ in range(section.flows)]
    found = []
    for place, (route, start_us) in enumerate(zip(chosen, orders.starts_us(
            component, section.start_within_us, len(chosen)))):
        rate_bps = None
        if section.rate_bps is not None:
            gap_ns = orders.gap_ns(section.rate_bps, section.packet)
            # the first packet of each time leaves at once, however short it is
            packets = sum(-(-1000 * (end_us - begin_us) // gap_ns)
                          for begin_us, end_us in _bursts_us(section, component, place, start_us))
            rate_bps = max(1, round(packets * (section.packet + ip.ETHERNET_BYTES) * 8e6
                                    / (component.stop_us - start_us)))
        found.append(Flow(**dataclasses.asdict(route), start_us=start_us, stop_us=component.stop_us,
                          transport=section.transport, rate_bps=rate_bps))
    return found


def _bursts_us(section: Section, component: Component, place: int, start_us: int) -> Bursts:
    """From when to when a flow sends."""
    draw = _draw(section, random.Random(orders.seed(component, place)).random)
    found: Bursts = []
    while start_us < component.stop_us:
        end_us = start_us + max(1, round(draw() * section.on_us))
        found.append((start_us, min(end_us, component.stop_us)))
        start_us = end_us + max(1, round(draw() * section.off_us))
        if len(found) > _MOST_BURSTS:
            raise FieldError("on", f"more than {_MOST_BURSTS} times of sending")
    return found


def _draw(section: Section, chance: Callable[[], float]) -> Callable[[], float]:
    """Draws lengths with mean 1."""
    if section.lengths == "constant":
        return lambda: 1.0
    if section.lengths == "exponential":
        return lambda: -math.log(1 - chance())
    shape = section.pareto_shape or _USUAL_SHAPE
    return lambda: float((shape - 1) / shape * (1 - chance()) ** (-1 / shape))


def prepare(section: Section, component: Component, flows: list[Flow], context: Context) -> Prepared:
    """One job file per host that sends or receives."""
    bursts_us = {flow.flow: _bursts_us(section, component, place, flow.start_us) for place, flow in enumerate(flows)}
    description: dict[str, object] = {"transport": section.transport, "bursts": sum(
        len(one) for one in bursts_us.values())}
    if section.rate_bps is None:
        return Prepared(socket_programs(component, flows, context, {
            flow: {"bursts_us": one} for flow, one in bursts_us.items()}), description)
    gap_ns = orders.gap_ns(section.rate_bps, section.packet)
    made = orders.programs(component, flows, {flow.flow: section.packet for flow in flows},
                           {flow: {"gap_ns": gap_ns, "bursts_us": one} for flow, one in bursts_us.items()}, context)
    return Prepared(made, {**description, "rate_bps": section.rate_bps, "packet_bytes": section.packet})
