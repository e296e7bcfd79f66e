# SPDX-License-Identifier: GPL-2.0-only
"""QUIC programs as the congestion control under test: which of a scenario's flows they take, and what they refuse."""
import pytest

from testbed.core.errors import ScenarioError, UsageError
from testbed.scenario import ccas, quic_flows, scenario
from tests.unit.core.simple_plans import SMALL
from traffic.workload import assign


def traffic_of(subject, name="coexistence", **more):
    """The traffic of a run of a scenario."""
    loaded = scenario.load(name, **more)
    return quic_flows.resolved(loaded, loaded.resolved(), ccas.parse(subject)[0]).traffic


@pytest.mark.parametrize("text, said", [
    ("quic", "quic:STACK:CONTROL expected, such as quic:quinn:cubic"), ("quic:", "quic:STACK:CONTROL expected"),
    ("quic:quinn", "quic:STACK:CONTROL expected"), ("quic:quinn:", "quic:STACK:CONTROL expected"),
    ("quic:quin:cubic", "no QUIC stack 'quin'; did you mean quinn"), ("quic:quinn:cubix", "did you mean cubic?"),
    ("quic:quinn:vegas", "quinn has no vegas; it has reno, cubic, bbr")])
def test_what_no_stack_has_is_said_in_a_line(text, said):
    with pytest.raises(UsageError) as problem:
        ccas.parse(text)
    assert said in str(problem.value) and "\n" not in str(problem.value)


def test_its_hosts_have_the_neutral_congestion_control_and_records_say_the_stack():
    variant = ccas.find("quic:quinn:cubic")
    assert (variant.name, variant.kernel_cca) == ("quic-quinn-cubic", assign.NEUTRAL_CCA)
    assert variant.record().quic == "quinn:cubic" and "quic" not in ccas.find("reno").record().content()
    assert ccas.find("mine=quic:quinn:cubic").name == "mine"


def test_all_greedy_flows_are_of_the_stack():
    flows, = traffic_of("quic:quinn:cubic")
    assert flows == {"name": "quic", "kind": "quic", "start_us": 0, "stop_us": 240_000_000,
                     "start_within_us": 2_000_000, "stack": "quinn:cubic", "paths": ["n3->n1", "n4->n2"],
                     "cca": ["quic-quinn-cubic"]}


@pytest.mark.parametrize("subject, kinds", [
    ("quic:quinn:cubic+reno", ["quic", "greedy"]), ("reno+quic:quinn:cubic", ["greedy", "quic"])])
def test_flows_take_turns_with_those_of_the_kernel(subject, kinds):
    flows = traffic_of(subject)
    assert [one["kind"] for one in flows] == kinds
    assert [one["paths"] for one in flows] == [["n3->n1"], ["n4->n2"]]
    assert [one["cca"] for one in flows] == [[variant.name] for variant in ccas.parse(subject)[0].variants]
    assert len({one["name"] for one in flows}) == 2


def test_several_flows_on_a_path_stay_several():
    flows, = traffic_of("quic:quinn:cubic", settings=["traffic.flows=2"])
    assert flows["paths"] == ["n3->n1", "n3->n1", "n4->n2", "n4->n2"]


def test_flows_without_paths_have_the_first(tmp_path):
    (tmp_path / "small.yaml").write_text(SMALL)
    flows, = traffic_of("quic:quinn:cubic", str(tmp_path / "small.yaml"))
    assert "paths" not in flows and flows["kind"] == "quic"


def test_traffic_that_is_not_under_test_stays():
    long, media = traffic_of("quic:quinn:cubic", "beside-media")
    assert (long["kind"], long["name"], media["kind"]) == ("quic", "long", "cbr")
    loaded = scenario.load("beside-media")
    assert media == loaded.traffic[1]


def test_other_congestion_controls_change_nothing():
    loaded = scenario.load("coexistence")
    as_given = loaded.resolved()
    assert quic_flows.resolved(loaded, as_given, ccas.parse("reno+cubic")[0]) is as_given


@pytest.mark.parametrize("name, settings, said", [
    ("access-link", [], "this is tmix, and a QUIC program sends greedy flows only"),
    ("coexistence", ["traffic.window=20"], "window: quic:quinn:cubic: QUIC flows have no such field"),
    ("coexistence", ["traffic.cca=reno"], "it has no flows of a congestion control under test"),
    ("coexistence", ["traffic.flows=51"], "at most 100 expected")])
def test_what_it_cannot_send_is_refused_with_its_field(name, settings, said):
    with pytest.raises(ScenarioError) as problem:
        traffic_of("quic:quinn:cubic", name, settings=settings)
    assert said in str(problem.value) and "\n" not in str(problem.value)
    loaded = scenario.load(name, settings=settings)
    assert quic_flows.refusal(loaded, ccas.parse("quic:quinn:cubic")[0])
