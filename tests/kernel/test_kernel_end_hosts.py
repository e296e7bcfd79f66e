# SPDX-License-Identifier: GPL-2.0-only
"""End hosts in a guest kernel: what interrupts, CPU, jitter and offloads do to packets, in exact numbers.

From n2 to n1: edge of 100 Mbit/s and 5 ms, 1 Gbit/s and 2 ms, edge of 100 Mbit/s without delay.
"""
import json

import pytest

import kernel
import topologies
from testbed.core import fields
from testbed.core.record import plain
from tests.kernel import end_hosts_guest, guest_script
from tests.kernel.small_runs import small_scenario
from topologies.links import end_hosts

#: a frame of 1514 bytes takes this long at 100 Mbit/s
FRAME_US = 121.12
#: instants are noted in whole microseconds
_MOMENT_US = 2
SECTION = {"kind": "dumbbell", "central": {"rate_bps": 10**9, "delay_us": 2000, "queue": {"limit": 1000}},
           "edge": {"rate_bps": 10**8, "queue": {"limit": 10_000}}, "left_delays_us": [0], "right_delays_us": [5000]}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """measured(**hosts) -> what tests/kernel/end_hosts_guest.py saw; each kind of hosts is measured once."""
    program = kernel.ensure().program
    known = {}

    def get(**hosts):
        if repr(hosts) not in known:
            network = end_hosts.apply(fields.decode(end_hosts.HostsSection, hosts), topologies.resolve(SECTION))
            folder = tmp_path_factory.mktemp("uml")
            (folder / "network.json").write_text(json.dumps(network, default=plain))
            known[repr(hosts)] = guest_script.result_of(program, end_hosts_guest.__file__, folder,
                                                        folder / "network.json")
        return known[repr(hosts)]
    return get


def expected_us(size, more_us=0.0):
    """Propagation and transmission on an idle network."""
    return 7000 + size * 8 * (2 / 100 + 1 / 1000) + more_us


@pytest.mark.parametrize("hosts, more_us", [
    ({}, 0), ({"packet_cost_us": 10}, 10), ({"coalescing_us": 250}, 250),
    ({"coalescing_us": 250, "packet_cost_us": 10}, 260)])
def test_packets_far_apart_wait_for_cpu_and_interrupt(measured, hosts, more_us):
    found = measured(**hosts)["apart"]
    assert found["order"] == list(range(8))
    for size, delay_us in zip([1514] * 4 + [100] * 4, found["delays_us"]):
        assert 0 <= delay_us - expected_us(size, more_us) <= _MOMENT_US


def arrivals(found, first_us=0.0):
    """us of each arrival after that of the first packet on an idle network."""
    return [delay_us - expected_us(1514, first_us) for delay_us in found["delays_us"]]


def test_an_interrupt_announces_what_came_meanwhile(measured):
    """Three frames of 121 us in 250 us; the fourth begins another interrupt."""
    found = arrivals(measured(coalescing_us=250)["together"], 250)
    for number, arrival_us in enumerate(found):
        assert 0 <= arrival_us - number // 3 * 3 * FRAME_US <= 2 * _MOMENT_US


def test_a_cpu_that_is_slower_than_the_link_serves_one_packet_after_the_other(measured):
    found = arrivals(measured(packet_cost_us=200)["together"], 200)
    for number, arrival_us in enumerate(found):
        assert 0 <= arrival_us - number * 200 <= 2 * _MOMENT_US


def test_jitter_is_uniform_in_its_range_and_nobody_overtakes(measured):
    found = measured(jitter_us=120)["many"]
    assert found["order"] == list(range(500))
    drawn = [delay_us - expected_us(1514) for delay_us in found["delays_us"]]
    assert min(drawn) >= 0 and max(drawn) <= 120 + _MOMENT_US
    # five standard deviations of the mean of 500 draws, and of the number in each quarter of the range
    assert abs(sum(drawn) / 500 - 60) < 5 * 120 / 12**0.5 / 500**0.5
    assert len([us for us in drawn if us < 30]) > 76 and len([us for us in drawn if us > 90]) > 76


def test_more_jitter_than_there_is_between_packets_keeps_their_order(measured):
    """Who is held up holds up those behind it: never closer than a transmission time."""
    found = measured(jitter_us=5000)["many"]
    assert found["order"] == list(range(500))
    arrived_us = found["arrived_us"]
    assert min(b - a for a, b in zip(arrived_us, arrived_us[1:])) >= FRAME_US - _MOMENT_US


def test_without_offloads_tcp_hands_over_single_segments(measured):
    found = measured()["transfer"]
    assert max(found["lengths"]) == 1514 and found["lengths"].count(1514) == 1_000_000 // 1448
    assert found["segments_seen"] == len(found["lengths"])


