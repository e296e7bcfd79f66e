# SPDX-License-Identifier: GPL-2.0-only
"""Listed flows: sections, records, jobs."""
import pytest

import traffic
from testbed.core.fields import FieldError
from tests.unit.traffic.traffic_setup import TIMING, variant
from topologies.links.records import Network


def listed(*flows, **more):
    return [{"kind": "flows", "flows": list(flows), **more}]


@pytest.mark.parametrize("field, given, words", [
    ("flows", [], "at least 1"), ("flows.1", ["n1"], "a mapping expected"),
    ("flows.2.path", [{}, {"path": "n1->n2"}], "no path n1->n2"),
    ("flows.1.rtt", [{"rtt_us": 7}], "no path has this base RTT; there are: 4 ms, 14 ms, 18 ms, 28 ms"),
    ("flows.1.rtt", [{"rtt_us": 4000, "path": "n3->n1"}], "path or rtt expected, not both"),
    ("flows.1.start", [{"start_us": 10_000_000}], "until before 10 s expected, not 10 s"),
    ("flows.1.start", [{"start_us": 5, "stop_us": 5}], "until before"),
    ("flows.1.bytes", [{"bytes_bytes": 1, "transport": "udp", "rate_bps": 10**6}], "only with transport: tcp"),
    ("flows.1.cca", [{"cca": "bic", "transport": "udp", "rate_bps": 10**6}], "only with transport: tcp"),
    ("flows.1.rate", [{"rate_bps": 10**6}], "only with transport: udp"),
    ("flows.1.rate", [{"transport": "udp"}], "is missing"),
    ("flows.1.rate", [{"transport": "udp", "rate_bps": 10**12}], "every 100 ns to 11 days"),
    ("flows.1.speed", [{"speed": 1}], "unknown field")])
def test_refused_sections(network, field, given, words):
    with pytest.raises(FieldError, match=words) as problem:
        traffic.validate(listed(*given), network, TIMING)
    assert problem.value.field == field


def test_a_flow_is_within_its_component(network):
    with pytest.raises(FieldError, match="a time from 2 s until before 3 s expected, not 1 s"):
        traffic.validate(listed({"start_us": 1_000_000}, start_us=2_000_000, stop_us=3_000_000), network, TIMING)


def test_records_and_jobs(context, jobs):
    workload = traffic.prepare(listed(
        {"path": "n1->n3", "start_us": 1_000_000, "stop_us": 2_000_000}, {"cca": "bic", "bytes_bytes": 500},
        {"rtt_us": 14000}, {"transport": "udp", "rate_bps": 2_000_000, "packet_bytes": 500, "start_us": 7}),
        [variant("cubic"), variant("reno"), variant("bic", under_test=False)], context)
    assert [[flow[key] for key in ("sender", "receiver", "transport", "variant", "start_us", "stop_us", "bytes",
                                   "rate_bps")] for flow in workload["flows"]] == [
        ["n1", "n3", "tcp", "cubic", 1_000_000, 2_000_000, None, None],
        ["n3", "n1", "tcp", "bic", 0, 10_000_000, 500, None],
        ["n3", "n2", "tcp", "reno", 0, 10_000_000, None, None],
        ["n3", "n1", "udp", None, 7, 10_000_000, None, 2_000_000]]
    made = jobs(workload)
    assert [(node, module.split(".")[1]) for node, module, _ in made] == [
        ("n1", "greedy"), ("n2", "greedy"), ("n3", "greedy"), ("n1", "datagrams"), ("n3", "datagrams")]
    assert made[-1][2]["send"][0]["gap_ns"] == 2_056_000


def test_flows_of_the_same_rtt_take_turns_with_its_paths(tmp_path):
    import topologies
    from tests.unit.traffic.traffic_setup import DUMBBELL
    network = Network(topologies.resolve({**DUMBBELL, "left_delays_us": [0, 0], "right_delays_us": [0, 5000]}))
    context = traffic.Context(tmp_path / "work", "/run/guest", network, 3, TIMING)
    flows = traffic.prepare(listed(*[{"rtt_us": 0}] * 3, {"rtt_us": 10000}), [variant("cubic")], context)["flows"]
    assert [(flow["sender"], flow["receiver"]) for flow in flows] == [("n3", "n1"), ("n3", "n2"), ("n3", "n1"),
                                                                      ("n4", "n1")]


def test_an_unknown_variant_is_named(context):
    with pytest.raises(FieldError, match="vegas is not one of this run's variants: cubic"):
        traffic.prepare(listed({"cca": "vegas"}), [variant("cubic")], context)
