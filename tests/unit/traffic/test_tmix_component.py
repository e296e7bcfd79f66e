# SPDX-License-Identifier: GPL-2.0-only
"""Tmix components: what a section may say, and the jobs and plans that come of it."""
import hashlib

import pytest

import topologies
import traffic
from testbed.core import fields
from testbed.core.fields import FieldError
from tests.unit.traffic.traffic_setup import CENTRAL, EDGE, TIMING, variant
from topologies.links.records import Network
from traffic.replay.plan import read_plan
from traffic.tmix.scenario import Section, _rules

TMIX = {"kind": "tmix", "target": "right_to_left", "load_percent": 60}
RENO, CUBIC = variant("reno"), variant("cubic")


@pytest.mark.parametrize("changes, factor", [
    ({}, "search"), ({"scale": "search"}, "search"), ({"scale": 1.5}, 1.5), ({"scale": 2}, 2.0),
    ({"load_percent": 200}, "search"), ({"scale": "mean"}, "mean"), ({"balance": "thirds"}, "search"),
    ({"balance": False}, "search"),         # what YAML makes of off
    ({"scale": "unc", "unc_scale": 5.276}, 5.276), ({"target": ["left_to_right", "right_to_left"]}, "search"),
    ({"paths": ["n2->n4"]}, "search"), ({"synth": {"mean_acceptor_bytes": 18000}}, "search"),
    ({"synth": {"preset": "unc-like"}}, "search"), ({"weights": [3, 0.5, 1, 1]}, "search"),
    ({"weights": {"n2 -> n4": 3}}, "search"),
    ({"reverse_load_percent": 15}, "search"), ({"mix": "connections"}, "search")])
def test_sections(network, changes, factor):
    traffic.validate([{**TMIX, **changes}], network, TIMING)
    assert fields.decode(Section, {k: v for k, v in {**TMIX, **changes}.items() if k != "kind"}).factor == factor


@pytest.mark.parametrize("changes, rules", [
    ({}, ("l2", "uncongested", None, None)),
    ({"prefill_rule": "suite", "overhead": "ip"}, ("ip", "suite", None, None)),
    ({"prefill_window": "published", "unc_prefill_window_us": 5}, ("l2", "uncongested", 5, None)),
    ({"unc_prefill_window_us": 5}, ("l2", "uncongested", None, None)),
    ({"scale": "unc", "unc_scale": 5.276, "unc_prefill_window_us": 5}, ("suite", "suite", 5, 500)),
    ({"scale": "unc", "unc_scale": 5.276}, ("suite", "suite", None, 500)),
    ({"scale": "unc", "unc_scale": 5.276, "unc_prefill_window_us": 5, "prefill_window": "computed", "overhead": "l2"},
     ("l2", "suite", None, 500))])
def test_rules_of_the_suite(changes, rules):
    section = fields.decode(Section, {k: v for k, v in {**TMIX, **changes}.items() if k != "kind"})
    assert tuple(_rules(section).values()) == rules


NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize("field, changes, words", [
    ("target", {"target": "n1_to_r1"}, "one of left_to_right, right_to_left expected"),
    ("target", {"target": []}, "at least 1"),
    ("load", {"load_percent": 0}, "above 0 %"), ("load", {"load_percent": 201}, "at most 200 %"),
    ("load", {"load_percent": NAN}, "finite"), ("load", {"load": 60}, "a value with a unit such as '60 %'"),
    ("load", {"load_percent": None}, "is missing"), ("scale", {"scale": "unc"}, "unc needs unc_scale"),
    ("scale", {"scale": 0}, "above 0"), ("scale", {"scale": -1}, "above 0"),
    ("prefill_rule", {"prefill_rule": "ours"}, "one of uncongested, suite"),
    ("prefill_window", {"prefill_window": "published"}, "published needs unc_prefill_window"),
    ("prefill_window", {"prefill_window": 5}, "one of computed, published"),
    ("unc_prefill_window", {"unc_prefill_window_us": 0}, "at least"),
    ("unc_prefill_window", {"unc_prefill_window": 19.445}, "a value with a unit"),
    ("overhead", {"overhead": "l3"}, "one of ip, l2, wire, suite"),
    ("balance", {"balance": True}, "one of off, thirds"), ("balance", {"balance": "on"}, "one of off, thirds"),
    ("scale", {"scale": True}, "one of search, mean, unc"),
    ("scale", {"scale": "fast"}, "one of search, mean, unc"), ("scale", {"scale": INFINITE}, "finite"),
    ("scale", {"scale": NAN}, "finite"), ("flows", {"flows": 1}, "unknown field"),
    ("paths", {"paths": ["n1->n2"]}, "no path n1->n2"),
    ("paths", {"paths": [0]}, "such as 'n1->n4'"), ("mix", {"mix": "flows"}, "one of sources, connections"),
    ("traces", {"traces": "/nonexistent"}, "No such file"), ("synth", {"synth": 5}, "a mapping expected"),
    ("synth.connections_per_second", {"synth": {"connections_per_second": 0}}, "at least"),
    ("synth.connections_per_second", {"synth": {"connections_per_second": NAN}}, "finite"),
    ("synth.connections_per_second", {"synth": {"connections_per_second": 5}}, "follows from the load"),
    ("synth.exchanges_per_connection", {"synth": {"exchanges_per_connection": 0.5}}, "at least 1"),
    ("synth.upload_alpha", {"synth": {"upload_alpha": 1}}, "anything but 1"),
    ("synth.think_min_s", {"synth": {"think_min_s": 70}}, "must be below think_max_s: 70 is not below 60"),
    ("synth.download_min", {"synth": {"download_min_bytes": 10**8}}, "must be below download_max"),
    ("synth.mean_acceptor", {"synth": {"mean_acceptor_bytes": 1}}, "cannot be mixed"),
    ("synth.quick_share", {"synth": {"quick_share": 1.5}}, "at most 1"),
    ("synth.colour", {"synth": {"colour": 1}}, "unknown field"),
    ("synth.small_mss", {"synth": {"small_mss": 40}}, "at least 88"),
    ("synth.preset", {"synth": {"preset": "unc"}}, "one of web, unc-like expected, not 'unc'"),
    ("synth.preset", {"synth": {"preset": ["web"]}}, "one of web, unc-like"),
    ("weights", {"weights": [1, 0]}, "above 0"), ("weights", {"weights": [1, NAN]}, "finite"),
    ("weights", {"weights": [1]}, "1 weights for 4 sources"), ("weights", {"weights": 2}, "a list expected"),
    ("weights", {"weights": ["1", "2"]}, "a number expected"), ("weights", {"weights": []}, "at least 1"),
    ("weights", {"weights": {"n1->n9": 2}}, "no source sends on n1->n9; there are: n1->n3, n1->n4"),
    ("weights.n1->n3", {"weights": {"n1->n3": -1}}, "above 0"),
    ("weights.n1", {"weights": {"n1": 1}}, "names such as 'n1->n4' expected"),
    ("reverse_load", {"reverse_load_percent": 0}, "above 0 %"), ("reverse_load", {"reverse_load": 1}, "with a unit"),
    ("reverse_load", {"reverse_load_percent": 201}, "at most 200 %"),
    ("reverse_load", {"reverse_load_percent": NAN}, "finite"),
    ("reverse_load", {"reverse_load_percent": 9, "target": ["left_to_right", "right_to_left"]}, "both directions"),
    ("reverse_load", {"reverse_load_percent": 9, "traces": "/tmp"}, "is for synthesised sources"),
    ("weights", {"weights": [1, 1, 1, 1], "traces": "/tmp"}, "is for synthesised sources"),
    ("most_connections", {"most_connections": 0}, "at least 1")])
def test_refused_sections(network, field, changes, words):
    with pytest.raises(FieldError, match=words) as problem:
        traffic.validate([{**TMIX, **changes}], network, TIMING)
    assert problem.value.field == field


