# SPDX-License-Identifier: GPL-2.0-only
"""Greedy TCP flows as a scenario's traffic (docs/greedy.md).

    kind: greedy
    target: right_to_left       direction in which they send
    tool: iperf3                or sockets: lighter, for hundreds of flows
    flows: 1                    flows per path used
    paths: [0]                  which of the network's paths (default: the first)
    stagger: 0 s                between the starts of one flow and the next
    start_within: 0 s           plus a random time below this one for each flow, from the run's seed
    preload: yes                iperf3 only: without it iperf3 is as Debian has it, and slow
    sequence_start: 1000        sockets only: sequence number of the first byte of data
    bytes: 200 kB               sockets only: what each flow sends (default: until the end)
"""
import json
import os
import pathlib
import shutil
import subprocess

import numpy as np

from traffic import ParameterError, Program, Workload
from traffic.greedy.iperf3 import OUTPUTS, PROGRAM

_FIELDS = {"kind", "target", "tool", "flows", "paths", "stagger_us", "start_within_us", "preload", "sequence_start",
           "bytes_bytes"}
_ONLY = {"preload": "iperf3", "sequence_start": "sockets", "bytes_bytes": "sockets"}
_EXAMPLES = {"stagger": "20 ms", "start_within": "5 s", "bytes": "200 kB"}
_FIRST_PORT, _FIRST_SOURCE_PORT = 6000, 30000
_MOST = {"iperf3": _FIRST_SOURCE_PORT - _FIRST_PORT, "sockets": 65536 - _FIRST_PORT}
#: what iperf3 takes for -t
_LONGEST_S = 86400
_PRELOAD = "iperf3-preload.so"
_SOURCE = pathlib.Path(__file__).parent / "iperf3_preload.c"


def validate(section, network):
    for name in section:
        if name not in _FIELDS:
            fields = sorted(_EXAMPLES.keys() | {field for field in _FIELDS if not field.endswith(("_us", "_bytes"))})
            raise ParameterError(name, f"a value with a unit such as '{_EXAMPLES[name]}' expected" if name in _EXAMPLES
                                 else f"unknown field; fields are: {', '.join(fields)}")
    tool = section.get("tool", "iperf3")
    if tool not in _MOST:
        raise ParameterError("tool", f"one of {', '.join(_MOST)} expected")
    for name, of in _ONLY.items():
        if name in section and tool != of:
            raise ParameterError(name.removesuffix("_bytes"), f"only with tool: {of}")
    _validate_flows(section, network, _MOST[tool])
    for name in ("stagger_us", "start_within_us"):
        if _integer(section.get(name, 0)) is None or section.get(name, 0) < 0:
            raise ParameterError(name.removesuffix("_us"), "a time of 0 s or more expected")
    if not isinstance(section.get("preload", True), bool):
        raise ParameterError("preload", "yes or no expected")
    if _integer(section.get("bytes_bytes", 1)) is None or section.get("bytes_bytes", 1) < 1:
        raise ParameterError("bytes", "at least 1 B expected")
    first = _integer(section.get("sequence_start", 0))
    if first is None or not 0 <= first < 1 << 32:
        raise ParameterError("sequence_start", f"a whole number from 0 to {(1 << 32) - 1} expected")
    if first == 1:
        raise ParameterError("sequence_start", "1 is not possible: the SYN would have number 0, with which Linux chooses one")


def _validate_flows(section, network, most):
    bottlenecks = [link["name"] for link in network["links"] if link["bottleneck"]]
    target = section.get("target")
    if target not in bottlenecks:
        raise ParameterError("target", f"one of {', '.join(bottlenecks)} expected")
    flows = _integer(section.get("flows", 1))
    if flows is None or not 1 <= flows <= 10000:
        raise ParameterError("flows", "a whole number from 1 to 10000 expected")
    paths = section.get("paths", [0])
    if not isinstance(paths, list) or not paths:
        raise ParameterError("paths", "a list of path numbers expected")
    if flows * len(paths) > most:
        raise ParameterError("flows", f"{flows * len(paths)} flows need more ports than there are")
    for path in paths:
        if _integer(path) is None or not 0 <= path < len(network["paths"]):
            raise ParameterError("paths", f"numbers from 0 to {len(network['paths']) - 1} expected")
        if target not in network["paths"][path]["hops"] + network["paths"][path]["hops_back"]:
            raise ParameterError("paths", f"path {path} does not go over {target}")


