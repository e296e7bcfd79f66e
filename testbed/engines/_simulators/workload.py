# SPDX-License-Identifier: GPL-2.0-only
"""The traffic of a run without programs: what each flow sends, for engines in which no program runs.

What the kinds of traffic want started (workload["programs"]) and wrote for it says all there is to
know. A program that is not known here is refused: a simulator must not leave out traffic.
"""
from __future__ import annotations

import array
import dataclasses
import json
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from testbed.core.errors import RunFailed
from testbed.core.record import ListOf, Record
from traffic.datagrams import departures
from traffic.greedy.scenario import SEGMENT_BYTES
from traffic.replay.plan import MAGIC
from traffic.replay.records import ACCEPTOR, INITIATOR, records_name
from traffic.workload.records import Component, Flow, Program, Workload

if TYPE_CHECKING:
    from traffic.datagrams.departures import Order


class OfFlow(Record):
    """What a program is told of a flow that it sends or receives."""
    flow: int
    #: when it sends, [[from, to], ...]; None: all the time
    bursts_us: Sequence[Sequence[int]] | None = None


class End(Record):
    """What a replay is told of an end of a source's connections."""
    flow: int
    source: int
    #: the file of all connections
    plan: str
    role: str
    local: str
    peer: str
    port: int
    #: of the initiator: first, how many
    ports: Sequence[int]


class Orders(Record):
    """The file that a program gets: of greedy flows, of datagrams, of replays."""
    send = ListOf(OfFlow)
    receive = ListOf(OfFlow)
    output: str
    endpoints = ListOf(End)

    @classmethod
    def of_program(cls, program: Program) -> Orders:
        """Those of a program."""
        return cls(json.loads(pathlib.Path(program.arguments[0]).read_text(encoding="utf-8")))


class PlanHeader(Record):
    """The first line of a plan file (traffic/replay/plan.py)."""
    connections: int
    init_ops: int
    acc_ops: int
    #: whether sockets limit their windows
    windows: bool = False


class BulkFlow(Flow):
    """A TCP flow that sends all that it can, or `bytes`."""
    #: payload; window: in segments, 0 where it is not limited
    segment_bytes: int = SEGMENT_BYTES
    window: int = 0
    bursts_us: Sequence[Sequence[int]] | None = None


@dataclasses.dataclass(frozen=True)
class Source:
    """A Tmix source: flow record, plan file, and the two ends as the replay is told of them."""
    flow: Flow
    plan: pathlib.Path
    initiator: End
    acceptor: End
    #: of the plan: {connections, init_ops, acc_ops}, and where its columns begin
    counts: dict[str, int]
    offset: int

    def headers(self) -> dict[str, dict[str, object]]:
        """{role: header} of the records that a replay of this source leaves."""
        ops = self.counts["init_ops"], self.counts["acc_ops"]
        found: dict[str, dict[str, object]] = {}
        for role, end, node, (own, peer) in ((INITIATOR, self.initiator, self.flow.sender, ops),
                                             (ACCEPTOR, self.acceptor, self.flow.receiver, ops[::-1])):
            found[role] = {"source": end.source, "role": role, "node": node, "local": end.local,
                           "peer": end.peer, "port": end.port, "ports": list(end.ports),
                           "connections": self.counts["connections"], "own_ops": own, "peer_ops": peer}
        return found

    def records(self, folder: pathlib.Path, role: str) -> pathlib.Path:
        """The file of the records of one end."""
        return folder / records_name(self.plan.stem, role)


@dataclasses.dataclass(frozen=True)
class Datagrams:
    """A flow of UDP packets of the same size."""
    flow: Flow
    order: Order

    @property
    def equal(self) -> bool:
        """True if all packets are the same time apart."""
        return departures.equal(self.order)

    @property
    def departures(self) -> str:
        """The file of the instants at which packets leave, if their distances differ: ns, 8 bytes each."""
        return f"flow-{self.flow.flow}.departures"


@dataclasses.dataclass(frozen=True)
class Work:
    """All traffic of a run."""
    sources: list[Source]
    bulk: list[BulkFlow]
    datagrams: list[Datagrams]


def read(workload: Workload, engine: str) -> Work:
    """The traffic of a workload that was prepared for programs on this side. RunFailed if a part cannot be."""
    flows = {flow.flow: flow for flow in workload.flows}
    components = {component.name: component for component in workload.components}
    work = Work([], [], [])
    ends: dict[str, dict[str, End]] = {}
    for program in workload.programs:
        orders = Orders.of_program(program)
        if program.module == "traffic.replay.program":
            for end in orders.endpoints:
                ends.setdefault(end.plan, {})[end.role] = end
        elif program.module in ("traffic.greedy.flows", "traffic.greedy.iperf3"):
            work.bulk.extend(_bulk(flows[order.flow], order, components[program.component]) for order in orders.send)
        elif program.module == "traffic.datagrams.program":
            told: list[Order] = orders.content()["send"]                       # type: ignore[assignment]
            work.datagrams.extend(Datagrams(flows[order["flow"]], order) for order in told)
        else:
            raise RunFailed(f"engine {engine} cannot send the traffic of component {program.component}: it does not "
                            f"know what {program.module} does")
    for plan, both in ends.items():
        header, offset = _plan_header(pathlib.Path(plan))
        if header.windows:
            raise RunFailed(f"windows: engine {engine} does not limit the receive windows of connections")
        counts = {"connections": header.connections, "init_ops": header.init_ops, "acc_ops": header.acc_ops}
        work.sources.append(Source(flows[both[INITIATOR].flow], pathlib.Path(plan), both[INITIATOR], both[ACCEPTOR],
                                   counts, offset))
    work.bulk.sort(key=lambda flow: flow.flow)
    work.datagrams.sort(key=lambda one: one.flow.flow)
    return work


def _bulk(flow: Flow, order: OfFlow, component: Component) -> BulkFlow:
    """A flow with what its component and its program's order say of it."""
    more = {name: value for name, value in (
        ("segment_bytes", component.segment_bytes), ("window", component.window), ("bursts_us", order.bursts_us))
        if value is not None}
    return BulkFlow({**flow.content(), **more})


def bursts_file(flow: Flow) -> str:
    """The file of the times in which a TCP flow that rests now and then sends: from, to in us, 8 bytes each."""
    return f"flow-{flow.flow}.bursts"


def write_instants(work: Work, folder: pathlib.Path) -> None:
    """The file of each flow of packets whose distances differ, with the instants that its program would keep; and that
    of each TCP flow that rests now and then."""
    for flow in work.bulk:
        if flow.bursts_us is not None:
            numbers = array.array("q", (us for burst in flow.bursts_us for us in burst))
            (folder / bursts_file(flow)).write_bytes(numbers.tobytes())
    for one in work.datagrams:
        if not one.equal:
            (folder / one.departures).write_bytes(array.array("q", departures.departures_ns(one.order)).tobytes())


def _plan_header(path: pathlib.Path) -> tuple[PlanHeader, int]:
    """(header, where the columns begin) of a plan file."""
    with open(path, "rb") as file:
        file.seek(len(MAGIC))
        header = PlanHeader(json.loads(file.readline()), str(path))
        return header, file.tell()