def test_a_replay_per_host_with_both_ends_of_every_path(context, jobs):
    workload = traffic.prepare([TMIX], [CUBIC], context)
    found = jobs(workload)
    assert [(node, module) for node, module, _ in found] == [
        (n, "traffic.replay.program") for n in ("n3", "n4", "n1", "n2")]
    ends = {(end["source"], end["role"]): (node, end) for node, _, job in found for end in job["endpoints"]}
    for number, path in enumerate(context.network["paths"]):
        for role, other in (("initiator", "acceptor"), ("acceptor", "initiator")):
            node, end = ends.pop((number, role))
            assert node == path[role] and (end["local"], end["peer"]) == (path[f"{role}_address"],
                                                                          path[f"{other}_address"])
            assert end["port"] == 5000 + number and end["plan"] == f"/run/guest/tmix-source{number}.plan"
            assert end["ports"] == [1024, 60000] and end["cca"] is None
    assert not ends and all(job["duration_us"] == 10_000_000 for _, _, job in found)
    component, = workload["components"]
    assert component["target_links"] == ["right_to_left"] and component["measured_us"] == [3_000_000, 10_000_000]
    assert component["offered_bps"]["right_to_left"] == pytest.approx(6e7,
                                                                      rel=0.05) and component["prefill_us"] == 1_000_000
    assert sum(flow["connections"] for flow in workload["flows"]) == component["connections"] > 50


def plans(context, name="tmix"):
    return {path.name: read_plan(path) for path in sorted(context.work_dir.glob(f"{name}-source*.plan"))}


def test_sources_take_turns(context, jobs):
    workload = traffic.prepare([TMIX], [RENO, CUBIC], context)
    assert [(flow["source"], flow["cca"]) for flow in workload["flows"]] == [(0, "reno"), (1, "cubic"), (2, "reno"),
                                                                             (3, "cubic")]
    # n1 initiates sources 0 and 1, n3 accepts 0 and 2
    chosen = {(end["source"], end["role"]): end["cca"] for _, _, job in jobs(workload) for end in job["endpoints"]}
    assert chosen == {(0, "initiator"): None, (0, "acceptor"): None, (1, "initiator"): "cubic", (1, "acceptor"): None,
                      (2, "initiator"): None, (2, "acceptor"): None, (3, "initiator"): "cubic", (3, "acceptor"): None}


