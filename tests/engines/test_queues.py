# SPDX-License-Identifier: GPL-2.0-only
"""Queues of the simulators do what Linux's do: 12 Mbit/s of UDP into 10 Mbit/s, the same file in each engine."""
import pytest

from tests.engines.conftest import small_scenario

RED = {"kind": "red", "limit": "300 kB", "min": "15 kB", "max": "45 kB", "avpkt": "1500 B", "burst": 17,
       "probability": 0.5}


def overloaded(run_in, engine, queue, warmup_s=3, **traffic):
    """The run, and the mean of the queue in packets once it is steady."""
    finished = run_in(engine, small_scenario(
        traffic={"kind": "cbr", "rate": "12 Mbit/s", "packet": "1500 B", "paths": ["n2->n1"], **traffic},
        **{"topology.central.queue": queue, "timing.warmup": f"{warmup_s} s", "timing.test": f"{15 - warmup_s} s"}))
    samples = finished.table("queue").query(f"link == 'right_to_left' and t_us > {warmup_s * 1_000_000}")
    return finished, samples["backlog_packets"].mean()


@pytest.mark.parametrize("engine", ["uml", "ns3", "ns2"])
def test_red_drops_as_floyd_and_jacobsons_second_method(run_in, engine):
    """One of six packets has to go. Drops are evenly 1 to 1/p packets apart, 6 on average: p = 1/11, for which the
    average is 15000 + 30000 / 11 / 0.5 = 20,455 bytes or 13.5 packets; ns-2 never waits as long as 1/p and comes to p =
    1/12, 13.2 packets. With ns's `wait` they would be 1/p to 2/p apart: 19.8 packets."""
    finished, packets = overloaded(run_in, engine, RED)
    assert packets == pytest.approx(13.5, abs=0.5)
    assert finished.json("verdict.json")["verdict"] == "valid"


@pytest.mark.parametrize("engine", ["uml", "ns3", "ns2"])
def test_red_asks_nobody_for_his_size(run_in, engine):
    """20,455 bytes are 65.1 packets of 314 bytes; in ns's byte mode they would be dropped less often, and 140 wait."""
    _, packets = overloaded(run_in, engine, {**RED, "avpkt": "1000 B", "burst": 30}, packet="300 B")
    assert packets == pytest.approx(65.1, abs=1.5)


@pytest.mark.parametrize("engine", ["uml", "ns3", "ns2"])
def test_adaptive_red_keeps_its_thresholds(run_in, engine):
    """It looks for the probability with which the average is 40 to 60 % of the way between them: 27 to 33 kB. At the
    given one it would be 45 kB; ns-3's ARED would take 7.5 kB and three times that for thresholds. The probability goes
    to 0.15, by at most 0.01 each half second: a kernel's queue, which begins anew, takes 8 s."""
    finished, packets = overloaded(run_in, engine, {**RED, "probability": 0.02, "adaptive": True}, warmup_s=9)
    assert finished.json("verdict.json")["verdict"] == "valid"
    assert 27_000 / 1514 < packets < 33_000 / 1514
    if engine == "uml":
        early = finished.table("queue").query("link == 'right_to_left' and 1000000 < t_us < 4000000")
        assert early["backlog_packets"].mean() == pytest.approx(45_000 / 1514, abs=0.3)


@pytest.mark.parametrize("engine", ["uml", "ns3"])
def test_red_below_a_shaper_never_sees_that_it_is_idle(run_in, engine):
    """Two seconds of rest leave the average where it was: of 166 packets at 100 Mbit/s it drops as large a share as of
    the last 200 before the rest, a third to a half. The average itself depends on the engine: a kernel's begins at 0
    (83 of 166 are dropped then, by a model of RED, with a standard deviation of 4), a simulator's where the test before
    the traffic left it. If half of the average were forgotten the kernel would drop 16, and none if all of it were."""
    one = {"kind": "cbr", "packet": "1500 B", "paths": ["n2->n1"]}
    finished = run_in(engine, small_scenario(
        traffic=[{**one, "name": "before", "rate": "12 Mbit/s", "stop": "2 s"},
                 {**one, "name": "after", "rate": "100 Mbit/s", "start": "4 s", "stop": "4020 ms"}],
        **{"topology.central.queue": {**RED, "burst": 300}, "topology.edge.rate": "1 Gbit/s"}))
    drops = finished.table("queue").query("link == 'right_to_left'").set_index("t_us")["drops"]
    before = (drops[2_000_000] - drops[1_800_000]) / 200
    assert before > 0.25
    assert (drops[4_500_000] - drops[3_900_000]) / 166 == pytest.approx(before, abs=0.1)


def test_a_full_red_queue_in_bytes(run_in):
    """Where RED itself drops next to nothing, what limits it holds as many whole frames in every engine."""
    queue = {"kind": "red", "limit": "20 kB", "min": "10 kB", "max": "20 kB", "avpkt": "1500 B", "burst": 200,
             "probability": 0.01}
    for engine in ("uml", "ns3", "ns2"):
        finished, _ = overloaded(run_in, engine, queue)
        assert finished.table("queue").query("link == 'right_to_left'")["backlog_packets"].max() == 20_000 // 1514


@pytest.mark.parametrize("kind", ["codel", "fq_codel"])
def test_ns3s_codel_holds_what_the_kernels_does(run_in, kind):
    """It sheds its load slowly: some 80 packets wait on average."""
    packets = {engine: overloaded(run_in, engine, {"kind": kind, "limit": 1000})[1] for engine in ("uml", "ns3")}
    assert packets["ns3"] == pytest.approx(packets["uml"], abs=0.2) and packets["ns3"] > 60


@pytest.mark.parametrize("engine", ["uml", "ns3"])
def test_pie_comes_to_its_target(run_in, engine):
    """15 ms are 12.4 packets."""
    tree = {"topology.central.queue": {"kind": "pie", "limit": 1000}, "timing.warmup": "5 s", "timing.test": "25 s"}
    finished = run_in(engine, small_scenario(
        traffic={"kind": "cbr", "rate": "12 Mbit/s", "packet": "1500 B", "paths": ["n2->n1"]}, **tree))
    packets = finished.table("queue").query("link == 'right_to_left' and t_us > 5000000")["backlog_packets"]
    assert packets.mean() == pytest.approx(12.4, abs=0.5)
