# SPDX-License-Identifier: GPL-2.0-only
"""What arrived of flows, those of programs and those beside them."""
import pathlib
import types

import pandas as pd
import pytest

from analysis.metrics import arrived
from analysis.read.runs import Interval
from traffic.workload.records import Flow

RATES_MBPS = {"r_to_n1": 1, "r_to_n2": 2, "n3_to_r": 4, "n4_to_r": 5}


def a_run(*flows, samples=True, edge_interval_us=100_000):
    """A run of 3 s whose links carry such rates."""
    table = pd.DataFrame([{"t_us": t_us, "link": link, "sent_bytes": t_us * rate // 8, "sent_packets": t_us // 1000,
                           "drops": 0} for t_us in range(0, 3_000_001, 100_000)
                          for link, rate in RATES_MBPS.items()])
    records = [Flow({"flow": number, "transport": transport, "hops": [f"n{number + 2}_to_r", link], "start_us": 0,
                     "stop_us": None}) for number, (transport, link) in enumerate(flows, start=1)]
    return types.SimpleNamespace(
        path=pathlib.Path("run"), interval=Interval(1_000_000, 3_000_000), flows=records, bottlenecks={},
        frame=lambda name: table if samples else None,
        scenario=types.SimpleNamespace(probes={"queue": {"edge_interval_us": edge_interval_us}}))


def test_each_flow_has_what_its_last_link_carried():
    found = arrived.compute(a_run(("program", "r_to_n1"), ("tcp", "r_to_n2")))
    assert [(one.metric, one.scope, one.unit) for one in found] == [
        ("sent_rate_l2", "flow_1", "Mbit/s"), ("arrived_rate_l2", "flow_1", "Mbit/s"),
        ("arrived_packet_mean_l2", "flow_1", "B"),
        ("sent_rate_l2", "flow_2", "Mbit/s"), ("arrived_rate_l2", "flow_2", "Mbit/s"),
        ("arrived_packet_mean_l2", "flow_2", "B"), ("jains_index_arrived", "all", "1")]
    assert [one.value for one in found] == pytest.approx([4, 1, 125, 5, 2, 250, 0.9])


def test_flows_of_tcp_alone_have_it_where_links_of_hosts_are_sampled_often():
    found = arrived.compute(a_run(("tcp", "r_to_n1"), edge_interval_us=10_000))
    assert [one.value for one in found] == pytest.approx([4, 1, 125])


def test_a_flow_that_is_there_for_a_part_has_the_rate_of_that_part():
    """Its link carries something in 2 to 2.5 s only."""
    run = a_run(("program", "r_to_n1"))
    table = run.frame("edge_queue")
    table["sent_bytes"] = (table["t_us"].clip(2_000_000, 2_500_000) - 2_000_000) // 8
    run.frame = lambda name: table
    run.flows[0] = run.flows[0].changed(start_us=2_000_000, stop_us=2_500_000)
    values = {one.metric: one.value for one in arrived.compute(run)}
    assert values["arrived_rate_l2"] == pytest.approx(1)


def test_fairness_is_that_of_flows_that_are_there_during_the_whole_interval():
    run = a_run(("program", "r_to_n1"), ("tcp", "r_to_n2"))
    run.flows[0] = run.flows[0].changed(start_us=1_500_000)
    assert "jains_index_arrived" not in [one.metric for one in arrived.compute(run)]


@pytest.mark.parametrize("flows, samples", [
    ([("tcp", "r_to_n1")], True), ([("program", "r_to_n1"), ("tcp", "r_to_n1")], True),
    ([("program", "r_to_n1")], False)])
def test_nothing_is_said_of_others(flows, samples):
    """Without programs and frequent samples, of links that flows share, without samples."""
    found = arrived.compute(a_run(*flows, samples=samples))
    assert [one.metric for one in found if one.metric != "sent_rate_l2"] == []
