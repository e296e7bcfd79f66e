# SPDX-License-Identifier: GPL-2.0-only
"""Greedy flows: what a scenario's section may say, and the jobs and lists that come of it."""
import dataclasses

import numpy as np
import pytest

import traffic
from testbed.core.fields import FieldError
from tests.unit.traffic.traffic_setup import TIMING, variant
from traffic.greedy import scenario

IPERF3 = {"kind": "greedy", "start_within_us": 0}
SOCKETS = {**IPERF3, "tool": "sockets"}
CUBIC = variant("cubic")


@pytest.fixture
def prepare(context, monkeypatch):
    """Function: section -> workload. iperf3 counts as installed and the preload as compiled."""
    monkeypatch.setattr(scenario, "_compile", lambda folder: "preload.so")
    monkeypatch.setattr(scenario, "_require_iperf3", lambda: None)
    return lambda section, of=context: traffic.prepare([section], [CUBIC], of)


@pytest.mark.parametrize("changes", [
    {}, {"flows": 10_000}, {"paths": ["n3->n1", "n2 -> n4"]}, {"stagger_us": 500}, {"start_within_us": 5_000_000},
    {"stop_us": 4_000_000, "stop_within_us": 6_000_000},
    {"preload": False}, {"window": 20, "nagle": True}, {"preload": False, "nagle": False}, {"tool": "sockets"},
    {"tool": "sockets", "sequence_start": 0, "bytes_bytes": 200_000},
    {"tool": "sockets", "sequence_start": 2**32 - 1}, {"tool": "sockets", "segment_bytes": 100, "window": 24},
    {"tool": "sockets", "window": 2}, {"tool": "sockets", "receiver": {"kind": "divided", "parts": 1}},
    {"tool": "sockets", "receiver": {"kind": "optimistic"}, "window": 64},
    {"tool": "sockets", "flows": 10_000, "paths": ["n3->n1", "n4->n1", "n3->n2", "n4->n2", "n3->n1"]}])
def test_sections(network, changes):
    traffic.validate([{**IPERF3, **changes}], network, TIMING)


