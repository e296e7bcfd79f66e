# SPDX-License-Identifier: GPL-2.0-only
"""Loss episodes and reductions, by hand. A round is 8 ms of base RTT and 103 ms of buffer; TCP is sampled every 120 ms.
"""
import json

import numpy as np
import pytest

from analysis.flows import loss_episodes
from analysis.read.runs import Run
from tests.unit.analysis import fixture

LINK = "right_to_left"
#: s: packets dropped. The second goes on within a round, the gap before 5.2 s is longer; 1 s is in the warm-up
DROPS = {1.0: 9, 3.0: 1, 3.1: 1, 5.0: 1, 5.2: 1, 9.0: 3}


@pytest.fixture
def run(tmp_path, change):
    """Function: (drops, {port: {s: (changed column, value)}}) -> run of two flows, n4 to n1."""
    def of(drops, events, second_rtt_us=8000):
        path = fixture.write_run(tmp_path / "reno-seed1", tmix=False, flows=[
            fixture.flow(1, 10_000, "reno"), fixture.flow(2, 10_001, "reno", base_rtt_us=second_rtt_us)])

        def dropped(table):
            mine = table["link"] == LINK
            table.loc[mine, "drops"] = [sum(count for at, count in drops.items() if at * 1e6 <= t_us)
                                        for t_us in table.loc[mine, "t_us"]]
            return table

        def sampled(table):
            for port, changes in events.items():
                mine = (table["sport"] == port) & (table["node"] == "n4")
                for at, (column, value) in changes:
                    later = mine & (table["t_us"] >= at * 1e6 - 1)
                    if column == "total_retrans":
                        table.loc[later, column] += value
                    else:
                        table.loc[later, column] = value
            return table
        change(path, "queue", dropped)
        change(path, "tcp_info", sampled)
        return path
    return of


def reduction(at, ssthresh):
    return [(at, ("ssthresh", ssthresh)), (at, ("total_retrans", 1))]


EVENTS = {
    10_000: [*reduction(3.12, 20), (5.04, ("ca_state", 3)), (5.04, ("total_retrans", 2)), (5.16, ("ca_state", 0)),
             *reduction(9.0, 18)],
    10_001: [*reduction(3.12, 30), *reduction(5.28, 10), *reduction(6.0, 20),
             (7.2, ("ssthresh", 15)),                   # the end of slow start, say: nothing is sent again
             (8.04, ("total_retrans", 1))]}             # a probe: the window stays


def test_metrics_by_hand(run, values):
    found = values(run(DROPS, EVENTS))
    assert found["loss_episodes", LINK] == pytest.approx(4 * 6)
    assert found["drops_per_loss_episode", LINK] == pytest.approx((2 + 1 + 1 + 3) / 4)
    # of four episodes, both flows reduced in that of 3 s
    assert found["loss_episodes_shared", LINK] == pytest.approx(25)
    assert found["reductions_per_loss_episode", "flow_1"] == pytest.approx(3 / 4)
    assert found["reductions_per_loss_episode", "flow_2"] == pytest.approx(2 / 4)
    assert found["reductions", "flow_1"] == found["reductions", "flow_2"] == pytest.approx(3 * 6)
    assert found["reduction_factor", "flow_1"] == pytest.approx((20 / 40 * 20 / 40 * 18 / 40)**(1 / 3))
    assert found["reduction_factor", "flow_2"] == pytest.approx((30 / 40 * 10 / 40 * 20 / 40)**(1 / 3))
    assert found["window_at_reduction", "flow_1"] == 40


def test_episodes_and_who_reduced_in_them(run):
    found = loss_episodes.of_link(Run(run(DROPS, EVENTS)), LINK)
    assert found.start_us.tolist() == [2_990_000, 4_990_000, 5_190_000, 8_990_000]
    assert found.end_us.tolist() == [3_100_000, 5_000_000, 5_200_000, 9_000_000]
    assert found.drops.tolist() == [2, 1, 1, 3]
    assert {flow: counts.tolist() for flow, counts in found.counts.items()} == {1: [1, 1, 0, 1], 2: [1, 0, 1, 0]}
    assert found.reductions[2].t_us.tolist() == [3_120_000, 5_280_000, 6_000_000]


