# SPDX-License-Identifier: GPL-2.0-only
"""Clients that ask, wait for the answer, think, and ask again, as a component of the traffic
(docs/howto/request-response.md).

    kind: request-response
    paths: [n1->n4]             client->server (default: the first path, from its initiator)
    clients: 1                  on each of them, each with one connection that stays open
    request: 300 B              size of a request,
    response: {mean: 20 kB, distribution: lognormal, shape: 1.5}        of its answer,
    think: {mean: 1 s, distribution: exponential}       from the answer's last byte to the next request
    requests: 50                of each client, which then closes (default: until the run ends)
    start_within: 1 s           every client begins later by a random time below this one

A client is a connection whose data units are these, replayed as Tmix's are: payload is compared, every unit is in
raw/adus.csv.gz, and simulators have it, too. All is drawn before the run, and is the same whatever the network does.
"""
import dataclasses
import random
from array import array
from pathlib import Path

from testbed.core import fields
from testbed.core.fields import FieldError
from testbed.core.replayed import Replayed
from testbed.core.timing import Timing
from topologies.links.records import Network
from traffic.replay import component as replay
from traffic.replay.component import Plans, collect, plan_name
from traffic.replay.plan import write_plan
from traffic.workload import draws, routes
from traffic.workload.components import Component, Context, Flow, Prepared

__all__ = ["FIRST_PORT", "Section", "collect", "flows", "foreign_sockets", "prepare", "validate"]

#: simulators can send it, too (testbed/engines/_simulators/workload.py)
SIMULATED = True
FIRST_PORT = 5000
#: of a component: each is two rows of a plan and two of adus.csv.gz
_MOST_REQUESTS = 2_000_000
_USUAL_REQUEST_BYTES = 300


@dataclasses.dataclass(frozen=True)
class Section:
    """The fields of a request-response component."""
    paths: tuple[str, ...] = routes.paths_field()
    clients: int = fields.count(default=1, least=1, most=10_000)
    request_bytes: int | None = fields.size(default=None, least=1, most=draws.MOST_BYTES)
    request: draws.Size | None = fields.section(draws.Size, default=None)
    response_bytes: int | None = fields.size(default=None, least=1, most=draws.MOST_BYTES)
    response: draws.Size | None = fields.section(draws.Size, default=None)
    think_us: int | None = fields.time(default=None, most=draws.MOST_US)
    think: draws.Time | None = fields.section(draws.Time, default=None)
    requests: int | None = fields.count(default=None, least=1, most=_MOST_REQUESTS)
    start_within_us: int = fields.time(default=0)

    def __post_init__(self) -> None:
        for name, value, distribution in (("response", self.response_bytes, self.response),
                                          ("think", self.think_us, self.think)):
            if value is None and distribution is None:
                raise FieldError(name, "is missing")

    def drawn(self) -> tuple[draws.Size, draws.Size, draws.Time]:
        """Of requests, answers and times to think."""
        return (self.request or draws.Size(mean_bytes=self.request_bytes or _USUAL_REQUEST_BYTES),
                self.response or draws.Size(mean_bytes=self.response_bytes or 0),
                self.think or draws.Time(mean_us=self.think_us or 0))


def _routes(section: Section, network: Network) -> list[routes.Route]:
    """Of each path, from the client."""
    return routes.find(network, section.paths) if section.paths else routes.routes(network)[:1]


def foreign_sockets(_section: Section) -> str:
    """Programs of ours open all sockets."""
    return ""


def validate(section: Section, component: Component, network: Network, timing: Timing) -> None:
    _routes(section, network)
    end_us = timing.duration_us
    if component.stop_us < end_us:
        raise FieldError("stop", "clients go on until the run ends; requests says after how many they close")
    if component.start_us + section.start_within_us > end_us:
        raise FieldError("start_within", f"the run ends at {end_us / 1e6:g} s, before all clients have begun")


def flows(section: Section, component: Component, context: Context) -> list[Flow]:
    """One for each path, with a connection for each client."""
    return [Flow(**dataclasses.asdict(route), start_us=component.start_us, stop_us=component.stop_us, source=source,
                 both_ways=True, wants_source_range=True, connections=section.clients)
            for source, route in enumerate(_routes(section, context.network))]


def prepare(section: Section, component: Component, flows: list[Flow], context: Context) -> Prepared:
    folder = context.work_dir / f"requests-{component.name}"
    folder.mkdir(parents=True, exist_ok=True)
    for source, flow in enumerate(flows):
        _write(folder / plan_name(source), section, component, flow, context)
    return replay.prepare(component, flows, context, Plans(folder, [[section.clients]] * len(flows)), Replayed(
        clients=section.clients * len(flows), closes=section.requests is not None))


def _write(path: Path, section: Section, component: Component, flow: Flow, context: Context) -> None:
    """The plan of a path (traffic/replay/plan.py, which has the columns)."""
    columns: dict[str, "array[int]"] = {name: array("q") for name in (
        "start_us", "conn_id", "mss_init", "mss_acc", "prefill", "init_need", "init_wait_us", "init_bytes", "acc_need",
        "acc_wait_us", "acc_bytes")}
    columns |= {"init_first": array("q", [0]), "acc_first": array("q", [0])}
    draw = random.Random(f"{component.seed}/{flow.source}/start")
    begins = sorted((component.start_us + draw.randrange(max(section.start_within_us, 1)), client)
                    for client in range(section.clients))
    slowest_bps = min(link.rate_bps for link in context.network.links if link.name in {
        *flow.hops, *flow.hops_back})
    for start_us, client in begins:
        columns["start_us"].append(start_us)
        columns["conn_id"].append(client)
        for name in ("mss_init", "mss_acc", "prefill"):
            columns[name].append(0)
        _client(columns, section, random.Random(f"{component.seed}/{flow.source}/{client}"),
                context.duration_us - start_us, flow.base_rtt_us, slowest_bps)
        for side in ("init", "acc"):
            columns[f"{side}_first"].append(len(columns[f"{side}_bytes"]))
    write_plan(path, columns, source=flow.source, duration_us=context.duration_us, seed=component.seed, scale=1.0)


def _client(columns: dict[str, "array[int]"], section: Section, draw: random.Random, left_us: int, rtt_us: int,
            rate_bps: int) -> None:
    """Rows of one client: as many requests as there is time for at best, or are asked for, then its FIN."""
    of_requests, of_answers, of_thinking = section.drawn()
    asked = answered = number = 0
    took_us = 0.0
    while took_us <= left_us and (section.requests is None or number < section.requests):
        wait_us = of_thinking.one(draw) if number else 0
        request, response = of_requests.one(draw), of_answers.one(draw)
        asked += request
        for name, value in (("init_need", answered), ("init_wait_us", wait_us), ("init_bytes", request),
                            ("acc_need", asked), ("acc_wait_us", 0), ("acc_bytes", response)):
            columns[name].append(value)
        if len(columns["init_bytes"]) > _MOST_REQUESTS:
            raise FieldError("think", f"more than {_MOST_REQUESTS} requests on a path would be possible")
        answered += response
        number += 1
        took_us += wait_us + rtt_us + (request + response) * 8e6 / rate_bps
    for name, value in (("init_need", answered), ("init_wait_us", 0), ("init_bytes", 0)):
        columns[name].append(value)
