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


@pytest.mark.parametrize("changes", [{}, {"flows": 10_000}, {"paths": [0, 3]}, {"stagger_us": 500}, {"target": "left_to_right"}])
def test_greedy_sections(network, changes):
    traffic.load("greedy").validate({"kind": "greedy", "target": "right_to_left", **changes}, network)


@pytest.mark.parametrize("field, changes", [
    ("target", {"target": "up"}), ("target", {"target": None}), ("target", {"target": "n1_to_r1"}), ("flows", {"flows": 0}), ("flows", {"flows": 1.5}),
    ("flows", {"flows": True}), ("flows", {"flows": 10_001}), ("flows", {"flows": 10_000, "paths": [0, 1, 2, 3, 0, 1]}), ("paths", {"paths": [4]}),
    ("paths", {"paths": [-1]}), ("paths", {"paths": [True]}), ("paths", {"paths": []}), ("paths", {"paths": 0}), ("stagger", {"stagger_us": -1}), ("stagger", {"stagger": 1}),
    ("load_percent", {"load_percent": 60}),
])
def test_refused_greedy_sections(network, field, changes):
    with pytest.raises(ParameterError) as problem:
        traffic.load("greedy").validate({"kind": "greedy", "target": "right_to_left", **changes}, network)
    assert problem.value.field == field


def test_greedy_without_a_unit_says_so(network):
    with pytest.raises(ParameterError, match="a value with a unit such as '20 ms'"):
        traffic.load("greedy").validate({"kind": "greedy", "target": "right_to_left", "stagger": 1}, network)


@pytest.mark.parametrize("target, sender, receiver, address", [("right_to_left", "n3", "n1", "10.0.2.1"), ("left_to_right", "n1", "n3", "10.0.4.1")])
def test_greedy_sends_in_the_direction_of_the_target(context, target, sender, receiver, address):
    workload = traffic.load("greedy").prepare({"kind": "greedy", "target": target}, context)
    programs = {node: job for node, _, job in jobs(workload, context)}
    flow = {"flow": 0, "address": address, "port": 6000}
    assert programs == {sender: {"receive": [], "send": [{**flow, "start_us": 0}], "duration_us": 10_000_000},
                        receiver: {"receive": [flow], "send": [], "duration_us": 10_000_000}}
    assert workload.description == {"target_link": target, "flows": 1, "prefill_us": 1_000_000, "warmup_us": 2_000_000,
                                    "test_us": 7_000_000, "duration_us": 10_000_000}


def test_greedy_flows_have_a_number_a_port_and_a_start_each(context):
    workload = traffic.load("greedy").prepare({"kind": "greedy", "target": "right_to_left", "flows": 2, "paths": [0, 3], "stagger_us": 500}, context)
    made = jobs(workload, context)
    assert {module for _, module, _ in made} == {"traffic.greedy.flows"}
    sent = sorted((f["flow"], node, f["port"], f["start_us"]) for node, _, job in made for f in job["send"])
    assert sent == [(0, "n3", 6000, 0), (1, "n3", 6001, 500), (2, "n4", 6002, 1000), (3, "n4", 6003, 1500)]
    received = sorted((f["flow"], node, f["port"]) for node, _, job in made for f in job["receive"])
    assert received == [(0, "n1", 6000), (1, "n1", 6001), (2, "n2", 6002), (3, "n2", 6003)]
    assert workload.description["flows"] == 4 and traffic.load("greedy").collect(context, context.work_dir) == {}


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