def test_connections_are_dealt_out(context, jobs, network, tmp_path):
    workload = traffic.prepare([{**TMIX, "mix": "connections"}], [RENO, CUBIC], context)
    assert [(flow["source"], flow["cca"], flow["dport"]) for flow in workload["flows"]] == [
        (number // 2, ("reno", "cubic")[number % 2], 5000 + number) for number in range(8)]
    dealt = plans(context)
    assert list(dealt) == [f"tmix-source{source}.share{share}.plan" for source in range(4) for share in range(2)]
    assert [flow["connections"] for flow in workload["flows"]] == [len(plan) for plan in dealt.values()]
    chosen = [(end["port"], end["cca"]) for _, _, job in jobs(workload) for end in job["endpoints"]]
    assert sorted(chosen) == sorted(2 * [(5000 + n, (None, "cubic")[n % 2]) for n in range(8)])
    other = traffic.Context(tmp_path / "other", "/x", network, 3, TIMING)
    traffic.prepare([TMIX], [RENO, CUBIC], other)
    whole = plans(other)
    for source in range(4):
        both = [row for share in range(2) for plan in [dealt[f"tmix-source{source}.share{share}.plan"]]
                for row in zip(plan.start_us, plan.conn_id)]
        one = whole[f"tmix-source{source}.plan"]
        assert sorted(both) == list(zip(one.start_us, one.conn_id))


def test_which_congestion_control_decides_nothing_of_the_plans(context, network, tmp_path):
    bytes_of = []
    for number, variants in enumerate(([RENO], [CUBIC], [RENO, CUBIC])):
        said = []
        folder = tmp_path / f"run{number}"
        traffic.prepare([TMIX], variants, traffic.Context(folder, "/x", network, 3, TIMING, said.append,
                                                          tmp_path / "shared"))
        bytes_of.append([path.read_bytes() for path in sorted(folder.glob("*.plan"))])
        assert bool(said) == (number == 0)          # made once, by the first
    assert bytes_of[0] == bytes_of[1] == bytes_of[2] and len(bytes_of[0]) == 4


def test_a_component_that_begins_later_and_stops(context):
    workload = traffic.prepare([{**TMIX, "start_us": 4_000_000, "stop_us": 8_000_000}], [CUBIC], context)
    component, = workload["components"]
    assert component["measured_us"] == [4_000_000, 8_000_000] and component["prefill_us"] == 0
    for plan in plans(context).values():
        assert 4_000_000 <= plan.start_us[0] and plan.start_us[-1] < 8_000_000
    # one that has stopped before anything is measured has its load from its beginning
    workload = traffic.prepare([{**TMIX, "name": "early", "stop_us": 2_500_000}], [CUBIC], context)
    assert workload["components"][0]["measured_us"] == [0, 2_500_000]


def test_a_trace_per_source_found_by_name(context, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "traces").mkdir()
    connection = "SEQ 1 1 1 1\n> 9\n"
    for number in range(3):
        (tmp_path / "traces" / f"t{number}.cvec").write_text(connection)
    section = {**TMIX, "traces": "~/traces"}
    with pytest.raises(FieldError, match="~/traces has 3 vector files; this network takes 4") as problem:
        traffic.validate([section], context.network, TIMING)
    assert problem.value.field == "traces"
    (tmp_path / "traces" / "t3.cvec").write_text("SEQ 1 2\n")
    (tmp_path / "traces" / "README.md").write_text("not a trace")
    path = str(tmp_path / "traces")
    assert traffic.inputs([section, {"kind": "greedy"}]) == {
        f"{path}/t{n}.cvec": hashlib.sha256((connection if n < 3 else "SEQ 1 2\n").encode()).hexdigest()
        for n in range(4)}
    assert traffic.inputs([TMIX]) == {}
    for content, message in (("SEQ 1 2\n", r"t3\.cvec:1: "), ("", r"t3\.cvec: no connections"),
                             (connection * 500 + "\x1b\n", r"t3\.cvec:1001: binary data in a SEQ connection")):
        (tmp_path / "traces" / "t3.cvec").write_text(content)
        with pytest.raises(FieldError, match=message) as problem:
            traffic.validate([section], context.network, TIMING)
        assert problem.value.field == "traces"


def test_files_called_after_paths_go_there_and_are_recorded(context, tmp_path):
    folder = tmp_path / "traces"
    folder.mkdir()
    for acceptor in (3, 4):
        for initiator in (1, 2):        # each source has responses of its own size
            size = 1000 * acceptor + 100 * initiator
            (folder / f"r{acceptor}s{initiator}.cvec").write_text(
                "".join(f"SEQ {start} 1 1 {start}\n> 100\nt 1\n< {size}\n" for start in range(0, 10_000_000, 10_000)))
    section = {**TMIX, "traces": str(folder), "scale": 1.0, "load_percent": 1}
    workload = traffic.prepare([section], [CUBIC], context)
    assert workload["components"][0]["traces"] == {"n1->n3": "r3s1.cvec", "n1->n4": "r4s1.cvec",
                                                   "n2->n3": "r3s2.cvec", "n2->n4": "r4s2.cvec"}
    for flow, plan in zip(workload["flows"], plans(context).values()):
        size = 1000 * int(flow["receiver"][1:]) + 100 * int(flow["sender"][1:])
        assert set(plan.acc_bytes) - {0} == {size}
    (folder / "r4s2.cvec").rename(folder / "r4s3.cvec")
    with pytest.raises(FieldError, match="r4s3.cvec is called after a path that this traffic does not have") as problem:
        traffic.validate([section], context.network, TIMING)
    assert problem.value.field == "traces" and str(folder) in str(problem.value)
    (folder / "r4s3.cvec").unlink()
    with pytest.raises(FieldError, match="has 3 vector files; this network takes 4"):
        traffic.validate([section], context.network, TIMING)
    assert "traces" not in traffic.prepare([TMIX], [CUBIC], context)["components"][0]


def test_targets_on_any_topology(tmp_path):
    network = Network(topologies.resolve({"kind": "parking-lot", **PARKING_LOT}))
    targets = [link["name"] for link in network["links"] if link["bottleneck"] and link["direction"] == "right_to_left"]
    made = traffic.prepare([{**TMIX, "target": targets}], [CUBIC], traffic.Context(tmp_path, "/x", network, 1, TIMING))
    component, = made["components"]
    offered = [component["offered_bps"][name] for name in targets]
    assert len(targets) > 1 and sum(offered) == pytest.approx(6e7 * len(targets), rel=0.05)
    one = traffic.prepare([{**TMIX, "target": targets[0]}], [CUBIC],
                          traffic.Context(tmp_path, "/x", network, 1, TIMING))
    assert one["components"][0]["offered_bps"][targets[0]] == pytest.approx(6e7, rel=0.05)
    assert len(one["flows"]) < len(made["flows"])       # sources on paths that do not cross it are left out


def test_a_load_on_each_target(tmp_path):
    network = Network(topologies.resolve({"kind": "parking-lot", **PARKING_LOT}))
    each = {**TMIX, "target": ["r2_to_r1", "r3_to_r2"], "load_on": "each"}
    made, = traffic.prepare([each], [CUBIC], traffic.Context(tmp_path, "/x", network, 1, TIMING))["components"]
    assert made["load_on"] == "each"
    assert [made["offered_bps"][name] for name in each["target"]] == pytest.approx([6e7, 6e7], rel=0.05)
    for changes, field, message in (
            ({"paths": ["n1->n6", "n2->n3"]}, "load_on",
             "each needs a source that crosses r3_to_r2 and no other target"),
            ({"reverse_load_percent": 20.0}, "reverse_load", "not together with load_on: each"),
            ({"load_on": "all"}, "load_on", "sum, each"),
            ({"load_of_all_percent": 50.0}, "load_of_all",
             "50 % of all is less than this component's own load of 60 %")):
        with pytest.raises(FieldError, match=message) as problem:
            traffic.validate([{**each, **changes}], network, TIMING)
        assert problem.value.field == field


def test_a_load_on_each_of_one_target_is_the_load_on_it(tmp_path):
    network = Network(topologies.resolve({"kind": "parking-lot", **PARKING_LOT}))

    def offered(**more):
        section = {**TMIX, "target": "r2_to_r1", **more}
        made, = traffic.prepare([section], [CUBIC], traffic.Context(tmp_path, "/x", network, 1, TIMING))["components"]
        return made["offered_bps"]["r2_to_r1"]
    assert [offered(), offered(load_on="each")] == pytest.approx([6e7, 6e7], rel=0.05)


def test_two_components_with_the_same_draws_replay_the_same_connections(context, network):
    def made(*components):
        traffic.prepare([{**TMIX, "load_percent": 25.0, **one} for one in components], [CUBIC], context)
        return [(context.work_dir / f"{one['name']}-source1.plan").read_bytes() for one in components]

    a, b = made({"name": "a"}, {"name": "b", "draws": "a"})
    assert a == b
    # a component's name decides its draws: alone, without another, whatever the other is
    assert [a] == made({"name": "a"}) and a != made({"name": "a"}, {"name": "b"})[1]
    # ... and those of a component that is called as its kind are the run's, also for the other
    own, other = made({"name": "tmix"}, {"name": "b", "draws": "tmix"})
    assert own == other != a


@pytest.mark.parametrize("others, message", [
    ([], "there are: none"), ([{"kind": "greedy", "name": "a"}], "there are: none"),
    ([{**TMIX, "name": "c"}], "another tmix component with draws of its own expected, not a; there are: c"),
    ([{**TMIX, "name": "a", "draws": "c"}, {**TMIX, "name": "c"}], "not a; there are: c"),
    ([{**TMIX, "name": "a", "draws": "b"}], "there are: none")],
    ids=["none", "another kind", "not there", "a chain", "a circle"])
def test_draws_are_those_of_a_component_that_has_some(network, others, message):
    with pytest.raises(FieldError, match=message) as problem:
        traffic.validate([*others, {**TMIX, "name": "b", "draws": "a"}], network, TIMING)
    # of a circle, the first
    named = "a" if [one.get("draws") for one in others] == ["b"] else "b"
    assert problem.value.field == (f"{named}.draws" if others else "draws")


PARKING_LOT = {"links": [CENTRAL, CENTRAL], "access": EDGE, "hosts": [{"router": n} for n in (1, 1, 2, 2, 3, 3)],
               "paths": ["n1-n6", "n2-n3", "n4-n5"]}
