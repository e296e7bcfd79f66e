# SPDX-License-Identifier: GPL-2.0-only
"""Kinds of traffic in virtual time, by the examples of the documents: exact instants, counts and delays."""
import numpy as np
import pytest

from tests.kernel import documented


def accounts(run):
    """{component: its account}"""
    return run.json("raw/guest.json")["traffic"]


def assert_valid(run):
    """Valid, but for what a run of a few seconds cannot be."""
    verdict = run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    return [check["message"] for check in verdict["checks"]]


@pytest.fixture(scope="module")
def on_off(run_scenario):
    return run_scenario(documented.exact("howto/on-off.md"))


def test_every_packet_of_poisson_and_on_off_flows_is_counted(on_off):
    poisson, = accounts(on_off)["poisson"]["flows"]
    bursts, = accounts(on_off)["on-off"]["flows"]
    # 1014 bytes at 2 Mbit/s: 246.5 a second for three seconds, within five standard deviations
    assert poisson["sent_packets"] == poisson["received_packets"] == pytest.approx(739.6, abs=5 * 27.2)
    # four times 300 ms at 4 Mbit/s: 147.9 packets, of which the first leaves at once
    assert bursts["sent_packets"] == bursts["received_packets"] == 4 * 148
    assert bursts["lost_packets"] == bursts["reordered_packets"] == bursts["duplicate_packets"] == 0
    assert any("lost of 2 UDP flows" in message for message in assert_valid(on_off))


def test_one_way_delay_is_that_of_the_links_for_who_meets_nobody(on_off):
    """The UDP flows share no queue: n1->n2 is the other direction, and TCP comes later."""
    bursts, = accounts(on_off)["on-off"]["flows"]
    edge_us, central_us = 1014 * 8 / 1000, 1014 * 8 / 10
    # delays are noted in whole microseconds
    assert bursts["delay_min_us"] <= bursts["delay_p99_us"] <= bursts["delay_max_us"] <= bursts["delay_min_us"] + 2
    assert bursts["delay_mean_us"] == pytest.approx(2000 + central_us + 2 * edge_us, abs=2)
    poisson, = accounts(on_off)["poisson"]["flows"]
    assert poisson["delay_min_us"] == pytest.approx(bursts["delay_min_us"], abs=1)
    # a queue with Poisson arrivals: rho / (2 (1 - rho)) service times in the mean, rho = 0.2
    waiting_us = poisson["delay_mean_us"] - bursts["delay_mean_us"]
    assert waiting_us == pytest.approx(0.2 / 1.6 * central_us, rel=0.4)


def test_a_tcp_flow_sends_and_rests_over_one_connection(on_off):
    flow = on_off.json("raw/workload.json")["flows"][-1]
    samples = on_off.table("tcp_info")
    mine = samples[(samples["node"] == flow["sender"]) & (samples["dport"] == flow["dport"])
                   & (samples["state"] == "ESTAB")]
    assert mine["sport"].nunique() == 1
    at = lambda t_us: int(np.interp(t_us, mine["t_us"], mine["bytes_acked"]))    # noqa: E731
    for second in (3, 4, 5):
        begin_us = second * 1_000_000
        # 128 kB that were written and not sent, and what a queue of 50 packets held, take less than 250 ms
        assert at(begin_us + 450_000) - at(begin_us + 50_000) > 300_000
        # the last segment may have been dropped: nothing behind it tells, and a timeout of 266 ms repairs it
        assert at(begin_us + 990_000) - at(begin_us + 750_000) in (0, 1448)


@pytest.fixture(scope="module")
def listed(run_scenario):
    return run_scenario(documented.scenario("howto/flows.md"))


def test_listed_flows_are_what_the_list_says(listed):
    assert_valid(listed)
    until_stopped, so_much, datagrams = listed.json("raw/workload.json")["flows"]
    assert [flow["variant"] for flow in (until_stopped, so_much, datagrams)] == ["cubic", "reno", None]
    assert (so_much["sender"], so_much["receiver"], so_much["base_rtt_us"]) == ("n4", "n2", 50_000)
    counts, = accounts(listed)["flows"]["flows"]
    # 514 bytes at 1 Mbit/s for a second
    assert counts["sent_packets"] == counts["received_packets"] == 244 and counts["flow"] == 3
    received = {flow: size for account in listed.json("raw/guest.json")["accounts"]
                for flow, size in account.get("received_bytes", {}).items()}
    assert received["2"] == 2_000_000 and received["1"] > 5_000_000
    samples = listed.table("tcp_info")
    samples = samples[samples["state"] == "ESTAB"]
    for flow, first_us, last_us in ((until_stopped, 100_000, 4_000_000), (so_much, 1_200_000, 6_000_000)):
        mine = samples[(samples["node"] == flow["sender"]) & (samples["dport"] == flow["dport"])]
        assert mine["t_us"].min() == first_us and mine["t_us"].max() <= last_us
        assert set(mine["cca"]) == {flow["cca"]}
