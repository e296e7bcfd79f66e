# SPDX-License-Identifier: GPL-2.0-only
"""Components and kinds of traffic: what is read, and what comes of several of them together."""
import dataclasses
import pathlib
import subprocess
import sys

import pytest

import traffic
from testbed import PROJECT_DIR
from testbed.core.fields import FieldError
from tests.unit.traffic.traffic_setup import TIMING, variant
from traffic.workload import assign, components

GREEDY = {"kind": "greedy", "tool": "sockets", "start_within_us": 0}
TMIX = {"kind": "tmix", "target": "right_to_left", "load_percent": 60}
CBR = {"kind": "cbr", "rate_bps": 1_000_000}
RENO, CUBIC, BBR = variant("reno"), variant("cubic"), variant("bbr")


def keys(records, *names):
    return [[record[name] for name in names] for record in records]


def test_kinds_are_found_by_listing():
    assert {"cbr", "flows", "greedy", "nada", "on-off", "poisson", "tmix"} <= set(traffic.names())
    assert not {"clock", "datagrams"} & set(traffic.names())
    for name in traffic.names():
        module = traffic.kind(name)
        assert dataclasses.is_dataclass(module.Section) and module.__doc__
        assert all(callable(getattr(module, function)) for function in ("validate", "flows", "prepare", "collect"))
    for name in ("voip", None, "", ["tmix"]):
        with pytest.raises(FieldError, match="there are: cbr, .*greedy, .*tmix") as problem:
            traffic.kind(name)
        assert problem.value.field == "kind"


@pytest.fixture
def new_kind(tmp_path, monkeypatch):
    """The name of a kind that is one new file, in a folder that has the others, too."""
    folder = tmp_path / "traffic"
    folder.mkdir()
    for path in pathlib.Path(traffic.__file__).parent.iterdir():
        (folder / path.name).symlink_to(path)
    monkeypatch.setattr(components, "_FOLDER", folder)
    monkeypatch.setattr(traffic, "__path__", [str(folder)])
    (folder / "on_demand_test.py").write_text('''
"""Traffic that a test invented."""
import dataclasses
from testbed.core import fields
from traffic.workload import routes
from traffic.workload.components import Flow, Prepared, Program

FIRST_PORT = 9000


@dataclasses.dataclass(frozen=True)
class Section:
    shouts: int = fields.count(least=1)


def validate(section, component, network, timing):
    if section.shouts > 3:
        raise fields.FieldError("shouts", "nobody shouts so often")


def flows(section, component, context):
    route, = routes.find(context.network, ["n3->n2"])
    return [Flow(**dataclasses.asdict(route), start_us=component.start_us, stop_us=component.stop_us)
            for _ in range(section.shouts)]


def prepare(section, component, flows, context):
    return Prepared([Program("n3", "shout", [str(flow.dport), str(flow.sender_cca)]) for flow in flows], {"loud": True})


def collect(component, workload, context, raw_dir):
    return {"heard": len(workload["flows"])}
''')
    yield "on-demand-test"
    sys.modules.pop("traffic.on_demand_test", None)


def test_a_kind_is_one_file(new_kind, context, network, tmp_path):
    component = {"kind": new_kind, "shouts": 2}
    traffic.validate([component], network, TIMING)
    workload = traffic.prepare([component], [RENO, CUBIC], context)
    assert keys(workload["flows"], "sender", "receiver", "dport", "cca", "kind") == [
        ["n3", "n2", 9000, "reno", new_kind], ["n3", "n2", 9001, "cubic", new_kind]]
    assert keys(workload["programs"], "node", "module", "arguments", "component") == [
        ["n3", "shout", ["9000", "None"], new_kind], ["n3", "shout", ["9001", "cubic"], new_kind]]
    assert workload["components"] == [{"name": new_kind, "kind": new_kind, "start_us": 0, "stop_us": 10_000_000,
                                       "variants": ["reno", "cubic"], "loud": True}]
    assert traffic.collect(workload, context, tmp_path) == {new_kind: {"heard": 2}}
    with pytest.raises(FieldError, match="nobody shouts") as problem:
        traffic.validate([{"kind": new_kind, "shouts": 4}], network, TIMING)
    assert problem.value.field == "shouts"


