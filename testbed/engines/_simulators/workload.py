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
from collections.abc import Mapping
from typing import Any

from testbed.core.errors import RunFailed
from traffic.datagrams import departures
from traffic.replay.plan import MAGIC
from traffic.replay.records import ACCEPTOR, INITIATOR, records_name

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Source:
    """A Tmix source: flow record, plan file, and the two ends as the replay is told of them."""
    flow: Json
    plan: pathlib.Path
    initiator: Json
    acceptor: Json
    #: of the plan: {connections, init_ops, acc_ops}, and where its columns begin
    counts: dict[str, int]
    offset: int

    def headers(self) -> dict[str, Json]:
        """{role: header} of the records that a replay of this source leaves."""
        ops = self.counts["init_ops"], self.counts["acc_ops"]
        found = {}
        for role, end, node, (own, peer) in ((INITIATOR, self.initiator, self.flow["sender"], ops),
                                             (ACCEPTOR, self.acceptor, self.flow["receiver"], ops[::-1])):
            found[role] = {"source": end["source"], "role": role, "node": node, "local": end["local"],
                           "peer": end["peer"], "port": end["port"], "ports": list(end["ports"]),
                           "connections": self.counts["connections"], "own_ops": own, "peer_ops": peer}
        return found

    def records(self, folder: pathlib.Path, role: str) -> pathlib.Path:
        """The file of the records of one end."""
        return folder / records_name(self.plan.stem, role)


@dataclasses.dataclass(frozen=True)
class Datagrams:
    """A flow of UDP packets of the same size. order: what its program is told of it (traffic/datagrams)."""
    flow: Json
    order: departures.Order

    @property
    def equal(self) -> bool:
        """True if all packets are the same time apart."""
        return departures.equal(self.order)

    @property
    def departures(self) -> str:
        """The file of the instants at which packets leave, if their distances differ: ns, 8 bytes each."""
        return f"flow-{self.flow['flow']}.departures"


@dataclasses.dataclass(frozen=True)
class Work:
    """All traffic of a run.

    bulk: records of TCP flows that send all they can, or `bytes`; with `segment_bytes` (payload) and `window`
    (segments) where these are limited, and `bursts_us` [[from, to], ...] where they send now and then.
    """
    sources: list[Source]
    bulk: list[Json]
    datagrams: list[Datagrams]


def read(workload: Mapping[str, Any], engine: str) -> Work:
    """The traffic of a workload that was prepared for programs on this side. RunFailed if a part cannot be."""
    flows = {flow["flow"]: flow for flow in workload["flows"]}
    components = {component["name"]: component for component in workload.get("components", ())}
    work = Work([], [], [])
    ends: dict[str, dict[str, Json]] = {}
    for program in workload["programs"]:
        job = json.loads(pathlib.Path(program["arguments"][0]).read_text(encoding="utf-8"))
        if program["module"] == "traffic.replay.program":
            for end in job["endpoints"]:
                ends.setdefault(end["plan"], {})[end["role"]] = end
        elif program["module"] in ("traffic.greedy.flows", "traffic.greedy.iperf3"):
            component = components.get(program["component"], {})
            limits = {name: component[name] for name in ("segment_bytes", "window") if name in component}
            work.bulk.extend({**flows[order["flow"]], **limits,
                              **{key: order[key] for key in ("bursts_us",) if key in order}} for order in job["send"])
        elif program["module"] == "traffic.datagrams.program":
            work.datagrams.extend(Datagrams(flows[order["flow"]], order) for order in job["send"])
        else:
            raise RunFailed(f"engine {engine} cannot send the traffic of component {program['component']}: it does not "
                            f"know what {program['module']} does")
    for plan, both in ends.items():
        header, offset = _plan_header(pathlib.Path(plan))
        if header.get("windows"):
            raise RunFailed(f"windows: engine {engine} does not limit the receive windows of connections")
        counts = {name: header[name] for name in ("connections", "init_ops", "acc_ops")}
        work.sources.append(Source(flows[both[INITIATOR]["flow"]], pathlib.Path(plan), both[INITIATOR],
                                   both[ACCEPTOR], counts, offset))
    work.bulk.sort(key=lambda flow: int(flow["flow"]))
    work.datagrams.sort(key=lambda one: int(one.flow["flow"]))
    return work


def bursts_file(flow: Mapping[str, Any]) -> str:
    """The file of the times in which a TCP flow that rests now and then sends: from, to in us, 8 bytes each."""
    return f"flow-{flow['flow']}.bursts"


def write_instants(work: Work, folder: pathlib.Path) -> None:
    """The file of each flow of packets whose distances differ, with the instants that its program would keep; and that
    of each TCP flow that rests now and then."""
    for flow in work.bulk:
        if "bursts_us" in flow:
            numbers = array.array("q", (us for burst in flow["bursts_us"] for us in burst))
            (folder / bursts_file(flow)).write_bytes(numbers.tobytes())
    for one in work.datagrams:
        if not one.equal:
            (folder / one.departures).write_bytes(array.array("q", departures.departures_ns(one.order)).tobytes())


def _plan_header(path: pathlib.Path) -> tuple[Json, int]:
    """(header, where the columns begin) of a plan file."""
    with open(path, "rb") as file:
        file.seek(len(MAGIC))
        header: Json = json.loads(file.readline())
        return header, file.tell()
