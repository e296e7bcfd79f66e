# SPDX-License-Identifier: GPL-2.0-only
"""Orders to the programs of single TCP flows. What kinds of TCP traffic share."""
import json
from collections.abc import Mapping, Sequence

from traffic.greedy.ends import buffers_mb
from traffic.workload import routes
from traffic.workload.components import Component, Context, Flow, Program

Job = dict[str, list[dict[str, object]]]
#: ends of flows that have a thread each: for them a ring saves next to nothing
_FEW = 8


def socket_programs(component: Component, flows: Sequence[Flow], context: Context,
                    more: Mapping[int, Mapping[str, object]],
                    of_both: Mapping[str, object] | None = None,
                    misbehaves: Mapping[str, object] | None = None) -> list[Program]:
    """Flows over plain sockets (flows.py). more, of_both: as for tcp_jobs; misbehaves: how their receivers do."""
    rests = any(name in one for one in more.values() for name in ("bursts_us", "pace", "phases"))
    programs = []
    of_receivers: dict[int, dict[str, object]] = {flow.flow: {
        "peer": flow.src, "start_us": flow.start_us, "stop_us": flow.stop_us,
        **({"receiver": misbehaves} if misbehaves else {})} for flow in flows}
    for node, job in sorted(tcp_jobs(flows, more, of_both, of_receivers).items()):
        wakeup_cost_us = routes.wakeup_cost_us(context.network, node)
        ends = len(job["send"]) + len(job["receive"])
        ring = not rests and not wakeup_cost_us and not misbehaves and ends > _FEW
        made = program(component, node, {**job, "ring": ring, "duration_us": context.duration_us,
                                         "wakeup_cost_us": wakeup_cost_us}, "traffic.greedy.flows", context)
        # a ring is a process's; whose wake-ups take time must not keep other hosts waiting; studies of many hosts whose
        # flows rest or have a pace were made with a process each, and ports follow from how many start
        made.threads = 0 if ring or rests or wakeup_cost_us else ends
        if ends > _FEW:
            made.buffers_mb = buffers_mb(len(job["receive"]))
        programs.append(made)
    return programs


def tcp_jobs(flows: Sequence[Flow], more: Mapping[int, Mapping[str, object]],
             of_both: Mapping[str, object] | None = None,
             of_receivers: Mapping[int, Mapping[str, object]] | None = None) -> dict[str, Job]:
    """{node: the orders of its senders and receivers}.

    more: {flow: what the order of its sender has besides}; of_receivers: the same of its receiver; of_both: what the
    orders of both ends have.
    """
    jobs: dict[str, Job] = {}
    for flow in flows:
        order: dict[str, object] = {"flow": flow.flow, "address": flow.dst, "port": flow.dport, **(of_both or {})}
        if flow.bytes is not None:
            order["bytes"] = flow.bytes
        if flow.socket_options:
            order["options"] = flow.socket_options
        jobs.setdefault(flow.receiver, {"receive": [], "send": []})["receive"].append(
            {**order, "cca": flow.receiver_cca, **(of_receivers or {}).get(flow.flow, {})})
        jobs.setdefault(flow.sender, {"receive": [], "send": []})["send"].append(
            {**order, "start_us": flow.start_us, "stop_us": flow.stop_us, "cca": flow.sender_cca, **more[flow.flow]})
    return jobs


def program(component: Component, node: str, job: Mapping[str, object], module: str, context: Context) -> Program:
    """The program of a node, with its job file."""
    name = f"{component.name}-{node}.json"
    (context.work_dir / name).write_text(json.dumps(job))
    return Program(node, module, [f"{context.guest_dir}/{name}"])