@pytest.mark.parametrize("field, changes, words", [
    ("target", {"target": "right_to_left"},
     "unknown field; fields are: name, kind, start, stop, cca, draws, paths, flows, tool"),
    ("tool", {"tool": "netperf"}, "one of iperf3, sockets"), ("flows", {"flows": 0}, "at least 1"),
    ("flows", {"flows": 1.5}, "whole number"), ("flows", {"flows": True}, "whole number"),
    ("flows", {"flows": 10_001}, "at most 10000"),
    ("flows", {"flows": 10_000, "paths": ["n3->n1", "n4->n1", "n3->n2"]}, "30000 flows need more ports"),
    ("flows", {"tool": "sockets", "flows": 10_000, "paths": ["n3->n1"] * 6}, "60000 flows need more ports"),
    ("paths", {"paths": ["n1->n2"]}, "no path n1->n2; there are: n3->n1, n4->n1, n3->n2, n4->n2, and their reverse"),
    ("paths", {"paths": ["n9->n1"]}, "no path n9->n1"), ("paths", {"paths": [0]}, "such as 'n4->n1'"),
    ("paths", {"paths": ["n1"]}, "such as"),
    ("paths", {"paths": 0}, "such as"), ("stagger", {"stagger_us": -1}, "at least"),
    ("stagger", {"stagger": 1}, "unit such as '20 ms'"), ("start_within", {"start_within_us": -1}, "at least"),
    ("stop_within", {"stop_us": 9_000_000, "stop_within_us": 1_000_001},
     "stops until 10 s are possible, but the experiment ends at 10 s"),
    ("stop_within", {"stop_within_us": 2_000_000}, "stops until 12 s are possible, but the experiment ends at 10 s"),
    ("preload", {"preload": "maybe"}, "yes or no"), ("preload", {"preload": True, "tool": "sockets"},
                                                     "only with tool: iperf3"),
    ("sequence_start", {"sequence_start": 5}, "only with tool: sockets"),
    ("bytes", {"bytes_bytes": 5}, "only with tool: sockets"),
    ("bytes", {"tool": "sockets", "bytes_bytes": 0}, "at least 1 B"),
    ("segment", {"segment_bytes": 1000}, "only with tool: sockets"),
    ("window", {"window": 20, "preload": False}, "needs the preload of iperf3"),
    ("nagle", {"nagle": True, "preload": False}, "needs the preload of iperf3"),
    ("nagle", {"nagle": True, "tool": "sockets"}, "only with tool: iperf3"),
    ("receiver", {"receiver": {"kind": "optimistic"}}, "only with tool: sockets"),
    ("receiver", {"tool": "sockets", "bytes_bytes": 5, "receiver": {"kind": "optimistic"}}, "not together with bytes"),
    ("receiver.kind", {"tool": "sockets", "receiver": {"kind": "deaf"}}, "one of divided, optimistic"),
    ("receiver.parts", {"tool": "sockets", "receiver": {"kind": "divided", "parts": 0}}, "at least 1"),
    ("receiver.parts", {"tool": "sockets", "receiver": {"kind": "divided"}}, "is missing"),
    ("receiver.ahead", {"tool": "sockets", "receiver": {"kind": "optimistic", "ahead": -1}}, "at least 0"),
    ("segment", {"tool": "sockets", "segment_bytes": 99}, "at least 100 B"),
    ("segment", {"tool": "sockets", "segment_bytes": 1449}, "at most 1448 B"),
    ("segment", {"tool": "sockets", "segment": 1000}, "unit such as"),
    ("window", {"tool": "sockets", "window": 1}, "at least 2"),
    ("window", {"tool": "sockets", "segment_bytes": 100, "window": 23}, "23 segments are 2300 bytes; at least"),
    ("bytes", {"tool": "sockets", "bytes": 5}, "unit such as"),
    ("sequence_start", {"tool": "sockets", "sequence_start": 2**32}, "at most 4294967295"),
    ("sequence_start", {"tool": "sockets", "sequence_start": -1}, "at least 0"),
    ("sequence_start", {"tool": "sockets", "sequence_start": 1}, "the SYN would have number 0")])
def test_refused_sections(network, field, changes, words):
    with pytest.raises(FieldError, match=words) as problem:
        traffic.validate([{**IPERF3, **changes}], network, TIMING)
    assert problem.value.field == field


@pytest.mark.parametrize("section, sender, receiver, source, address", [
    (IPERF3, "n3", "n1", "10.0.4.1", "10.0.2.1"), ({**IPERF3, "paths": ["n1->n3"]}, "n1", "n3", "10.0.2.1", "10.0.4.1"),
    ({**IPERF3, "paths": "n3->n1"}, "n3", "n1", "10.0.4.1", "10.0.2.1")])
def test_flows_send_from_the_first_host_to_the_second(prepare, jobs, section, sender, receiver, source, address):
    workload = prepare(section)
    flow = {"flow": 1, "address": address, "port": 6000, "cca": None}
    common = {"folder": "/run/guest", "preload": "/run/guest/preload.so", "nagle": False}
    made = {node: (module, job) for node, module, job in jobs(workload)}
    assert made == {
        sender: ("traffic.greedy.iperf3", {"receive": [], "send": [
            {**flow, "start_us": 0, "stop_us": 10_000_000, "source_port": 30000}], **common}),
        receiver: ("traffic.greedy.iperf3", {"receive": [flow], "send": [], **common})}
    hops = {"n3": ["n3_to_r2", "right_to_left", "r1_to_n1"], "n1": ["n1_to_r1", "left_to_right", "r2_to_n3"]}
    assert workload["flows"] == [{
        "flow": 1, "component": "greedy", "kind": "greedy", "transport": "tcp", "sender": sender, "receiver": receiver,
        "src": source, "sport": 30000, "dst": address, "dport": 6000, "variant": "cubic", "cca": "cubic",
        "chooses_cca": True, "start_us": 0,
        "stop_us": 10_000_000, "bytes": None, "rate_bps": None, "connections": 1, "source": None, "both_ways": False,
        "base_rtt_us": 4000, "hops": hops[sender], "hops_back": hops[receiver]}]


