# SPDX-License-Identifier: GPL-2.0-only
"""Flows that send and rest, and Poisson processes: sections, jobs, lengths."""
import pytest

import traffic
from testbed.core.fields import FieldError
from tests.unit.traffic.traffic_setup import TIMING, variant

ON_OFF = {"kind": "on-off", "on_us": 1_000_000, "off_us": 500_000, "rate_bps": 2_000_000}
TCP = {"kind": "on-off", "on_us": 1_000_000, "off_us": 500_000, "transport": "tcp"}


@pytest.mark.parametrize("field, section, words", [
    ("on", {**ON_OFF, "on_us": 0}, "at least 1 us"), ("off", {**ON_OFF, "off_us": None}, "is missing"),
    ("rate", {**ON_OFF, "rate_bps": None}, "is missing: a UDP flow has one"),
    ("rate", {**ON_OFF, "rate_bps": 10**12}, "every 100 ns to 11 days"),
    ("rate", {**TCP, "rate_bps": 1}, "only with transport: udp"),
    ("packet", {**TCP, "packet_bytes": 1000}, "only with transport: udp"),
    ("transport", {**ON_OFF, "transport": "sctp"}, "one of udp, tcp expected"),
    ("lengths", {**ON_OFF, "lengths": "weibull"}, "one of constant, exponential, pareto"),
    ("pareto_shape", {**ON_OFF, "lengths": "pareto", "pareto_shape": 1}, "above 1"),
    ("pareto_shape", {**ON_OFF, "pareto_shape": 1.5}, "only with lengths: pareto"),
    ("on", {**ON_OFF, "on_us": 1, "off_us": 1}, "5000000 times of sending; at most 1000000"),
    ("paths", {**TCP, "paths": ["n1->n2"]}, "no path"),
    ("flows", {**ON_OFF, "flows": 10_000, "paths": ["n3->n1"] * 6}, "60000 flows need as many ports; there are 58536"),
    ("rate", {"kind": "poisson"}, "is missing"), ("on", {"kind": "poisson", "rate_bps": 1, "on_us": 1}, "unknown")])
def test_refused_sections(network, field, section, words):
    with pytest.raises(FieldError, match=words) as problem:
        traffic.validate([section], network, TIMING)
    assert problem.value.field == field


@pytest.mark.parametrize("on_us, off_us, packets_per_s", [(1, 999, 1000), (812, 188, 2000), (811, 189, 1000)])
def test_the_rate_of_short_times_is_that_of_their_packets(context, on_us, off_us, packets_per_s):
    """10 Mbit/s: a packet of 1014 bytes each 811.2 us."""
    workload = traffic.prepare([{"kind": "on-off", "on_us": on_us, "off_us": off_us, "rate_bps": 10**7}],
                               [variant("cubic")], context)
    assert workload["flows"][0]["rate_bps"] == packets_per_s * 1014 * 8


def test_constant_lengths(context, jobs):
    workload = traffic.prepare([{**ON_OFF, "start_us": 7_000_000}], [variant("cubic")], context)
    flow, = workload["flows"]
    # in each of 1 + 1 of 3 seconds 247 packets of 1014 bytes, as the first leaves at once
    assert (flow["transport"], flow["kind"], flow["rate_bps"], flow["cca"]) == ("udp", "on-off", 1_335_776, None)
    assert (workload["components"][0]["bursts"], workload["components"][0]["rate_bps"]) == (2, 2_000_000)
    (_, _, receiving), (_, module, sending) = jobs(workload)
    assert module == "traffic.datagrams.program"
    assert sending["send"][0]["bursts_us"] == [[7_000_000, 8_000_000], [8_500_000, 9_500_000]]
    assert sending["send"][0]["gap_ns"] == 4_056_000 and "bursts_us" not in receiving["receive"][0]


def test_tcp_flows_have_a_congestion_control_and_one_connection(context, jobs):
    workload = traffic.prepare([{**TCP, "start_us": 8_000_000, "flows": 2}], [variant("cubic"), variant("reno")],
                               context)
    assert [(flow["transport"], flow["cca"], flow["rate_bps"], flow["bytes"], flow["connections"])
            for flow in workload["flows"]] == [("tcp", "cubic", None, None, 1), ("tcp", "reno", None, None, 1)]
    (_, _, receiving), (_, module, sending) = jobs(workload)
    assert module == "traffic.greedy.flows"
    assert [order["bursts_us"] for order in sending["send"]] == [[[8_000_000, 9_000_000], [9_500_000, 10_000_000]]] * 2
    assert len(receiving["receive"]) == 2


@pytest.mark.parametrize("lengths", ["exponential", "pareto"])
def test_random_lengths(context, jobs, lengths):
    """Their means are those asked for, the seed decides, and none begins before the one before has ended."""
    section = {**ON_OFF, "on_us": 2000, "off_us": 1000, "lengths": lengths, "flows": 2,
               **({"pareto_shape": 3} if lengths == "pareto" else {})}

    def bursts():
        _, (_, _, sending) = jobs(traffic.prepare([section], [variant("cubic")], context))
        return [order["bursts_us"] for order in sending["send"]]
    one, other = bursts()
    assert [one, other] == bursts() and one != other
    on = [end - begin for begin, end in one]
    off = [after[0] - before[1] for before, after in zip(one, one[1:])]
    assert min(off) > 0 and one[-1][1] <= 10_000_000
    assert len(on) == pytest.approx(10_000_000 / 3000, rel=0.1)
    assert sum(on) / len(on) == pytest.approx(2000, rel=0.1) and sum(off) / len(off) == pytest.approx(1000, rel=0.1)
    if lengths == "pareto":         # the least is (shape - 1) / shape of the mean
        assert min(on) == pytest.approx(2000 * 2 / 3, abs=5)


def test_poisson_jobs(context, jobs):
    workload = traffic.prepare([{"kind": "poisson", "rate_bps": 2_000_000, "flows": 2}], [variant("cubic")], context)
    assert [(flow["transport"], flow["rate_bps"]) for flow in workload["flows"]] == [("udp", 2_000_000)] * 2
    _, (_, _, sending) = jobs(workload)
    assert [(order["gaps"], order["seed"], order["gap_ns"]) for order in sending["send"]] == [
        ("exponential", "3/0", 4_056_000), ("exponential", "3/1", 4_056_000)]
