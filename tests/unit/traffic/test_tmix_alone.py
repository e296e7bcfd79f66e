# SPDX-License-Identifier: GPL-2.0-only
"""Connections of a Tmix component one after the other: which, when, and that they are the same."""
import numpy as np
import pytest

import traffic
from testbed.core import fields
from testbed.core.fields import FieldError
from testbed.core.timing import Timing
from tests.unit.traffic.traffic_setup import TIMING, variant
from traffic.replay.plan import read_plan
from traffic.tmix.selected import PAUSE_US, longest_us

OF = {"target": "right_to_left", "load_percent": 60}
PARTS = fields.encode(TIMING)
ALONE = {"kind": "tmix-alone", "of": OF, **PARTS, "most": 40}
LONG = Timing(test_us=3_000_000_000)
RENO = variant("reno")


def connections(context, name):
    """{(source, number): (start, mss, ops of both sides)} of a component's plans."""
    found = {}
    for source in range(4):
        plan = read_plan(context.work_dir / f"{name}-source{source}.plan")
        for row, number in enumerate(plan.conn_id):
            ops = tuple(tuple(getattr(plan, f"{side}_{column}")[
                getattr(plan, f"{side}_first")[row]:getattr(plan, f"{side}_first")[row + 1]].tolist())
                for side in ("init", "acc") for column in ("need", "wait_us", "bytes"))
            found[source, number] = plan.start_us[row], plan.mss_init[row], plan.mss_acc[row], ops
    return found


@pytest.fixture
def both(context, network, tmp_path):
    """(connections of a run, connections alone, workload of these)"""
    traffic.prepare([{"kind": "tmix", **OF}], [RENO], context)
    idle = traffic.Context(tmp_path / "alone", "/run/guest", network, 3, LONG)
    workload = traffic.prepare([ALONE], [RENO], idle)
    return connections(context, "tmix"), connections(idle, "tmix-alone"), workload


def test_they_are_connections_of_the_test_and_the_same_ones(both):
    run, alone, workload = both
    assert len(alone) == 40 == sum(flow["connections"] for flow in workload["flows"])
    for key, (_, *rest) in alone.items():
        start_us, *same = run[key]
        assert rest == same and TIMING.measure_from_us <= start_us < TIMING.duration_us
    component, = workload["components"]
    assert component["alone"]["drawn"] == 40 < component["alone"]["of"] < len(run)
    assert "offered_bps" not in component and component["target_links"] == ["right_to_left"]


def test_each_starts_when_the_one_before_is_over(both):
    _, alone, workload = both
    starts = sorted((start_us, source, ops) for (source, _), (start_us, _, _, ops) in alone.items())
    rtts_us = {flow["source"]: flow["base_rtt_us"] for flow in workload["flows"]}
    for (start_us, source, ops), (following_us, _, _) in zip(starts, starts[1:]):
        waits_us, size = sum(ops[1]) + sum(ops[4]), sum(ops[2]) + sum(ops[5])
        assert following_us - start_us > PAUSE_US + 1.5 * (3 * rtts_us[source] + waits_us + size * 8e6 / 1e8)


def test_the_seed_decides_which(both, network, tmp_path):
    _, alone, _ = both
    again, other = (traffic.Context(tmp_path / f"again{seed}", "/x", network, seed, LONG) for seed in (3, 4))
    for context in (again, other):
        traffic.prepare([ALONE], [variant("cubic")], context)
    assert connections(again, "tmix-alone") == alone
    assert connections(other, "tmix-alone").keys() != alone.keys()


def test_as_many_as_there_is_time_for(network, tmp_path):
    short = Timing(test_us=30_000_000)
    context = traffic.Context(tmp_path / "alone", "/x", network, 3, short)
    workload = traffic.prepare([ALONE], [RENO], context)
    component, = workload["components"]
    assert 1 <= component["alone"]["drawn"] < 12
    assert max(start for start, *_ in connections(context, "tmix-alone").values()) < 30_000_000


def test_a_component_with_a_name_and_times_of_its_own(context, network, tmp_path):
    given = {"name": "background", "kind": "tmix", "start_us": 2_000_000, "stop_us": 8_000_000, **OF}
    traffic.prepare([given], [RENO], context)
    idle = traffic.Context(tmp_path / "alone", "/x", network, 3, LONG)
    traffic.prepare([{**ALONE, "called": "background", "begins_us": 2_000_000, "stops_us": 8_000_000}], [RENO], idle)
    run, alone = connections(context, "background"), connections(idle, "tmix-alone")
    assert len(alone) == 40 and all(run[key][1:] == one[1:] for key, one in alone.items())
    assert all(3_000_000 <= run[key][0] < 8_000_000 for key in alone)


def test_bound_by_hand(tmp_path, both, context):
    """One op of 28,960 bytes after 10 ms on 100 Mbit/s with 20 ms: 60 ms of handshake and end, 10 ms, 2 + 4 rounds of
    20 ms, 1.1 * 2.3168 ms of sending, 40 ms of delayed acknowledgments."""
    plan = read_plan(context.work_dir / "tmix-source0.plan")
    from array import array
    for name, values in (("start_us", [0]), ("conn_id", [0]), ("init_first", [0, 1]), ("acc_first", [0, 0]),
                         ("init_wait_us", [10_000]), ("init_bytes", [28_960]), ("acc_wait_us", []),
                         ("acc_bytes", [])):
        setattr(plan, name, array("q", values))
    assert longest_us(plan, 20_000, 10**8).tolist() == [60_000 + 10_000 + 120_000 + int(np.ceil(2_548.48)) + 40_000]


@pytest.mark.parametrize("field, changes, words", [
    ("of.target", {"of": {**OF, "target": "nowhere"}}, "one of left_to_right"),
    ("of.load", {"of": {"target": "right_to_left"}}, "is missing"), ("of", {"of": 5}, "a mapping expected"),
    ("most", {"most": 0}, "at least 1"), ("test", {"test_us": 0}, "at least"),
    ("begins", {"begins_us": 20_000_000}, "is not before the stop"), ("called", {"called": "../x"}, "such as")])
def test_refused_sections(network, field, changes, words):
    with pytest.raises(FieldError, match=words) as problem:
        traffic.validate([{**ALONE, **changes}], network, LONG)
    assert problem.value.field == field


def test_congestion_controls_take_turns_as_ever(network, tmp_path):
    context = traffic.Context(tmp_path / "alone", "/x", network, 3, LONG)
    workload = traffic.prepare([{**ALONE, "of": {**OF, "mix": "connections"}}], [RENO, variant("cubic")], context)
    assert len(workload["flows"]) == 8 and sum(flow["connections"] for flow in workload["flows"]) == 40