def test_flows_have_a_number_ports_and_a_start_each(prepare, jobs):
    workload = prepare({**IPERF3, "flows": 2, "paths": ["n3->n1", "n4->n2"], "stagger_us": 500})
    listed = [[flow[key] for key in ("flow", "sender", "receiver", "sport", "dport", "start_us", "base_rtt_us")]
              for flow in workload["flows"]]
    assert listed == [[1, "n3", "n1", 30000, 6000, 0, 4000], [2, "n3", "n1", 30001, 6001, 500, 4000],
                      [3, "n4", "n2", 30002, 6002, 1000, 28000], [4, "n4", "n2", 30003, 6003, 1500, 28000]]
    made = jobs(workload)
    assert sorted((f["flow"], node, f["port"], f["start_us"]) for node, _, job in made for f in job["send"]) == [
        (1, "n3", 6000, 0), (2, "n3", 6001, 500), (3, "n4", 6002, 1000), (4, "n4", 6003, 1500)]
    assert sorted((f["flow"], node, f["port"]) for node, _, job in made for f in job["receive"]) == [
        (1, "n1", 6000), (2, "n1", 6001), (3, "n2", 6002), (4, "n2", 6003)]


def test_sockets_have_no_source_port_and_take_a_sequence_number(prepare, jobs):
    workload = prepare({**SOCKETS, "sequence_start": 0, "bytes_bytes": 200_000})
    assert workload["flows"][0]["sport"] is None and workload["flows"][0]["bytes"] == 200_000
    flow = {"flow": 1, "address": "10.0.2.1", "port": 6000, "bytes": 200_000, "cca": None}
    common = {"duration_us": 10_000_000, "wakeup_cost_us": 0, "ring": False}
    assert jobs(workload) == [
        ("n1", "traffic.greedy.flows", {
            "receive": [{**flow, "peer": "10.0.4.1", "start_us": 0, "stop_us": 10_000_000}], "send": [], **common}),
        ("n3", "traffic.greedy.flows", {"receive": [], **common, "send": [
            {**flow, "start_us": 0, "stop_us": 10_000_000, "sequence_start": 0}]})]


@pytest.mark.parametrize("section, wakeup_cost_us, rings", [
    ({**SOCKETS, "flows": 8}, 0, {"n1": False, "n3": False}),
    ({**SOCKETS, "flows": 9}, 0, {"n1": True, "n3": True}),
    ({**SOCKETS, "flows": 9}, 1, {"n1": True, "n3": False}),
    # both ends of flows, and hosts with more of them than others
    ({**SOCKETS, "flows": 3, "paths": ["n3->n1", "n1->n3", "n3->n2"]}, 0, {"n1": False, "n2": False, "n3": True}),
    ({"kind": "on-off", "transport": "tcp", "on_us": 1_000_000, "off_us": 500_000, "flows": 9, "paths": ["n3->n1"]}, 0,
     {"n1": False, "n3": False}),
    ({"kind": "paced", "packets": 10, "flows": 9, "paths": ["n3->n1"]}, 0, {"n1": False, "n3": False})])
