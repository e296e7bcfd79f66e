# SPDX-License-Identifier: GPL-2.0-only
"""Media whose rate follows delay and loss, by NADA (RFC 8698), as a component of the traffic (docs/howto/cbr.md).

    kind: nada
    least: 150 kbit/s           its rate is never below it ...
    most: 1.5 Mbit/s            ... nor above it, as a link counts them: Ethernet header included
    packet: 1000 B              size of an IP packet
    paths: [n4->n1]             sender->receiver (default: the first path, in the direction of the acceptor's data)
    flows: 1                    flows on each of them
    start_within: 0 s           every start is later by a random time below this one, from the run's seed
"""
import dataclasses
import json
import pathlib
from collections.abc import Mapping

from testbed.core import fields, ip
from testbed.core.fields import FieldError
from testbed.core.timing import Timing
from topologies.links.records import Network
from traffic.datagrams import orders
from traffic.datagrams.orders import FIRST_PORT, uses_ccas
from traffic.workload import records, routes
from traffic.workload.components import Component, Context, Flow, Prepared, Program

__all__ = ["FIRST_PORT", "Section", "collect", "flows", "prepare", "uses_ccas", "validate"]

_MOST_FLOWS = 100


@dataclasses.dataclass(frozen=True)
class Section:
    """The fields of a nada component; the least and the most rate by default are those of the RFC."""
    least_bps: int = fields.rate(default=150_000)
    most_bps: int = fields.rate(default=1_500_000)
    packet_bytes: int = orders.packet_field(1000)
    paths: tuple[str, ...] = routes.paths_field()
    flows: int = fields.count(default=1, least=1, most=_MOST_FLOWS)
    start_within_us: int = fields.time(default=0)

    def __post_init__(self) -> None:
        if self.least_bps > self.most_bps:
            raise FieldError("least", "must not be above most")
        for name, rate_bps in (("least", self.least_bps), ("most", self.most_bps)):
            try:
                orders.gap_ns(rate_bps, self.packet_bytes)
            except FieldError as error:
                raise FieldError(name, str(error)) from None


def validate(section: Section, component: Component, network: Network, _timing: Timing) -> None:
    chosen = routes.find(network, section.paths)
    routes.in_time(component.start_us + section.start_within_us - 1, component.stop_us, "start_within")
    orders.fits(section.packet_bytes, network, chosen)


def flows(section: Section, component: Component, context: Context) -> list[Flow]:
    """Path by path, each flow with its start. The rate is the most that it takes."""
    chosen = [route for route in routes.find(context.network, section.paths) for _ in range(section.flows)]
    return [Flow(**dataclasses.asdict(route), start_us=start_us, stop_us=component.stop_us, transport="udp",
                 rate_bps=section.most_bps)
            for route, start_us in zip(chosen, orders.starts_us(component, section.start_within_us, len(chosen)))]


def prepare(section: Section, component: Component, flows: list[Flow], context: Context) -> Prepared:
    """A program for each end of each flow."""
    programs = []
    for flow in flows:
        for role, node in (("receive", flow.receiver), ("send", flow.sender)):
            output = _output_name(component.name, flow.flow, role)
            job = {"role": role, "address": flow.dst, "port": flow.dport,
                   "payload_bytes": section.packet_bytes - ip.udp_header_bytes(flow.dst),
                   "frame_bytes": section.packet_bytes + ip.ETHERNET_BYTES,
                   "start_us": flow.start_us, "stop_us": flow.stop_us,
                   "drained_us": context.duration_us + orders.drain_us([flow], context.network),
                   "least_bps": section.least_bps, "most_bps": section.most_bps,
                   "output": f"{context.guest_dir}/{output}"}
            name = f"{component.name}-{flow.flow}-{role}.nada.json"
            (context.work_dir / name).write_text(json.dumps(job))
            programs.append(Program(node, "traffic.nada.program", [f"{context.guest_dir}/{name}"]))
    return Prepared(programs, {"least_bps": section.least_bps, "most_bps": section.most_bps,
                               "packet_bytes": section.packet_bytes})


def _output_name(component: str, flow: int, role: str) -> str:
    return f"{component}-{flow}-{role}.counts.json"


def collect(component: records.Component, workload: records.Workload, context: Context, _raw_dir: pathlib.Path) \
        -> Mapping[str, object]:
    """{"flows": [counts of each flow]}, as other UDP flows have them."""
    found = []
    for flow in workload.flows:
        if flow.component == component.name:
            one: dict[str, float] = {}
            for role in ("send", "receive"):
                one.update(json.loads((context.work_dir / _output_name(component.name, flow.flow, role)).read_text()))
            found.append({"flow": flow.flow, **one, "lost_packets": one["sent_packets"] - one["received_packets"]})
    return {"flows": found}