@pytest.mark.parametrize("field, given, words", [
    ("", [], "at least one component"), ("kind", [{}], "no traffic None"),
    ("kind", [{"kind": "voip"}], "no traffic 'voip'"),
    ("name", [{**GREEDY, "name": "../x"}], "such as 'background'"),
    ("greedy.name", [GREEDY, {**GREEDY, "name": "greedy"}], "a second"),
    ("start", [{**GREEDY, "start_us": 10_000_000}], "10 s is not before the end at 10 s"),
    ("b.start", [GREEDY, {**GREEDY, "name": "b", "start_us": 5, "stop_us": 5}], "not before the stop"),
    ("start", [{**GREEDY, "start": 5}], "a value with a unit such as '20 ms'"),
    ("stop", [{**GREEDY, "stop_us": 0}], "at least"),
    ("cca", [{**GREEDY, "cca": "../reno"}], "such as 'cubic'"),
    ("b.rate", [GREEDY, {"kind": "cbr", "name": "b"}], "is missing"),
    ("colour", [{**GREEDY, "colour": "red"}], "fields are: name, kind, start, stop, cca, draws, paths"),
    ("", ["greedy"], "a mapping expected")])
def test_refused_components(network, field, given, words):
    with pytest.raises(FieldError, match=words) as problem:
        traffic.validate(given, network, TIMING)
    assert problem.value.field == (field if field != "greedy.name" else "greedy.name")


def test_flows_of_all_components_are_numbered_and_have_ports_of_their_own(context):
    workload = traffic.prepare([{**GREEDY, "flows": 2}, {**GREEDY, "name": "late", "start_us": 4_000_000}, CBR, TMIX],
                               [CUBIC], context)
    assert keys(workload["flows"][:4], "flow", "component", "transport", "dport", "start_us", "stop_us", "variant") == [
        [1, "greedy", "tcp", 6000, 0, 10_000_000, "cubic"], [2, "greedy", "tcp", 6001, 0, 10_000_000, "cubic"],
        [3, "late", "tcp", 6002, 4_000_000, 10_000_000, "cubic"], [4, "cbr", "udp", 7000, 0, 10_000_000, None]]
    assert keys(workload["flows"][4:], "flow", "dport", "source", "both_ways") == [
        [5 + source, 5000 + source, source, True] for source in range(4)]
    assert [component["name"] for component in workload["components"]] == ["greedy", "late", "cbr", "tmix"]
    assert workload["ccas"] == {"cubic": "cubic"}
    text = (context.work_dir / "workload.json").read_text()
    assert '"programs"' in text and text.endswith("}\n")


def test_sources_are_numbered_on(context):
    workload = traffic.prepare([TMIX, {**TMIX, "name": "more", "load_percent": 20}], [CUBIC], context)
    assert keys(workload["flows"], "source", "dport") == [[source, 5000 + source] for source in range(8)]


def test_draws_of_a_component_are_its_own(context, network, tmp_path):
    random = {**GREEDY, "flows": 5, "start_within_us": 5_000_000}

    def starts(given, seed=3):
        made = traffic.prepare(given, [CUBIC], traffic.Context(tmp_path / "x", "/x", network, seed, TIMING))
        return [flow["start_us"] for flow in made["flows"] if flow["component"] == given[0].get("name", "greedy")]
    for one in (random, {**random, "name": "a"}):
        alone = starts([one])
        assert alone == starts([one, {**random, "name": "b"}, {**random, "name": "c"}]) and alone != starts([one],
                                                                                                            seed=4)
    assert starts([random]) != starts([{**random, "name": "a"}]) != starts([{**random, "name": "b"}])
    # a component that is called as its kind draws as a scenario with nothing else always has
    assert components.component_seed(3, "greedy", "greedy") == 3 != components.component_seed(3, "a", "greedy")


def test_variants_take_turns_in_a_component(context):
    workload = traffic.prepare([{**GREEDY, "flows": 3}, {**GREEDY, "name": "b", "flows": 3}, CBR], [RENO, CUBIC],
                               context)
    assert [flow["cca"] for flow in workload["flows"]] == ["reno", "cubic", "reno"] * 2 + [None]


def test_a_component_may_say_which(context):
    old = variant("newreno", "reno", under_test=False)
    workload = traffic.prepare([{**GREEDY, "flows": 2}, {**GREEDY, "name": "b", "cca": "newreno", "flows": 2},
                                {**GREEDY, "name": "c", "cca": ["cubic", "newreno"], "flows": 3}],
                               [CUBIC, old], context)
    assert keys(workload["flows"], "component", "variant", "cca") == [
        ["greedy", "cubic", "cubic"]] * 2 + [["b", "newreno", "reno"]] * 2 + [
        ["c", "cubic", "cubic"], ["c", "newreno", "reno"], ["c", "cubic", "cubic"]]
    assert traffic.component_ccas([{**GREEDY, "cca": ["a"]}, TMIX, {**CBR, "cca": ["b", "a"]}, {
        "kind": "flows", "flows": [{}, {"cca": "c"}, {"cca": "a"}]}]) == ["a", "b", "c"]
    with pytest.raises(FieldError, match="vegas is not one of this run's variants: cubic, newreno") as problem:
        traffic.prepare([{**GREEDY, "cca": "vegas"}], [CUBIC, old], context)
    assert problem.value.field == "cca"


