# SPDX-License-Identifier: GPL-2.0-only
"""Components whose connections are replayed: their plans become programs, and records become tables."""
import dataclasses
import json
import os
import pathlib
import shutil
from collections.abc import Mapping

from testbed.core import replayed
from testbed.core.replayed import Replayed
from traffic.workload import records, routes
from traffic.workload.components import Component, Context, Flow, Prepared, Program


@dataclasses.dataclass(frozen=True)
class Plans:
    """Plan files of a component (`plan_name`), one for each source or for each share of one.

    connections: of each source, how many each share has; described: what workload.json says of them.
    """
    folder: pathlib.Path
    connections: list[list[int]]
    described: Mapping[str, object] = dataclasses.field(default_factory=dict)


def plan_name(source: int, share: int = 0, shares: int = 1) -> str:
    """File name of a plan; the sources are those of a component, from 0."""
    return f"source{source}.plan" if shares == 1 else f"source{source}.share{share}.plan"


def prepare(component: Component, flows: list[Flow], context: Context, plans: Plans, what: Replayed) -> Prepared:
    """The plans in context.work_dir, and one job file per host."""
    shares = what.shares(component.variants)
    endpoints: dict[str, list[dict[str, object]]] = {}
    for place, flow in enumerate(flows):
        source, share = divmod(place, shares)
        plan = f"{component.name}-{plan_name(source, share, shares)}"
        _link(plans.folder / plan_name(source, share, shares), context.work_dir / plan)
        flow.connections = plans.connections[source][share]
        for role, node, local, peer, cca in (
                ("acceptor", flow.receiver, flow.dst, flow.src, flow.receiver_cca),
                ("initiator", flow.sender, flow.src, flow.dst, flow.sender_cca)):
            endpoints.setdefault(node, []).append({
                "flow": flow.flow, "source": flow.source, "role": role, "plan": f"{context.guest_dir}/{plan}",
                "local": local, "peer": peer, "port": flow.dport, "ports": flow.source_range, "cca": cca,
                **({"options": flow.socket_options} if flow.socket_options else {})})
    programs = []
    # servers first: every program is ready before any starts, but logs read better
    for node in sorted(endpoints, key=lambda n: (endpoints[n][0]["role"] != "acceptor", n)):
        name = f"{component.name}-{node}.json"
        (context.work_dir / name).write_text(json.dumps({
            "node": node, "endpoints": endpoints[node], "duration_us": context.duration_us,
            "out_dir": context.guest_dir, "wakeup_cost_us": routes.wakeup_cost_us(context.network, node)}))
        programs.append(Program(node, "traffic.replay.program", [f"{context.guest_dir}/{name}"]))
    return Prepared(programs, what.record(plans.described))


def _link(source: pathlib.Path, target: pathlib.Path) -> None:
    """Plans are read only: a hard link serves."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def collect(component: records.Component, workload: records.Workload, context: Context, raw_dir: pathlib.Path) \
        -> Mapping[str, object]:
    """Replay records -> connections.csv.gz, adus.csv.gz of all replayed components; returns the account of this one."""
    from traffic.replay.collect import ReplayedSource, account_of, write_tables
    parts: dict[str, list[ReplayedSource]] = {}
    for one in workload.components:
        if what := replayed.of(one):
            shares = what.shares(one.variants)
            mine = [flow for flow in workload.flows if flow.component == one.name]
            plans = [f"{one.name}-{plan_name(*divmod(place, shares), shares)}" for place in range(len(mine))]
            parts[one.name] = [ReplayedSource(flow.source or 0, context.work_dir / plan, context.work_dir)
                               for flow, plan in zip(mine, plans)]
    if next(iter(parts)) == component.name:
        write_tables([part for of_one in parts.values() for part in of_one], raw_dir)
    return account_of(parts[component.name], context.duration_us)
