# SPDX-License-Identifier: GPL-2.0-only
"""TCP flows whose applications send all they can, or at a rate, or nothing, phase by phase (docs/howto/phases.md).

    kind: phases
    phases: [{at: 0 s}, {at: 3 s, rate: 2 Mbit/s}, {at: 5 s, rate: 0 bit/s}, {at: 6 s}]
                                from `at` on: all it can, at most this rate of payload, nothing, all it can again
    paths: [n2->n1]             sender->receiver (default: all that the network has, from initiator to acceptor)

All phases of a flow are on one connection, which begins with the first.
"""
import dataclasses
import pathlib
from collections.abc import Mapping

from testbed.core import fields
from testbed.core.fields import FieldError
from testbed.core.timing import Timing
from topologies.links.records import Network
from traffic.greedy.orders import socket_programs
from traffic.workload import records, routes
from traffic.workload.components import Component, Context, Flow, Prepared

FIRST_PORT = 6000
#: what the application writes at a time while it has a rate: a full segment of Ethernet
_PIECE_BYTES = 1448
_MOST_PHASES, _LEAST_GAP_NS = 1000, 10_000


@dataclasses.dataclass(frozen=True)
class Phase:
    """rate_bps: of payload; 0: nothing is sent, None: all that the flow can."""
    at_us: int = fields.time()
    rate_bps: int | None = fields.rate(default=None, least=0)

    @property
    def gap_ns(self) -> int:
        """From piece to piece; 0 without a rate."""
        return round(_PIECE_BYTES * 8e9 / self.rate_bps) if self.rate_bps else 0


@dataclasses.dataclass(frozen=True)
class Section:
    """The fields of a component with phases."""
    phases: tuple[Phase, ...] = fields.listing(fields.section(Phase), least=1, most=_MOST_PHASES)
    paths: tuple[str, ...] = routes.paths_field()

    def __post_init__(self) -> None:
        times = [phase.at_us for phase in self.phases]
        if any(later <= earlier for earlier, later in zip(times, times[1:])):
            raise FieldError("phases", "each has to begin after the one before")
        for number, phase in enumerate(self.phases, start=1):
            if phase.rate_bps and phase.gap_ns < _LEAST_GAP_NS:
                raise FieldError(f"phases.{number}.rate", "at most 1158 Mbit/s expected; without a rate the flow sends "
                                                          "all it can")


def _routes(section: Section, network: Network) -> list[routes.Route]:
    return routes.find(network, section.paths) if section.paths else routes.routes(network)


def bulk_routes(section: Section, network: Network) -> list[routes.Route]:
    return _routes(section, network)


def foreign_sockets(_section: Section) -> str:
    """Programs of ours open all sockets."""
    return ""


def validate(section: Section, component: Component, network: Network, _timing: Timing) -> None:
    _routes(section, network)
    routes.in_time(component.start_us + section.phases[-1].at_us, component.stop_us, "phases")


def flows(section: Section, component: Component, context: Context) -> list[Flow]:
    """One on each path, from its first phase until it stops."""
    start_us = component.start_us + section.phases[0].at_us
    return [Flow(**dataclasses.asdict(route), start_us=start_us, stop_us=component.stop_us)
            for route in _routes(section, context.network)]


def prepare(section: Section, component: Component, flows: list[Flow], context: Context) -> Prepared:
    """One job file per host that sends or receives."""
    begins_us = [component.start_us + phase.at_us for phase in section.phases]
    ends_us = [*begins_us[1:], component.stop_us]
    # as the program has them: [from, to, bytes of a piece, time between pieces]; a phase that sends nothing is left out
    phases = [[begin_us, end_us, _PIECE_BYTES if phase.rate_bps else None, phase.gap_ns]
              for phase, begin_us, end_us in zip(section.phases, begins_us, ends_us) if phase.rate_bps != 0]
    made = socket_programs(component, flows, context, {flow.flow: {"phases": phases} for flow in flows})
    return Prepared(made, {"phases": len(section.phases)})


def collect(_component: records.Component, _workload: records.Workload, _context: Context, _raw_dir: pathlib.Path) \
        -> Mapping[str, object]:
    """The counters are in the programs' accounts."""
    return {}
