# SPDX-License-Identifier: GPL-2.0-only
"""Greedy flows: what a scenario's section may say, and the jobs and lists that come of it."""
import json

import pytest

import topologies
import traffic
from traffic import ParameterError
from traffic.greedy import scenario

TOPOLOGY = {"kind": "dumbbell", "central": {"rate_bps": 10**7}, "edge": {"rate_bps": 10**8},
            "left_delays_us": [0, 5000], "right_delays_us": [2000, 9000]}
IPERF3 = {"kind": "greedy", "target": "right_to_left"}
SOCKETS = {**IPERF3, "tool": "sockets"}


@pytest.fixture
def network():
    return topologies.from_section(TOPOLOGY).describe()


@pytest.fixture
def context(tmp_path, network, monkeypatch):
    """A run of 10 s; iperf3 counts as installed and the preload as compiled."""
    monkeypatch.setattr(scenario, "_compile", lambda folder: "preload.so")
    monkeypatch.setattr(scenario, "_require_iperf3", lambda: None)
    return traffic.Context(tmp_path, "/run/guest", network, seed=3, prefill_us=1_000_000, warmup_us=2_000_000,
                           test_us=7_000_000)


def jobs(workload, context):
    """{node: (module, job)} of the programs."""
    return {program.node: (program.module, json.loads((context.work_dir / program.arguments[0].rsplit("/", 1)[1]).read_text()))
            for program in workload.programs}


@pytest.mark.parametrize("changes", [
    {}, {"flows": 10_000}, {"paths": [0, 3]}, {"stagger_us": 500}, {"target": "left_to_right"}, {"start_within_us": 5_000_000},
    {"preload": False}, {"tool": "sockets"}, {"tool": "sockets", "sequence_start": 0, "bytes_bytes": 200_000},
    {"tool": "sockets", "sequence_start": 2**32 - 1}, {"tool": "sockets", "flows": 10_000, "paths": [0, 1, 2, 3, 0]}])
def test_sections(network, changes):
    scenario.validate({**IPERF3, **changes}, network)


@pytest.mark.parametrize("field, changes, words", [
    ("target", {"target": "up"}, "one of left_to_right, right_to_left"), ("target", {"target": None}, "one of"),
    ("target", {"target": "n1_to_r1"}, "one of"), ("tool", {"tool": "netperf"}, "one of iperf3, sockets"), ("tool", {"tool": None}, "one of"),
    ("flows", {"flows": 0}, "from 1 to 10000"), ("flows", {"flows": 1.5}, "whole number"), ("flows", {"flows": True}, "whole number"),
    ("flows", {"flows": 10_001}, "from 1"), ("flows", {"flows": 10_000, "paths": [0, 1, 2]}, "30000 flows need more ports"),
    ("flows", {"tool": "sockets", "flows": 10_000, "paths": [0, 1, 2, 3, 0, 1]}, "60000 flows need more ports"),
    ("paths", {"paths": [4]}, "from 0 to 3"), ("paths", {"paths": [-1]}, "from 0 to 3"), ("paths", {"paths": [True]}, "from 0"),
    ("paths", {"paths": []}, "list"), ("paths", {"paths": 0}, "list"), ("stagger", {"stagger_us": -1}, "0 s or more"),
    ("stagger", {"stagger": 1}, "unit such as '20 ms'"), ("start_within", {"start_within": 5}, "unit such as '5 s'"),
    ("start_within", {"start_within_us": -1}, "0 s or more"), ("preload", {"preload": "maybe"}, "yes or no"),
    ("preload", {"preload": True, "tool": "sockets"}, "only with tool: iperf3"),
    ("sequence_start", {"sequence_start": 5}, "only with tool: sockets"), ("bytes", {"bytes_bytes": 5}, "only with tool: sockets"),
    ("bytes", {"tool": "sockets", "bytes_bytes": 0}, "at least 1 B"), ("bytes", {"tool": "sockets", "bytes": 5}, "unit such as '200 kB'"),
    ("sequence_start", {"tool": "sockets", "sequence_start": 2**32}, "0 to 4294967295"),
    ("sequence_start", {"tool": "sockets", "sequence_start": -1}, "0 to 4294967295"),
    ("sequence_start", {"tool": "sockets", "sequence_start": 1}, "the SYN would have number 0"),
    ("load_percent", {"load_percent": 60}, "fields are: bytes, flows, kind, paths, preload, sequence_start, stagger, start_within, target, tool"),
])
def test_refused_sections(network, field, changes, words):
    with pytest.raises(ParameterError, match=words) as problem:
        scenario.validate({**IPERF3, **changes}, network)
    assert problem.value.field == field


def test_paths_must_go_over_the_target(network):
    network["paths"][1].update(hops=["n1_to_r1"], hops_back=["r1_to_n1"])
    with pytest.raises(ParameterError, match="path 1 does not go over right_to_left"):
        scenario.validate({**IPERF3, "paths": [0, 1]}, network)


@pytest.mark.parametrize("target, sender, receiver, source, address", [
    ("right_to_left", "n3", "n1", "10.0.4.1", "10.0.2.1"), ("left_to_right", "n1", "n3", "10.0.2.1", "10.0.4.1")])