def test_with_offloads_it_hands_over_many_and_the_receiver_merges(measured):
    """At 100 Mbit/s three segments are there when the interrupt comes."""
    found = measured(offloads="gso+gro", coalescing_us=300)["transfer"]
    assert max(found["lengths"]) > 10 * 1448
    segments = sum(-(-(length - 66) // 1448) or 1 for length in found["lengths"])
    assert segments == pytest.approx(1_000_000 / 1448 + 3, abs=2)
    assert segments / 3.2 < found["segments_seen"] < segments / 2.5


def test_without_gro_it_hands_over_many_and_the_receiver_sees_each(measured):
    found = measured(offloads="gso")["transfer"]
    assert max(found["lengths"]) > 10 * 1448
    assert found["segments_seen"] == pytest.approx(1_000_000 / 1448 + 3, abs=3)


def test_where_nobody_cuts_the_receiver_gets_what_tcp_handed_over(measured):
    found = measured(offloads="uncut")["transfer"]
    assert max(found["lengths"]) > 10 * 1448
    assert found["segments_seen"] == len(found["lengths"]) < 1_000_000 / 1448 / 2


# -- in runs --------------------------------------------------------------------------------

def test_hosts_of_a_run(run_scenario):
    """The window at the start, jitter that is the seed's, and a verdict that knows of all of it."""
    tree = small_scenario(**{"traffic.tool": "sockets", "timing.test": "1 s", "hosts": {
        "initcwnd": 2, "jitter": "120 us", "coalescing": "250 us", "packet_cost": "2 us", "wakeup_cost": "20 us",
        "offloads": "gso+gro", "qdisc": "fq", "slow_start_after_idle": 0}})
    tree["probes"]["tcp_probe"] = {}
    one, again, other = (run_scenario(tree, "reno", seed) for seed in (1, 1, 2))
    verdict = one.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    events = one.table("tcp_probe")
    assert events.loc[events["dst"].str.endswith(":6000"), "snd_cwnd"].iloc[0] == 2
    assert one.json("run.json")["raw_sha256"] == again.json("run.json")["raw_sha256"]
    rtts = [[path["measured_rtt_us"] for path in run.json("raw/checks.json")["paths"]] for run in (one, other)]
    assert rtts[0] != rtts[1]


@pytest.mark.parametrize("delayed, least, most", [(True, 0.5, 0.65), (False, 0.95, 1.0)])
def test_acknowledgements_are_delayed_or_not(run_scenario, delayed, least, most):
    """An ACK for every second segment, but for the first ones, or for each."""
    run = run_scenario(small_scenario(**{"traffic.tool": "sockets", "timing.test": "1 s",
                                         "hosts": {"delayed_acks": delayed}}), "reno")
    sent = {name: counts["sent_packets"] for name, counts in run.json("raw/counters.json")["drained"].items()}
    assert least < sent["left_to_right"] / sent["right_to_left"] <= most
    assert not [one for one in run.json("verdict.json")["reasons"] if one["check"] == "devices"]


def test_connections_of_a_host_that_begin_without_slow_start(run_scenario):
    """n4 begins at its threshold and grows by a segment per round trip, n5 doubles; the verdict has tried it."""
    tree = small_scenario(**{"traffic": {"kind": "greedy", "tool": "sockets", "paths": ["n4->n1", "n5->n1"]},
                             "timing.test": "1 s", "hosts": {"initial_ssthresh": {"n4": 10}}})
    tree["probes"]["tcp_probe"] = {}
    run = run_scenario(tree, "reno")
    # how they begin is what is looked at here
    assert {reason["check"] for reason in run.json("verdict.json")["reasons"]} == {"steady"}
    checks, events = run.json("raw/checks.json"), run.table("tcp_probe")
    assert set(checks["initial_ssthresh"]) == {"n4"} and set(checks["initial_ssthresh"]["n4"].values()) == {10}
    assert len(checks["initial_ssthresh"]["n4"]) == 3
    flows = run.json("raw/workload.json")["flows"]
    first = {}
    for flow in flows:
        mine = events[events["src"].str.startswith(f"{flow['src']}:") & events["dst"].str.endswith(f":{flow['dport']}")]
        first[flow["sender"]] = mine.iloc[0]
    assert (first["n4"]["ssthresh"], first["n4"]["snd_cwnd"]) == (10, 10)
    assert first["n5"]["ssthresh"] == 2**31 - 1 and first["n5"]["snd_cwnd"] == 10
    windows = run.table("tcp_info").query("t_us == 1000000").set_index("node")["cwnd"]
    # at most a segment for each round trip of 8 ms
    assert windows["n4"] < 10 + 1000 / 8 + 10 < windows["n5"]


def test_wakeups_cost_what_they_are_said_to(run_scenario):
    """A request is noted as read when its acceptor has woken up."""
    def noted(cost):
        run = run_scenario(small_scenario(**{
            "traffic": {"kind": "tmix", "target": "right_to_left", "load": "10 %", "paths": ["n1->n4"]},
            "timing.test": "2 s", "hosts": {"wakeup_cost": cost}}))
        adus = run.table("adus")
        first = adus[(adus["side"] == "i") & (adus["index"] == 0)].set_index(["source", "conn"])
        return first["delivered_us"].dropna(), first["sent_us"].dropna()
    (free, sent_free), (dear, sent_dear) = noted("0 us"), noted("300 us")
    common = free.index.intersection(dear.index)
    assert len(common) > 10
    later = ((dear - sent_dear) - (free - sent_free)).loc[common]
    assert later.median() == pytest.approx(300, abs=5)
