# SPDX-License-Identifier: GPL-2.0-only
"""Who overloads a link before a run, how, and for how long."""
import pytest

import topologies
from testbed.guest import overload
from topologies.links.records import Link, Network


def network(rate_bps=10**8, queue=None, right_us=90_000, edge_bps=10**8, left=1):
    return topologies.resolve({
        "kind": "dumbbell", "central": {"rate_bps": rate_bps, "delay_us": 2000, "queue": queue or {"limit": 850}},
        "edge": {"rate_bps": edge_bps, "queue": {"limit": 10**6}}, "left_delays_us": [10_000] * left,
        "right_delays_us": [right_us]})


def overload_of(described, name="left_to_right", **clock):
    return overload.plan(next(link for link in described["links"] if link["name"] == name), described, **clock)


def test_as_many_hosts_as_are_needed():
    """Half as much again as the link carries; the other hosts would only cost time."""
    assert [s.host for s in overload_of(network(edge_bps=10**9, left=5)).senders] == ["n1"]
    plan = overload_of(network(left=5))
    assert [(s.host, s.target, s.address, s.local) for s in plan.senders] == [
        ("n1", "n6", "10.0.7.1", False), ("n2", "n6", "10.0.7.1", False)]
    assert plan.overloaded and not overload_of(network()).overloaded
    assert [s.host for s in overload_of(network(left=5), "right_to_left").senders] == ["n6"]


def test_times_of_the_access_link():
    """As before there were bounds: twice the buffer, 4000 packets, and what empties the buffer again."""
    plan = overload_of(network(left=2))
    assert (plan.fill_s, plan.window_s, plan.interval_s) == (2 * 850 * 12112 / 1e8, 4000 * 12112 / 1e8, 0)
    # what two senders of 100 Mbit/s may still send of a system call when they are to stop, and what their sockets hold
    rest_s = 2 * (overload.AT_ONCE + 200) * 1514 * 8 / 10**8
    rest_s += plan.senders[0].reach_s + 2 * 12112 / 1e8         # ... and the last frame, before the link and on it
    assert plan.drain_s == pytest.approx(plan.fill_s + 0.204 + rest_s, rel=1e-9) and plan.fills


@pytest.mark.parametrize("rate_bps, queue, fills", [
    (64_000, {"limit": 6}, True), (64_000, {"limit": 1000}, False), (1000, {"limit": 10**5}, False),
    (10**6, {"limit": 2**32 - 1}, False),
    (64_000, {"kind": "codel"}, False), (10**9, {"limit": 100_001}, False), (10**10, {"limit": 100_000}, True)])
def test_the_test_of_any_link_is_bounded(rate_bps, queue, fills):
    plan = overload_of(network(rate_bps, queue, edge_bps=10**11), real_time=True)
    frame_s = 12112 / rate_bps
    assert plan.fills == fills and plan.overloaded
    assert plan.window_s <= max(30, 10 * frame_s) and plan.fill_s + plan.drain_s <= max(62, 50 * frame_s)
    assert plan.window_s >= 10 * frame_s
    per_second = len(plan.senders) / plan.interval_s if plan.interval_s else 10**11 / 12112
    packets = (plan.fill_s + plan.window_s) * per_second
    assert 1.5 * plan.window_s / frame_s < packets <= 420_000
    # no timer takes the 0.6 us between two packets of twice 10 Gbit/s; 16 of them 9.7 us
    assert plan.at_once == (1 if plan.interval_s > 1e-5 else overload.AT_ONCE)


@pytest.mark.parametrize("rate_bps, queue, fills", [
    (10_000, {"kind": "fq_codel"}, True), (1000, {"limit": 1000}, True), (1000, {"limit": 2000}, False)])
def test_virtual_time_is_cheap(rate_bps, queue, fills):
    assert overload_of(network(rate_bps, queue, edge_bps=10**8)).fills == fills
    assert not overload_of(network(rate_bps, queue, edge_bps=10**8), real_time=True).fills


@pytest.mark.parametrize("edge_bps, left, surplus", [(102 * 10**6, 1, 0.02), (5 * 10**7, 3, 0.5), (10**8, 2, 1),
                                                     (10**9, 1, 1)])
def test_the_buffer_is_filled_by_what_the_link_does_not_carry(edge_bps, left, surplus):
    plan = overload_of(network(edge_bps=edge_bps, left=left))
    assert plan.fills and plan.fill_s == pytest.approx(2 * 850 * 12112 / 1e8 / surplus)


def test_hosts_that_are_far_from_the_link_need_time_to_reach_it():
    link = {"rate_bps": 10**6, "queue": {"limit": 10}}
    described = topologies.resolve({"kind": "dumbbell", "central": link, "edge": {"rate_bps": 10**7},
                                    "left_delays_us": [10 * 10**6], "right_delays_us": [0]})
    assert overload_of(described).fill_s == pytest.approx(10.0012112 + 10 * 0.012112)