def _integer(value):
    """`value` if it is a whole number, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def prepare(section, context):
    """One job file per host that sends or receives."""
    iperf3 = section.get("tool", "iperf3") == "iperf3"
    flows = _flows(section, context, iperf3)
    common = {"duration_us": context.duration_us}
    if iperf3:
        _require_iperf3()
        preload = _compile(context.work_dir) if section.get("preload", True) else None
        common.update(folder=context.guest_dir, preload=preload and f"{context.guest_dir}/{preload}")
    jobs = {}
    for flow in flows:
        order = {"flow": flow["flow"], "address": flow["dst"], "port": flow["dport"]}
        if "bytes_bytes" in section:
            order["bytes"] = section["bytes_bytes"]
        jobs.setdefault(flow["receiver"], {"receive": [], "send": []})["receive"].append(dict(order))
        order["start_us"] = flow["start_us"]
        if iperf3:
            order["source_port"] = flow["sport"]
        if "sequence_start" in section:
            order["sequence_start"] = section["sequence_start"]
        jobs.setdefault(flow["sender"], {"receive": [], "send": []})["send"].append(order)
    programs = []
    for node, job in sorted(jobs.items()):
        (context.work_dir / f"greedy-{node}.json").write_text(json.dumps({**job, **common}))
        programs.append(Program(node, "traffic.greedy.iperf3" if iperf3 else "traffic.greedy.flows",
                                [f"{context.guest_dir}/greedy-{node}.json"]))
    return Workload(programs, {
        "target_link": section["target"], "flows": flows, "prefill_us": context.prefill_us,
        "warmup_us": context.warmup_us, "test_us": context.test_us, "duration_us": context.duration_us})


def _flows(section, context, iperf3):
    """The flows as workload.json lists them. ParameterError if one cannot be."""
    per_path, indices = section.get("flows", 1), section.get("paths", [0])
    within_us = section.get("start_within_us", 0)
    offsets_us = np.random.default_rng(context.seed).integers(0, max(within_us, 1), size=per_path * len(indices))
    flows = []
    for place, offset_us in enumerate(offsets_us.tolist()):
        index = indices[place // per_path]
        path = context.network["paths"][index]
        sender, receiver = ("initiator", "acceptor") if section["target"] in path["hops"] else ("acceptor", "initiator")
        start_us = place * section.get("stagger_us", 0) + offset_us
        if start_us >= context.duration_us:
            raise ParameterError("stagger" if place and section.get("stagger_us") else "start_within",
                                 f"flow {place + 1} would begin after the end, at {start_us / 1e6:g} s")
        if iperf3 and context.duration_us - start_us > _LONGEST_S * 1_000_000:
            raise ParameterError("tool", f"iperf3 sends for at most {_LONGEST_S} s; use tool: sockets")
        flows.append({"flow": place + 1, "path": index, "sender": path[sender], "receiver": path[receiver],
                      "src": path[f"{sender}_address"], "sport": _FIRST_SOURCE_PORT + place if iperf3 else None,
                      "dst": path[f"{receiver}_address"], "dport": _FIRST_PORT + place,
                      "start_us": start_us, "base_rtt_us": path["base_rtt_us"]})
    return flows


def _require_iperf3():
    if not os.access(PROGRAM, os.X_OK):
        raise ParameterError("tool", "iperf3 is missing: apt-get install iperf3, or set tool: sockets")


def _compile(folder):
    """Compile the preload library into `folder`; returns its name. ParameterError if that cannot be."""
    command = ["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-s", "-Wl,--build-id=none", "-o", _PRELOAD, str(_SOURCE)]
    try:
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except FileNotFoundError:
        raise ParameterError("tool", "gcc is missing, which compiles what makes iperf3 fast: apt-get install gcc "
                                     "libc6-dev, or set preload: no or tool: sockets") from None
    if done.returncode:
        raise ParameterError("tool", f"{' '.join(command)} failed:\n{done.stderr.strip()[-2000:]}")
    return _PRELOAD


def collect(context, raw_dir):
    """iperf3's own JSON goes to raw/; sockets leave but their counters, which are in the programs' accounts."""
    for path in sorted(context.work_dir.glob(OUTPUTS)):
        shutil.copyfile(path, raw_dir / path.name)
    return {}