def test_flows_send_in_the_direction_of_the_target(context, target, sender, receiver, source, address):
    workload = scenario.prepare({**IPERF3, "target": target}, context)
    flow = {"flow": 1, "address": address, "port": 6000}
    common = {"duration_us": 10_000_000, "folder": "/run/guest", "preload": "/run/guest/preload.so"}
    assert jobs(workload, context) == {
        sender: ("traffic.greedy.iperf3", {"receive": [], "send": [{**flow, "start_us": 0, "source_port": 30000}], **common}),
        receiver: ("traffic.greedy.iperf3", {"receive": [flow], "send": [], **common})}
    assert workload.description == {
        "target_link": target, "prefill_us": 1_000_000, "warmup_us": 2_000_000, "test_us": 7_000_000, "duration_us": 10_000_000,
        "flows": [{"flow": 1, "path": 0, "sender": sender, "receiver": receiver, "src": source, "sport": 30000, "dst": address,
                   "dport": 6000, "start_us": 0, "base_rtt_us": 4000}]}


def test_flows_have_a_number_ports_and_a_start_each(context):
    workload = scenario.prepare({**IPERF3, "flows": 2, "paths": [0, 3], "stagger_us": 500}, context)
    listed = [[flow[key] for key in ("flow", "path", "sender", "sport", "dport", "start_us", "base_rtt_us")]
              for flow in workload.description["flows"]]
    assert listed == [[1, 0, "n3", 30000, 6000, 0, 4000], [2, 0, "n3", 30001, 6001, 500, 4000],
                      [3, 3, "n4", 30002, 6002, 1000, 28000], [4, 3, "n4", 30003, 6003, 1500, 28000]]
    made = jobs(workload, context)
    assert sorted((f["flow"], node, f["port"], f["start_us"]) for node, (_, job) in made.items() for f in job["send"]) == [
        (1, "n3", 6000, 0), (2, "n3", 6001, 500), (3, "n4", 6002, 1000), (4, "n4", 6003, 1500)]
    assert sorted((f["flow"], node, f["port"]) for node, (_, job) in made.items() for f in job["receive"]) == [
        (1, "n1", 6000), (2, "n1", 6001), (3, "n2", 6002), (4, "n2", 6003)]


def test_sockets_have_no_source_port_and_take_a_sequence_number(context):
    workload = scenario.prepare({**SOCKETS, "sequence_start": 0, "bytes_bytes": 200_000}, context)
    assert workload.description["flows"][0]["sport"] is None
    flow = {"flow": 1, "address": "10.0.2.1", "port": 6000, "bytes": 200_000}
    assert jobs(workload, context) == {
        "n1": ("traffic.greedy.flows", {"receive": [flow], "send": [], "duration_us": 10_000_000}),
        "n3": ("traffic.greedy.flows", {"receive": [], "send": [{**flow, "start_us": 0, "sequence_start": 0}],
                                        "duration_us": 10_000_000})}


def starts(context, **changes):
    return [flow["start_us"] for flow in scenario.prepare({**SOCKETS, "flows": 200, **changes}, context).description["flows"]]


def test_random_starts_follow_from_the_seed(context):
    once = starts(context, start_within_us=5_000_000)
    assert once == starts(context, start_within_us=5_000_000)
    assert all(0 <= start_us < 5_000_000 for start_us in once) and len(set(once)) > 190
    assert 2_100_000 < sum(once) / 200 < 2_900_000          # four standard deviations
    assert [b - a for a, b in zip(once, starts(context, start_within_us=5_000_000, stagger_us=7))] == list(range(0, 1400, 7))
    context.seed = 4
    assert starts(context, start_within_us=5_000_000) != once
    assert starts(context) == [0] * 200


def test_flows_begin_before_the_end_and_iperf3_has_a_limit(context):
    with pytest.raises(ParameterError, match="flow 3 would begin after the end, at 10 s") as problem:
        scenario.prepare({**IPERF3, "flows": 3, "stagger_us": 5_000_000}, context)
    assert problem.value.field == "stagger"
    context.test_us = 86_400_000_000
    with pytest.raises(ParameterError, match="at most 86400 s; use tool: sockets"):
        scenario.prepare(IPERF3, context)
    scenario.prepare(SOCKETS, context)


def test_unaided_iperf3(context):
    workload = scenario.prepare({**IPERF3, "preload": False}, context)
    assert all(job["preload"] is None for _, job in jobs(workload, context).values())


def test_preload_compiles_to_the_same_bytes_everywhere(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        assert scenario._compile(tmp_path / name) == "iperf3-preload.so"
    first, second = ((tmp_path / name / "iperf3-preload.so").read_bytes() for name in ("a", "b"))
    assert first == second and first.startswith(b"\x7fELF")


def test_missing_programs_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ParameterError, match="gcc is missing.*apt-get install gcc.*or set preload: no"):
        scenario._compile(tmp_path)
    monkeypatch.setattr(scenario, "PROGRAM", str(tmp_path / "iperf3"))
    with pytest.raises(ParameterError, match="iperf3 is missing: apt-get install iperf3, or set tool: sockets"):
        scenario._require_iperf3()


def test_words_of_the_compiler_come_through(tmp_path, monkeypatch):
    (tmp_path / "gcc").write_text("#!/bin/sh\necho 'x.c:1: error: no' >&2\nexit 1\n")
    (tmp_path / "gcc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(ParameterError, match=r"(?s)gcc -O2.* failed:.*x\.c:1: error: no"):
        scenario._compile(tmp_path)


def test_json_is_collected_and_nothing_else(context, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    for name in ("iperf3-flow1.json", "iperf3-flow1-server.json", "greedy-n1.json", "job.json"):
        (context.work_dir / name).write_text(name)
    assert scenario.collect(context, raw) == {}
    assert {path.name: path.read_text() for path in raw.iterdir()} == {
        name: name for name in ("iperf3-flow1.json", "iperf3-flow1-server.json")}
