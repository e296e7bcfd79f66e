# SPDX-License-Identifier: GPL-2.0-only
"""Clients that ask and think: sections, distributions, the plans that are replayed."""
import json
import random

import pytest

import traffic
from testbed.core.fields import FieldError
from tests.unit.traffic.traffic_setup import TIMING, variant
from traffic import request_response
from traffic.replay.plan import read_plan
from traffic.workload import draws

ASK = {"kind": "request-response", "response_bytes": 20_000, "think_us": 500_000}


@pytest.mark.parametrize("field, changes, words", [
    ("response", {"response_bytes": None}, "is missing"), ("think", {"think_us": None}, "is missing"),
    ("response", {"response_bytes": 0}, "at least 1 B"), ("clients", {"clients": 0}, "at least 1"),
    ("paths", {"paths": ["n1->n2"]}, "no path"), ("requests", {"requests": 0}, "at least 1"),
    ("stop", {"stop_us": 5_000_000}, "clients go on until the run ends"),
    ("start_within", {"start_within_us": 11_000_000}, "the run ends at 10 s, before all clients have begun"),
    ("think.shape", {"think_us": None, "think": {"mean_us": 1, "shape": 2}}, "only with distribution: pareto or"),
    ("response.distribution", {"response_bytes": None, "response": {"mean_bytes": 1, "distribution": "normal"}},
     "one of"),
    ("response.shape", {"response_bytes": None, "response": {"mean_bytes": 1, "distribution": "pareto", "shape": 1}},
     "at least 1.05 expected"),
    ("request.mean", {"request": {"distribution": "pareto"}}, "is missing"),
    ("think", {"think_us": 0, "response_bytes": 1, "request_bytes": 1, "clients": 5000}, "more than 2000 requests")])
def test_refused_sections(context, network, monkeypatch, field, changes, words):
    monkeypatch.setattr(request_response, "_MOST_REQUESTS", 2000)
    with pytest.raises(FieldError, match=words) as problem:
        traffic.validate([{**ASK, **changes}], network, TIMING)
        traffic.prepare([{**ASK, **changes}], [variant("cubic")], context)
    assert problem.value.field == field


def plan_of(context, workload):
    (node, module), *_ = {(one["node"], one["module"]) for one in workload["programs"] if one["node"] == "n1"}
    assert module == "traffic.replay.program"
    return read_plan(context.work_dir / "request-response-source0.plan")


def test_each_request_waits_for_the_answer_before_and_then_thinks(context):
    workload = traffic.prepare([{**ASK, "requests": 3}], [variant("cubic")], context)
    flow, = workload["flows"]
    assert (flow["sender"], flow["receiver"], flow["connections"], flow["both_ways"]) == ("n1", "n3", 1, True)
    assert workload["components"][0]["closes"] is True and workload["components"][0]["clients"] == 1
    plan = plan_of(context, workload)
    assert list(zip(plan.init_need, plan.init_wait_us, plan.init_bytes)) == [
        (0, 0, 300), (20_000, 500_000, 300), (40_000, 500_000, 300), (60_000, 0, 0)]
    assert list(zip(plan.acc_need, plan.acc_wait_us, plan.acc_bytes)) == [
        (300, 0, 20_000), (600, 0, 20_000), (900, 0, 20_000)]


def test_without_a_number_there_are_requests_for_the_whole_run(context):
    """Of 10 s each takes at least 500 ms to think and 4 ms for the round trip (20 kB at 100 Mbit/s: 1.6 ms)."""
    workload = traffic.prepare([{**ASK, "clients": 3, "start_within_us": 1_000_000}], [variant("cubic")], context)
    assert workload["components"][0]["closes"] is False
    plan = plan_of(context, workload)
    assert len(plan) == 3 and list(plan.start_us) == sorted(plan.start_us) and len(set(plan.start_us)) == 3
    assert set(plan.start_us) <= set(range(1_000_000)) and sorted(plan.conn_id) == [0, 1, 2]
    for start_us, first, last in zip(plan.start_us, plan.acc_first, plan.acc_first[1:]):
        assert (last - first) * 505_600 > 10_000_000 - start_us > (last - first - 3) * 505_600


def test_a_seed_decides_all(context, network, tmp_path):
    section = {**ASK, "response_bytes": None, "response": {"mean_bytes": 9000, "distribution": "exponential"}}

    def sizes(seed, place):
        of = traffic.Context(tmp_path / place, "/run/guest", network, seed, TIMING)
        return list(plan_of(of, traffic.prepare([section], [variant("cubic")], of)).acc_bytes)
    assert sizes(1, "a") == sizes(1, "b") != sizes(2, "c")


@pytest.mark.parametrize("distribution, shape", [("constant", None), ("exponential", None), ("lognormal", None),
                                                 ("lognormal", 0.3), ("pareto", 3.0)])
def test_the_mean_is_that_asked_for(distribution, shape):
    of, draw = draws.Size(mean_bytes=20_000, distribution=distribution, shape=shape), random.Random(1)
    found = [of.one(draw) for _ in range(20_000)]
    assert sum(found) / len(found) == pytest.approx(20_000, rel=0.03) and min(found) >= 1
    assert (len(set(found)) == 1) == (distribution == "constant")


@pytest.mark.parametrize("distribution, shape, message", [("pareto", 1.04, "at least 1.05"),
                                                          ("lognormal", 3.1, "at most 3 expected")])
def test_a_shape_with_which_no_draws_have_the_mean_is_refused(distribution, shape, message):
    with pytest.raises(FieldError, match=message):
        draws.Size(mean_bytes=20_000, distribution=distribution, shape=shape)


def test_components_at_one_host_have_source_ports_of_their_own(context):
    """Their programs know nothing of each other."""
    def ranges(*names):
        traffic.prepare([{**ASK, "name": name} for name in names], [variant("cubic")], context)
        return [json.loads((context.work_dir / f"{name}-n1.json").read_text())["endpoints"][0]["ports"]
                for name in names]
    (_, alone), = ranges("a")
    (first, size), (other, size_of_other) = ranges("b", "c")
    assert first + size <= other and size == size_of_other == alone // 2


def test_nobody_thinks_less_than_no_time():
    assert draws.Time(mean_us=0, distribution="lognormal").one(random.Random(1)) == 0
    assert draws.Time(mean_us=0, distribution="pareto").one(random.Random(1)) == 0


def test_beside_tmix(context):
    """Sources of all components are numbered on."""
    tmix = {"kind": "tmix", "target": ["left_to_right"], "load_percent": 20}
    workload = traffic.prepare([{**ASK, "requests": 2}, tmix], [variant("cubic")], context)
    assert [flow["source"] for flow in workload["flows"]] == [0, 1, 2, 3, 4]
    assert [component.get("target_links") for component in workload["components"]] == [None, ["left_to_right"]]