def test_a_long_flow_reduces_for_what_it_lost_a_round_trip_ago(run):
    """Its reduction is seen at 5.4 s, 200 ms after a drop at the earliest: not that of 5.32 s, but that of 5 s."""
    found = loss_episodes.of_link(Run(run({5.0: 1, 5.32: 1}, {10_000: reduction(5.4, 20), 10_001: reduction(5.4, 20)},
                                          second_rtt_us=200_000)), LINK)
    assert found.start_us.tolist() == [4_990_000, 5_310_000]
    assert {flow: counts.tolist() for flow, counts in found.counts.items()} == {1: [0, 1], 2: [1, 0]}


def test_several_reductions_in_an_episode_count(run):
    """One that lasts: drops every 100 ms from 4 to 5 s."""
    drops = {round(at, 1): 1 for at in np.arange(4, 5.05, 0.1)}
    found = loss_episodes.of_link(Run(run(drops, {10_000: [*reduction(4.2, 20), *reduction(4.8, 10)]})), LINK)
    assert found.drops.tolist() == [11]
    assert {flow: counts.tolist() for flow, counts in found.counts.items()} == {1: [2], 2: [0]}


def test_without_drops_of_the_queue_there_are_only_the_flows(run, values):
    """Losses on the wire, say."""
    found = values(run({}, EVENTS))
    assert not [key for key in found if "episode" in key[0]]
    assert found["reductions", "flow_1"] == pytest.approx(18)


def test_growth_is_that_of_calm_times(run, values):
    """From 40 segments at 4.8 s to 52 at 6 s, another 8 while it recovers, and what a reduction takes does not count;
    samples every 120 ms from 2.04 s to 12 s: of 84 steps one goes down, and two into and out of recovery."""
    grown = [(at, ("cwnd", window)) for at, window in ((4.92, 46), (6.0, 52), (7.08, 60), (8.04, 30))]
    found = values(run({}, {10_000: [*grown, (7.08, ("ca_state", 3)), (7.2, ("ca_state", 0))], 10_001: []}))
    assert found["window_growth", "flow_1"] == pytest.approx(12 / (81 * 0.12))
    assert found["window_growth", "flow_2"] == 0


def test_several_bottlenecks_are_told_apart(run, values, change):
    path = run(DROPS, EVENTS)
    workload = json.loads((path / "raw" / "workload.json").read_text())
    for flow in workload["flows"]:
        flow["hops"] = ["left_to_right", "right_to_left"]
    (path / "raw" / "workload.json").write_text(json.dumps(workload))
    change(path, "queue", lambda table: table)
    found = values(path)
    assert ("reductions_per_loss_episode", f"{LINK}/flow_1") in found and ("reductions", "flow_1") in found
    assert ("reductions_per_loss_episode", "flow_1") not in found


def test_a_single_flow_cannot_share_but_reduces(run, values):
    path = run(DROPS, EVENTS)
    workload = json.loads((path / "raw" / "workload.json").read_text())
    workload["flows"] = workload["flows"][:1]
    fixture.write_json(path / "raw" / "workload.json", workload)
    fixture.seal(path)
    found = values(path)
    assert ("loss_episodes", LINK) not in found
    assert found["reductions", "flow_1"] == pytest.approx(3 * 6)
    assert found["reduction_factor", "flow_1"] == pytest.approx((20 / 40 * 20 / 40 * 18 / 40)**(1 / 3))


def test_an_engine_that_does_not_know_windows(run, values, change):
    path = run(DROPS, EVENTS)
    change(path, "tcp_info", lambda table: table.assign(ssthresh=np.nan, ca_state=np.nan))
    assert ("loss_episodes", LINK) not in values(path)


def test_windows_over_whole_epochs(run, values):
    """From 3.12 to 9 s: 40 segments until 6 s, then 80. The second flow reduces once, and has no whole epoch."""
    found = values(run({}, {10_000: [*reduction(3.12, 20), (6.0, ("cwnd", 80)), *reduction(9.0, 40)],
                            10_001: reduction(5.28, 10)}))
    assert found["window_epochs", "flow_1"] == 1 and ("window_epochs", "flow_2") not in found
    assert found["epoch_length_mean", "flow_1"] == pytest.approx(5.88)
    assert found["epoch_window_mean", "flow_1"] == pytest.approx((40 * 2.88 + 80 * 3) / 5.88)
