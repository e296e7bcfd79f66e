# SPDX-License-Identifier: GPL-2.0-only
"""Kinds of traffic: what a scenario's section may say, and the jobs that come of it."""
import json

import pytest

import topologies
import traffic
from traffic import ParameterError

TOPOLOGY = {"kind": "dumbbell", "central": {"rate_bps": 10**7}, "edge": {"rate_bps": 10**8}, "left_delays_us": [0, 5000], "right_delays_us": [2000, 9000]}
TMIX = {"kind": "tmix", "target": "right_to_left", "load_percent": 60}


@pytest.fixture
def network():
    return topologies.from_section(TOPOLOGY).describe()


@pytest.fixture
def context(tmp_path, network):
    return traffic.Context(tmp_path, "/run/guest", network, seed=3, prefill_us=1_000_000, warmup_us=2_000_000, test_us=7_000_000)


def jobs(workload, context):
    """[(node, module, job)] of the programs, in their order."""
    found = []
    for program in workload.programs:
        path, = program.arguments
        assert path.startswith("/run/guest/")
        found.append((program.node, program.module, json.loads((context.work_dir / path.rsplit("/", 1)[1]).read_text())))
    return found


def test_kinds_are_found_by_listing():
    assert {"greedy", "tmix"} <= set(traffic.names())
    for kind in traffic.names():
        module = traffic.load(kind)
        assert all(callable(getattr(module, name)) for name in ("validate", "prepare", "collect")) and module.__doc__
    for kind in ("voip", None, ""):
        with pytest.raises(ParameterError, match="there are: greedy") as problem:
            traffic.load(kind)
        assert problem.value.field == "kind"


def test_duration(context):
    assert context.duration_us == 10_000_000


@pytest.mark.parametrize("changes, scale", [
    ({}, None), ({"scale": "search"}, None), ({"scale": 1.5}, 1.5), ({"scale": 2}, 2.0), ({"scale": "unc", "unc_scale": 5.276}, 5.276), ({"load_percent": 200}, None)])
def test_tmix_sections(network, changes, scale):
    module = traffic.load("tmix")
    module.validate({**TMIX, **changes}, network)
    assert module._scale({**TMIX, **changes}) == scale


@pytest.mark.parametrize("field, changes", [
    ("target", {"target": "n1_to_r1"}), ("load", {"load_percent": 0}), ("load", {"load_percent": 201}), ("load", {"load_percent": -5}), ("load", {"load": 60}),
    ("scale", {"scale": "unc"}), ("scale", {"scale": 0}), ("scale", {"scale": -1}), ("scale", {"scale": True}), ("scale", {"scale": "fast"}), ("flows", {"flows": 1}),
])
def test_refused_tmix_sections(network, field, changes):
    with pytest.raises(ParameterError) as problem:
        traffic.load("tmix").validate({**TMIX, **changes}, network)
    assert problem.value.field == field


def test_tmix_needs_a_load(network):
    with pytest.raises(ParameterError) as problem:
        traffic.load("tmix").validate({"kind": "tmix", "target": "right_to_left"}, network)
    assert problem.value.field == "load"


def test_tmix_starts_a_replay_per_host_with_both_ends_of_every_path(context, monkeypatch):
    from traffic.tmix import workload as made
    orders = {}

    def build_workload(sources, **options):
        orders.update(options, sources=sources)
        return {"connections": 1}
    monkeypatch.setattr(made, "build_workload", build_workload)
    workload = traffic.load("tmix").prepare(TMIX, context)
    assert workload.description == {"connections": 1}
    assert orders["rate_bps"] == 10**7 and orders["target_load"] == 0.6 and orders["seed"] == 3 and orders["scale"] is None
    assert orders["rtts_us"] == [path["base_rtt_us"] for path in context.network["paths"]] and orders["target_link"] == "right_to_left"
    found = jobs(workload, context)
    assert [(node, module) for node, module, _ in found] == [(n, "traffic.tmix.replay") for n in ("n3", "n4", "n1", "n2")]
    ends = {(e["source"], e["role"]): (node, e) for node, _, job in found for e in job["endpoints"]}
    for number, path in enumerate(context.network["paths"]):
        for role, other in (("initiator", "acceptor"), ("acceptor", "initiator")):
            node, end = ends.pop((number, role))
            assert node == path[role] and (end["local"], end["peer"]) == (path[f"{role}_address"], path[f"{other}_address"])
            assert end["port"] == 5000 + number and end["plan"] == f"/run/guest/source{number}.plan"
    assert not ends and all(job["duration_us"] == 10_000_000 for _, _, job in found)


def test_tmix_takes_one_trace_per_source(context, tmp_path):
    traces = tmp_path / "traces"
    traces.mkdir()
    for number in range(3):
        (traces / f"t{number}.cvec").write_text("")
    with pytest.raises(ParameterError, match="has 3 vector files; this network takes 4") as problem:
        traffic.load("tmix").prepare({**TMIX, "traces": str(traces)}, context)
    assert problem.value.field == "traces"
