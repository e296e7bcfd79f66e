# SPDX-License-Identifier: GPL-2.0-only
"""Greedy TCP flows as a scenario's traffic.

    kind: greedy
    target: right_to_left       direction in which they send
    flows: 1                    flows per path used
    paths: [0]                  which of the network's paths (default: the first)
    stagger: 0 s                between the starts of one flow and the next
"""
import json

from traffic import ParameterError, Program, Workload

_FIELDS = {"kind", "target", "flows", "paths", "stagger_us"}
_FIRST_PORT = 6000


def validate(section, network):
    for name in section:
        if name not in _FIELDS:
            raise ParameterError(name, "a value with a unit such as '20 ms' expected" if name == "stagger" else
                                 "unknown field; fields are: flows, kind, paths, stagger, target")
    bottlenecks = [link["name"] for link in network["links"] if link["bottleneck"]]
    if section.get("target") not in bottlenecks:
        raise ParameterError("target", f"one of {', '.join(bottlenecks)} expected")
    flows = section.get("flows", 1)
    if isinstance(flows, bool) or not isinstance(flows, int) or not 1 <= flows <= 10000:
        raise ParameterError("flows", "a whole number from 1 to 10000 expected")
    paths = section.get("paths", [0])
    if not isinstance(paths, list) or not paths:
        raise ParameterError("paths", "a list of path numbers expected")
    if flows * len(paths) > 65536 - _FIRST_PORT:
        raise ParameterError("flows", f"{flows * len(paths)} flows need more ports than there are")
    for path in paths:
        if isinstance(path, bool) or not isinstance(path, int) or not 0 <= path < len(network["paths"]):
            raise ParameterError("paths", f"numbers from 0 to {len(network['paths']) - 1} expected")
    if section.get("stagger_us", 0) < 0:
        raise ParameterError("stagger", "must not be negative")


def prepare(section, context):
    """One job file per host that sends or receives."""
    jobs, number = {}, 0
    for index in section.get("paths", [0]):
        path = context.network["paths"][index]
        sender, receiver = ("initiator", "acceptor") if section["target"] in path["hops"] else ("acceptor", "initiator")
        for _ in range(section.get("flows", 1)):
            flow = {"flow": number, "address": path[f"{receiver}_address"], "port": _FIRST_PORT + number}
            jobs.setdefault(path[receiver], {"receive": [], "send": []})["receive"].append(flow)
            jobs.setdefault(path[sender], {"receive": [], "send": []})["send"].append(
                {**flow, "start_us": number * section.get("stagger_us", 0)})
            number += 1
    programs = []
    for node, job in sorted(jobs.items()):
        job.update(duration_us=context.duration_us)
        (context.work_dir / f"greedy-{node}.json").write_text(json.dumps(job))
        programs.append(Program(node, "traffic.greedy.flows", [f"{context.guest_dir}/greedy-{node}.json"]))
    return Workload(programs, {
        "target_link": section["target"], "flows": number, "prefill_us": context.prefill_us,
        "warmup_us": context.warmup_us, "test_us": context.test_us, "duration_us": context.duration_us})


def collect(context, raw_dir):
    """Greedy flows leave nothing but their counters, which are in the programs' accounts."""
    return {}
