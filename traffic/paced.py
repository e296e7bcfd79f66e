# SPDX-License-Identifier: GPL-2.0-only
"""TCP flows whose applications write one packet after the other at a fixed rate (docs/howto/paced.md).

    kind: paced
    packets: 250                that each flow's application writes in a second
    packet: 1000 B              payload of one, and of a full segment
    flows: 30                   all together, dealt out in turn over the paths
    paths: [n1->n2]             sender->receiver (default: all that the network has, from initiator to acceptor)
    start_within: 0 s           every start is later by a random time below this one, from the run's seed
"""
import dataclasses
import pathlib
from collections.abc import Mapping

from testbed.core import fields, ip
from testbed.core.timing import Timing
from topologies.links.records import Network
from traffic.datagrams import orders
from traffic.greedy.orders import socket_programs
from traffic.greedy.scenario import MOST_SEGMENT_BYTES, check_segment
from traffic.workload import records, routes
from traffic.workload.components import Component, Context, Flow, Prepared

FIRST_PORT = 6000
_MOST_FLOWS, _MOST_PER_S, _NS = 10_000, 100_000, 1_000_000_000


@dataclasses.dataclass(frozen=True)
class Section:
    """The fields of a paced component."""
    packets: int = fields.count(least=1, most=_MOST_PER_S)
    packet_bytes: int = fields.size(default=1000, least=100, most=MOST_SEGMENT_BYTES)
    flows: int = fields.count(default=1, least=1, most=_MOST_FLOWS)
    paths: tuple[str, ...] = routes.paths_field()
    start_within_us: int = fields.time(default=0)


def _routes(section: Section, network: Network) -> list[routes.Route]:
    return routes.find(network, section.paths) if section.paths else routes.routes(network)


def foreign_sockets(_section: Section) -> str:
    """Programs of ours open all sockets."""
    return ""


def validate(section: Section, component: Component, network: Network, _timing: Timing) -> None:
    for way in _routes(section, network):
        check_segment("packet", section.packet_bytes, network, way)
    routes.in_time(component.start_us + section.start_within_us - 1, component.stop_us, "start_within")


def flows(section: Section, component: Component, context: Context) -> list[Flow]:
    """In turn over the paths, each with its start. The rate is that of the payload."""
    chosen = _routes(section, context.network)
    return [Flow(**dataclasses.asdict(chosen[place % len(chosen)]), start_us=start_us, stop_us=component.stop_us,
                 rate_bps=8 * section.packets * section.packet_bytes)
            for place, start_us in enumerate(orders.starts_us(component, section.start_within_us, section.flows))]


def prepare(section: Section, component: Component, flows: list[Flow], context: Context) -> Prepared:
    """One job file per host that sends or receives."""
    pace = {"pace": {"bytes": section.packet_bytes, "gap_ns": _NS // section.packets}}
    made = socket_programs(component, flows, context, {flow.flow: pace for flow in flows},
                           {"maxseg": section.packet_bytes + ip.TIMESTAMP_BYTES})
    return Prepared(made, {"packets_per_s": section.packets, "packet_bytes": section.packet_bytes})


def collect(_component: records.Component, _workload: records.Workload, _context: Context, _raw_dir: pathlib.Path) \
        -> Mapping[str, object]:
    """The counters are in the programs' accounts."""
    return {}