def test_a_ring_drives_more_than_eight_ends_that_neither_rest_nor_cost_wake_ups(prepare, jobs, context, section,
                                                                                wakeup_cost_us, rings):
    vars(next(node for node in context.network.nodes if node.name == "n3"))["wakeup_cost_us"] = wakeup_cost_us
    workload = prepare(section)
    made = jobs(workload)
    assert {node: job["ring"] for node, _, job in made} == rings
    # what may be in a process with those of other hosts
    threads = {node: 0 if section["kind"] != "greedy" or job["ring"] or job["wakeup_cost_us"] else len(
        job["send"] + job["receive"]) for node, _, job in made}
    assert {program["node"]: program["threads"] for program in workload["programs"]} == threads
    # half a megabyte for each flow that a host with many of them receives
    assert {program["node"]: program["buffers_mb"] for program in workload["programs"]} == {
        node: -(-len(job["receive"]) // 2) if len(job["receive"] + job["send"]) > 8 else 0 for node, _, job in made}


def test_both_ends_are_told_of_segments_and_windows(prepare, jobs):
    workload = prepare({**SOCKETS, "segment_bytes": 1000, "window": 20})
    component, = workload["components"]
    assert (component["segment_bytes"], component["window"]) == (1000, 20)
    (_, _, receiver), (_, _, sender) = jobs(workload)
    assert [(order["maxseg"], order.get("window_bytes")) for order in (*receiver["receive"], *sender["send"])] == [
        (1012, 20_000)] * 2
    assert "window" not in prepare(SOCKETS)["components"][0]


def test_only_the_receiver_is_told_how_it_misbehaves(prepare, jobs):
    """With a thread for each end: a ring reads what the kernel has acknowledged."""
    workload = prepare({**SOCKETS, "flows": 9, "receiver": {"kind": "optimistic", "ahead": 3}})
    receiver = {"kind": "optimistic", "ahead": 3}
    assert workload["components"][0]["receiver"] == receiver
    (_, _, receiving), (_, _, sending) = jobs(workload)
    assert not receiving["ring"] and all(order["receiver"] == receiver for order in receiving["receive"])
    assert not any("receiver" in order for order in sending["send"])


def starts(prepare, **changes):
    return [flow["start_us"] for flow in prepare({**SOCKETS, "flows": 200, **changes})["flows"]]


def test_random_starts_follow_from_the_seed(prepare, context):
    once = starts(prepare, start_within_us=5_000_000)
    assert once == starts(prepare, start_within_us=5_000_000)
    assert all(0 <= start_us < 5_000_000 for start_us in once) and len(set(once)) > 190
    assert 2_100_000 < sum(once) / 200 < 2_900_000          # four standard deviations
    assert [b - a for a, b in zip(once, starts(prepare, start_within_us=5_000_000, stagger_us=7))] == list(range(0,
                                                                                                                 1400,
                                                                                                                 7))
    assert [b - a for a, b in zip(once, starts(prepare, start_within_us=5_000_000, start_us=9))] == [9] * 200
    context.seed = 4
    assert starts(prepare, start_within_us=5_000_000) != once
    assert starts(prepare, start_within_us=0) == [0] * 200


def test_by_default_flows_start_within_a_round_trip_of_their_path(prepare, context):
    def usual(**changes):
        return starts(prepare, start_within_us=None, paths=["n3->n1", "n4->n2"], **changes)
    once = usual()
    for found, rtt_us in ((once[:200], 4000), (once[200:], 28_000)):
        assert all(0 <= start_us < rtt_us for start_us in found) and max(found) > 0.95 * rtt_us
    assert usual() == once and usual(stagger_us=7) == [start_us + 7 * place for place, start_us in enumerate(once)]
    # nobody misses a stop
    assert set(usual(stop_us=5)) == set(range(5))
    context.seed = 4
    assert usual() != once


def test_flows_begin_before_the_end_and_iperf3_has_a_limit(prepare, context):
    with pytest.raises(FieldError, match="flow 3 would begin after the end, at 10 s") as problem:
        prepare({**IPERF3, "flows": 3, "stagger_us": 5_000_000})
    assert problem.value.field == "stagger"
    with pytest.raises(FieldError, match="flow 2 would begin after the end, at 3 s"):
        prepare({**IPERF3, "flows": 2, "stagger_us": 2_000_000, "start_us": 1_000_000, "stop_us": 3_000_000})
    long = dataclasses.replace(context, timing=dataclasses.replace(TIMING, test_us=86_400_000_000))
    with pytest.raises(FieldError, match="at most 86400 s; use tool: sockets"):
        prepare(IPERF3, long)
    prepare(SOCKETS, long)


def test_unaided_iperf3(prepare, jobs):
    assert all(job["preload"] is None for _, _, job in jobs(prepare({**IPERF3, "preload": False})))


def test_iperf3_is_told_of_windows_and_of_nagle(prepare, jobs):
    made = {node: job for node, _, job in jobs(prepare({**IPERF3, "window": 20, "nagle": True}))}
    assert made["n1"]["receive"][0]["window_bytes"] == 20 * 1448 and made["n1"]["nagle"] is True
    assert "window_bytes" not in made["n3"]["send"][0]


def test_preload_compiles_to_the_same_bytes_everywhere(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        assert scenario._compile(tmp_path / name) == "iperf3-preload.so"
    first, second = ((tmp_path / name / "iperf3-preload.so").read_bytes() for name in ("a", "b"))
    assert first == second and first.startswith(b"\x7fELF")


def test_missing_programs_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FieldError, match="gcc is missing.*apt-get install gcc.*or set preload: no"):
        scenario._compile(tmp_path)
    monkeypatch.setattr(scenario, "PROGRAM", str(tmp_path / "iperf3"))
    with pytest.raises(FieldError, match="iperf3 is missing: apt-get install iperf3, or set tool: sockets"):
        scenario._require_iperf3()


def test_words_of_the_compiler_come_through(tmp_path, monkeypatch):
    (tmp_path / "gcc").write_text("#!/bin/sh\necho 'x.c:1: error: no' >&2\nexit 1\n")
    (tmp_path / "gcc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(FieldError, match=r"(?s)gcc -O2.* failed:.*x\.c:1: error: no"):
        scenario._compile(tmp_path)


def test_json_is_collected_and_nothing_else(prepare, context, tmp_path):
    workload = prepare(IPERF3)
    for name in ("iperf3-flow1.json", "iperf3-flow1-server.json", "iperf3-flow2.json", "job.json"):
        (context.work_dir / name).write_text(name)
    raw = tmp_path / "raw"
    raw.mkdir()
    assert traffic.collect(workload, context, raw) == {"greedy": {}}
    assert {path.name: path.read_text() for path in raw.iterdir()} == {
        name: name for name in ("iperf3-flow1.json", "iperf3-flow1-server.json")}


def test_flows_stop_within_a_time_that_follows_from_the_seed(prepare, jobs, context):
    section = {**SOCKETS, "flows": 50, "start_within_us": 1_000_000, "stop_us": 4_000_000}
    workload = prepare({**section, "stop_within_us": 2_000_000})
    stops_us = [flow["stop_us"] for flow in workload["flows"]]
    assert 4_000_000 <= min(stops_us) < 4_300_000 and 5_700_000 < max(stops_us) < 6_000_000
    assert stops_us == [flow["stop_us"] for _, _, job in jobs(workload) for flow in job["send"]]
    starts_us = [flow["start_us"] for flow in workload["flows"]]
    assert abs(np.corrcoef(starts_us, stops_us)[0, 1]) < 0.3            # one says nothing of the other
    # starts are those without it, and another seed gives other stops
    assert starts_us == [flow["start_us"] for flow in prepare(section)["flows"]]
    other = prepare({**section, "stop_within_us": 2_000_000}, dataclasses.replace(context, seed=context.seed + 1))
    assert not {flow["stop_us"] for flow in other["flows"]} & set(stops_us)
