# SPDX-License-Identifier: GPL-2.0-only
"""Experiment 1 of the H-shaped network: the same segments and windows in the kernel and in both simulators."""
import pytest

from testbed.engines import ns2

#: of a path without a queue: 60 ms, three times 1066 bytes there and 66 back at 10 Mbit/s
ROUND_TRIP_S = 0.060 + 3 * 8 * (1066 + 66) / 10e6
SHORT = ["timing.warmup=1 s", "timing.test=3 s"]
WHOLE = ["timing.warmup=0 s", "timing.test=4 s"]
IDLE = [*SHORT, "traffic.cross.rate=0.001 Mbit/s"]


@pytest.fixture(scope="module")
def idle(run_in):
    return {name: run_in(name, "h-shape-1", "newreno", settings=IDLE) for name in ("uml", "ns3", "ns2")}


@pytest.mark.parametrize("engine, share", [("uml", 0.02), ("ns3", 0.02), ("ns2", 0.005)])
def test_twenty_segments_of_1000_bytes_in_a_round_trip(idle, engine, share):
    """The study's 2.7 Mbit/s with headers; where a receiver waits for a second segment a round trip takes longer."""
    assert idle[engine].json("verdict.json")["verdict"] == "valid", idle[engine].json("verdict.json")["reasons"]
    found = idle[engine].metrics()
    assert found["mean_throughput_l4", "flow_1"] == pytest.approx(20 * 8000 / ROUND_TRIP_S / 1e6, rel=share)
    assert found["flow_loss", "flow_1"] == 0
    # one window of 47 may stand at an edge of the three seconds
    assert found["throughput_mean", "left_to_right"] == pytest.approx(
        1.066 * found["mean_throughput_l4", "flow_1"], rel=1 / 47)


@pytest.mark.parametrize("engine", ["uml", "ns3"])
def test_no_more_is_in_flight(idle, engine):
    sender = idle[engine].table("tcp_info").query("node == 'n1' and t_us > 1000000")
    assert sender["mss"].unique().tolist() == [1000] and sender["unacked"].max() == 20


@pytest.mark.parametrize("cca", ["tahoe", "reno-classic", "newreno", "vegas"])
def test_the_agents_of_the_study(run_in, cca):
    """At 9.5 Mbit/s they lose; what is lost of UDP and of TCP is what the links dropped in the whole run."""
    finished = run_in("ns2", "h-shape-1", cca, settings=[*WHOLE, "traffic.cross.rate=9.5 Mbit/s"])
    reasons = finished.json("verdict.json")["reasons"]
    assert {reason["check"] for reason in reasons} <= {"steady"}, reasons           # there is no warm-up
    udp, = finished.json("raw/guest.json")["traffic"]["cross"]["flows"]
    links = finished.json("raw/counters.json")["drained"]
    lost = sum(link["dropped_packets"] for link in links.values()) - udp["lost_packets"]
    assert lost > 0 and finished.metrics()["flow_loss", "flow_1"] == pytest.approx(
        100 * lost / links["n1_to_n2"]["sent_packets"])
    orders = (finished.folder / "raw" / "workload.json").read_text()
    assert '"segment_bytes": 1000' in orders and '"window": 20' in orders


def test_which_agents_these_are():
    assert {ns2._STUDIED[cca, 0] for cca in ("tahoe", "reno_classic", "reno", "vegas")} == {
        "Tahoe", "Reno", "Newreno", "Vegas"}
