# SPDX-License-Identifier: GPL-2.0-only
"""Tmix as a scenario's traffic: one source per path, replayed by a client and a server.

Fields of the traffic section:

    kind: tmix
    target: right_to_left       the direction that the load is meant for
    load: 60 %                  of that link's rate
    traces: FOLDER              vector files, one per source; without it they are synthesised
    scale: search | unc | 1.5   factor on the traces' start times: search one that meets the
                                load (default), the scenario's `unc_scale`, or a number
    unc_scale: 5.276            the suite's factor for the UNC traces at this load
    synth: {mean_acceptor: 18 kB}   parameters of the synthesiser (docs/tmix.md) other than its defaults
"""
import dataclasses
import json
import os

from traffic import ParameterError, Program, Workload

_FIELDS = {"kind", "target", "load_percent", "traces", "scale", "unc_scale", "synth"}
_FIRST_PORT = 5000


def validate(section, network):
    """Raise ParameterError for a section that makes no sense for this network."""
    for name in section:
        if name not in _FIELDS:
            hint = "a value with a unit such as '60 %' expected" if name == "load" else \
                f"unknown field; fields are: {', '.join(sorted(f.removesuffix('_percent') for f in _FIELDS))}"
            raise ParameterError(name, hint)
    bottlenecks = [link["name"] for link in network["links"] if link["bottleneck"]]
    if section.get("target") not in bottlenecks:
        raise ParameterError("target", f"one of {', '.join(bottlenecks)} expected")
    if not 0 < section.get("load_percent", 0) <= 200:
        raise ParameterError("load", "a percentage above 0 and up to 200 such as '60 %' expected")
    _scale(section)
    _synth_parameters(section)


def prepare(section, context):
    """Vectors -> plans in context.work_dir, one job file per host."""
    from traffic.tmix.workload import Synthesised, build_workload, trace_files
    target = next(link for link in context.network["links"] if link["name"] == section["target"])
    paths = context.network["paths"]
    # after an = sign the shell leaves ~ as it is
    sources = trace_files(os.path.expanduser(section["traces"])) if section.get("traces") else \
        Synthesised(count=len(paths), parameters=_synth_parameters(section))
    if section.get("traces") and len(sources) != len(paths):
        raise ParameterError("traces", f"{section['traces']} has {len(sources)} vector files; this network takes "
                                       f"{len(paths)} sources, one file each")
    description = build_workload(
        sources, rate_bps=target["rate_bps"], target_load=section["load_percent"] / 100, seed=context.seed,
        prefill_us=context.prefill_us, warmup_us=context.warmup_us, test_us=context.test_us,
        rtts_us=[path["base_rtt_us"] for path in paths], out_dir=context.work_dir,
        scale=_scale(section), target_link=section["target"])
    endpoints = {}
    for source, path in enumerate(paths):
        for role, node, local, peer in (
                ("acceptor", path["acceptor"], path["acceptor_address"], path["initiator_address"]),
                ("initiator", path["initiator"], path["initiator_address"], path["acceptor_address"])):
            endpoints.setdefault(node, []).append({
                "source": source, "role": role, "plan": f"{context.guest_dir}/source{source}.plan",
                "local": local, "peer": peer, "port": _FIRST_PORT + source})
    programs = []
    # servers first: every program is ready before any starts, but logs read better
    for node in sorted(endpoints, key=lambda n: (endpoints[n][0]["role"] != "acceptor", n)):
        job = {"node": node, "endpoints": endpoints[node], "duration_us": context.duration_us,
               "out_dir": context.guest_dir}
        (context.work_dir / f"replay-{node}.json").write_text(json.dumps(job))
        programs.append(Program(node, "traffic.tmix.replay", [f"{context.guest_dir}/replay-{node}.json"]))
    return Workload(programs, description)


def collect(context, raw_dir):
    """Replay records -> connections.csv.gz, adus.csv.gz; returns the account."""
    from traffic.tmix.collect import collect as merge_records
    plans = {source: context.work_dir / f"source{source}.plan" for source in range(len(context.network["paths"]))}
    return merge_records(plans, context.work_dir, raw_dir)


def _scale(section):
    """None for a search, else the factor."""
    wanted = section.get("scale", "search")
    if wanted == "search":
        return None
    if wanted == "unc":
        wanted = section.get("unc_scale")
    if isinstance(wanted, bool) or not isinstance(wanted, (int, float)) or wanted <= 0:
        raise ParameterError("scale", "search, unc, or a factor above 0 expected (unc needs unc_scale)")
    return float(wanted)


def _synth_parameters(section):
    """The synthesiser's parameters with the section's `synth` in them."""
    from traffic.tmix.synth import SynthParameters
    given = section.get("synth", {})
    if not isinstance(given, dict):
        raise ParameterError("synth", "a mapping of parameters expected")
    known = {field.name for field in dataclasses.fields(SynthParameters)}
    for name, value in given.items():
        if name not in known:
            raise ParameterError(f"synth.{name}", f"no such parameter; there are: {', '.join(sorted(known))}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            raise ParameterError(f"synth.{name}", f"a number >= 0 expected, not {value!r}")
    parameters = dataclasses.replace(SynthParameters(), **given)
    try:
        for side in (0, 1):
            parameters.tail_probability(side)
    except ValueError as problem:
        raise ParameterError("synth", str(problem)) from None
    return parameters