def test_programs_choose_only_what_their_host_does_not_have(context, jobs):
    workload = traffic.prepare([{**GREEDY, "flows": 2}, {**GREEDY, "name": "b", "paths": ["n4->n2"], "cca": "cubic"}],
                               [RENO, CUBIC], context)
    found = {(flow["flow"], end): flow["cca"] for _, _, job in jobs(workload) for end in ("send", "receive")
             for flow in job[end]}
    # where there are two both choose: what a default leaves behind would stay
    assert found == {(1, "send"): None, (1, "receive"): None, (2, "send"): "cubic", (2, "receive"): "cubic",
                     (3, "send"): None, (3, "receive"): None}
    workload = traffic.prepare([{**GREEDY, "flows": 2}], [CUBIC, BBR], context)
    found = {(flow["flow"], end): flow["cca"] for _, _, job in jobs(workload) for end in ("send", "receive")
             for flow in job[end]}
    assert found == {(1, "send"): "cubic", (1, "receive"): "cubic", (2, "send"): "bbr", (2, "receive"): "bbr"}
    workload = traffic.prepare([{**GREEDY, "flows": 2}, {**GREEDY, "name": "b", "paths": ["n4->n2"], "cca": "cubic"}],
                               [RENO, CUBIC], context)
    chosen = assign.host_variants(["n1", "n2", "n3", "n4", "r1"], workload["flows"], [RENO, CUBIC])
    assert {node: [v["name"] for v in used] for node, used in chosen.items()} == {
        "n1": ["reno", "cubic"], "n3": ["reno", "cubic"], "n2": ["cubic"], "n4": ["cubic"], "r1": ["reno"]}


PROGRAM = {"kind": "program", "path": "n3->n1", "sender": {"command": ["true"]}}
UNAIDED = {**GREEDY, "paths": ["n3->n1"], "tool": "iperf3", "preload": False}


@pytest.mark.parametrize("plain", [PROGRAM, UNAIDED])
def test_what_cannot_choose_has_its_hosts_default(context, plain):
    workload = traffic.prepare([{**plain, "name": "plain", "cca": "bbr"},
                                {**GREEDY, "name": "b", "cca": ["cubic", "reno"], "flows": 2}],
                               [RENO, CUBIC, BBR], context)
    assert assign.host_defaults(["n1", "n3", "n2"], workload["flows"], [RENO, CUBIC, BBR]) == {
        "n1": "bbr", "n3": "bbr", "n2": "reno"}
    with pytest.raises(FieldError, match=r"plain \(bbr\) and other \(cubic\) have the default of their host n[13]"):
        traffic.prepare([{**plain, "name": "plain", "cca": "bbr"}, {**plain, "name": "other", "cca": "cubic"}],
                        [RENO, CUBIC, BBR], context)


def test_initiators_leave_ports_to_others(context, jobs):
    iperf3 = {**GREEDY, "name": "b", "paths": ["n1->n3"], "tool": "iperf3", "preload": False}
    for given, first, count in (([TMIX], 1024, 60000), ([TMIX, {**GREEDY, "flows": 2}, iperf3], 30001, 31023)):
        for _, _, job in jobs(traffic.prepare(given, [CUBIC], context)):
            for end in job.get("endpoints", ()):
                if end["role"] == "initiator" and end["local"] == "10.0.2.1":
                    assert end["ports"] == [first, count]
    with pytest.raises(FieldError, match="more flows than ports"):
        traffic.prepare([{**GREEDY, "name": f"g{i}", "flows": 9999} for i in range(7)], [CUBIC], context)


def test_programs_import_no_more_than_they_need():
    """What makes traffic is not what sends it: importing costs time in a guest."""
    script = ("import sys, traffic.replay.program, traffic.greedy.flows\n"
              "print([m for m in ('numpy', 'dataclasses', 'traffic.workload.components') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-S", "-c", script], cwd=PROJECT_DIR, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
    with pytest.raises(AttributeError):
        traffic.nonesuch


@pytest.mark.parametrize("component", [
    {"kind": "tmix", "target": "right_to_left", "load": "60 %"},
    {"kind": "tmix-alone", "of": {"target": "right_to_left", "load": "60 %"}, "test": "5 s"},
    {"kind": "request-response", "response": "20 kB", "think": {"mean": "1 s"}}, {"kind": "greedy", "cca": "reno"},
    {"kind": "cbr", "rate": "5 Mbit/s", "packet": "1000 B", "start": "1 s"}])
def test_what_a_component_says_can_be_read_again(component, network):
    said = traffic.as_given(component)
    assert traffic.as_given(said) == said and len(said) == len(component)
    traffic.validate([said], network, TIMING)