def test_bottlenecks_of_a_parking_lot_are_overloaded_by_their_own_cross_traffic():
    lot = topologies.resolve({
        "kind": "parking-lot", "links": [{"rate_bps": 10**8}] * 3, "access": {"rate_bps": 10**9},
        "hosts": [{"router": router} for router in (1, 1, 2, 2, 3, 3, 4, 4)],
        "paths": ["n1-n8", "n2-n3", "n4-n5", "n6-n7"]})
    assert [[s.host for s in overload_of(lot, name).senders] for name in (
        "r1_to_r2", "r2_to_r3", "r3_to_r4", "r2_to_r1", "r4_to_r3")] == [["n1"], ["n4"], ["n6"], ["n3"], ["n8"]]
    alone = lot.changed(paths=lot.paths[:1])
    assert overload_of(alone, "r1_to_r2").overloaded and not overload_of(alone, "r2_to_r3").overloaded


def test_paths_that_share_a_link_before_bring_no_more_than_it_carries():
    lot = topologies.resolve({
        "kind": "parking-lot", "links": [{"rate_bps": 10**7}, {"rate_bps": 10**8}], "access": {"rate_bps": 10**9},
        "hosts": [{"router": 1}, {"router": 1}, {"router": 3}], "paths": ["n1-n3", "n2-n3"]})
    plan = overload_of(lot, "r2_to_r3")
    assert not plan.overloaded and [s.host for s in plan.senders] == ["n1"]


def test_hosts_with_short_queues_of_their_own_are_held_back():
    """Twice what the link carries, in packets of both: their own queues would not make them wait."""
    link = {"rate_bps": 10**7, "delay_us": 10_000, "queue": {"limit": 20}}
    described = topologies.resolve({"kind": "h-shape", "central": link, "edge": link, "cross": {"rate_bps": 10**9}})
    plan = overload_of(described)
    assert [s.host for s in plan.senders] == ["n1", "n5"] and plan.overloaded and plan.fills
    assert plan.interval_s == 12112 / 1e7
    assert overload_of(network(edge_bps=10**9)).interval_s == 0


def test_a_host_whose_own_link_is_the_bottleneck():
    described = network()
    link = next(link for link in described["links"] if link["name"] == "n1_to_r1")
    plan = overload.plan(link, described)
    assert plan.overloaded and [s.local for s in plan.senders] == [True]


def test_what_the_air_carries_is_less_than_the_rate_of_its_frames():
    """54 Mbit/s of 802.11g carry 30.5 Mbit/s of packets: no link of 40 Mbit/s behind them is overloaded."""
    described = topologies.resolve({
        "kind": "wireless-cell", "central": {"rate_bps": 4 * 10**7}, "edge": {"rate_bps": 10**9},
        "left_delays_us": [0], "stations": 1, "radio": {"rate_bps": 54 * 10**6}})
    assert not overload_of(described, "right_to_left").overloaded and overload_of(described).overloaded


def test_the_drain_waits_for_slower_links_behind():
    """What a link has sent meanwhile lies in the queue of the next one, and goes on from there."""
    fast = Link({"name": "fast", "rate_bps": 10**7, "capacity_packets": 50, "bottleneck": True})
    slow = Link({"name": "slow", "rate_bps": 10**6, "capacity_packets": 100, "bottleneck": True})
    network = Network({"links": [fast.content(), slow.content()],
                       "paths": [{"hops": ["fast", "slow"], "hops_back": []}]})
    assert overload._behind_s(fast, network, 60.0) == pytest.approx(100 * 1514 * 8 / 10**6)
    assert overload._behind_s(fast, network, 0.01) == pytest.approx(0.1)
    assert overload._behind_s(slow, network, 60.0) == 0


@pytest.mark.parametrize("percent, copies", [(3, 0.03 * 4040 + 6 * (4040 * 0.03 * 0.97) ** 0.5 + 1), (100, 4040)])
def test_copies_are_behind_the_link_before_the_test_ends(percent, copies):
    """4000 packets and twice a queue of 20, of which some come twice; other links, and the way back, have none."""
    def plan_of(name, **wire):
        link = {"rate_bps": 10**7, "queue": {"limit": 20}}
        lot = topologies.resolve({
            "kind": "parking-lot", "links": [link, {"left_to_right": {**link, **wire}, "right_to_left": link}],
            "access": {"rate_bps": 10**9}, "hosts": [{"router": 1}, {"router": 2}, {"router": 3}],
            "paths": ["n1-n2", "n2-n3"]})
        return overload_of(lot, name)
    for name, more in (("r2_to_r3", copies), ("r3_to_r2", 0), ("r1_to_r2", 0)):
        longer_s = plan_of(name, duplicate_percent=percent).drain_s - plan_of(name).drain_s
        assert longer_s == pytest.approx(more * 12112 / 1e7)
