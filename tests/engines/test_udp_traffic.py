# SPDX-License-Identifier: GPL-2.0-only
"""Poisson, on-off and jittered UDP in the simulators: every packet leaves when the kernel's program would send it."""
import pytest

from tests.engines.conftest import small_scenario

TRAFFIC = [
    {"kind": "poisson", "rate": "2 Mbit/s", "paths": ["n1->n2"]},
    {"kind": "on-off", "rate": "4 Mbit/s", "on": "300 ms", "off": "200 ms", "lengths": "exponential",
     "paths": ["n2->n1"]},
    {"kind": "cbr", "rate": "1 Mbit/s", "gap_spread": "50 %", "paths": ["n1->n2"]}]
ENGINES = ("ns2", "ns3")


@pytest.fixture(scope="module")
def finished(run_in):
    tree = small_scenario(traffic=TRAFFIC, **{"probes.queue": {"interval": "1 ms"}})
    return {name: run_in(name, tree) for name in ENGINES}


def flows(run):
    """{component: counts of its only flow}"""
    return {name: account["flows"][0] for name, account in run.json("raw/guest.json")["traffic"].items()}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_packet_arrives(finished, engine):
    verdict = finished[engine].json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    found = flows(finished[engine])
    assert all(flow["sent_packets"] == flow["received_packets"] > 0 for flow in found.values())
    # 1014 bytes at 2 Mbit/s are 246.5 a second: within five standard deviations
    assert found["poisson"]["sent_packets"] == pytest.approx(5 * 246.5, abs=5 * (5 * 246.5)**0.5)


def test_both_draw_the_same(finished):
    sent = [{name: flow["sent_packets"] for name, flow in flows(finished[engine]).items()} for engine in ENGINES]
    assert sent[0] == sent[1]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_on_off_flow_rests(finished, engine):
    """It is alone from right to left: in the queue's counters of every millisecond there are pauses of 100 and more."""
    sent = finished[engine].table("queue").query("link == 'right_to_left'").set_index("t_us")["sent_packets"]
    assert sent.diff().rolling(100).sum().min() == 0
    assert sent.iloc[-1] == flows(finished[engine])["on-off"]["sent_packets"]
