# SPDX-License-Identifier: GPL-2.0-only
"""The ns-3 engine: its network to the nanosecond, its queues, its traffic, its verdict."""
import json
import os
import re
import shutil
import stat

import pytest

from testbed import checks, engines
from testbed.core.errors import DamagedRun, EnvironmentProblem, RunFailed, UsageError
from testbed.core.run_files import Scenario
from testbed.engines.ns3 import build, ccas, installation
from testbed.scenario import scenario
from tests.engines.conftest import FinishedRun, carry_out, small_scenario
from tests.kernel.small_runs import PARKING_LOT
from traffic.workload.records import Variant


@pytest.fixture(scope="module")
def greedy(run_in):
    return run_in("ns3", small_scenario())


def judged(finished):
    verdict = finished.json("verdict.json")
    return verdict["verdict"], {check["message"] for check in verdict["reasons"]}


def test_a_greedy_flow_fills_the_link(greedy):
    """10 Mbit/s in frames of 1514 bytes carry 1448 bytes of data each."""
    assert greedy.metrics()["mean_throughput_l4", "flow_1"] == pytest.approx(10 * 1448 / 1514, rel=0.01)
    queue = greedy.table("queue").query("link == 'right_to_left'")
    assert queue["backlog_packets"].max() == 50 and queue["drops"].iloc[-1] > 0
    counters = greedy.json("raw/counters.json")["drained"]["right_to_left"]
    assert counters["queued_packets"] == counters["wire_queued_packets"] == 0
    assert queue["sent_packets"].iloc[-1] <= counters["sent_packets"] <= queue["sent_packets"].iloc[-1] + 60
    # a full buffer holds a packet 50 x 1.2112 ms
    assert 55_000 < greedy.table("sojourn")["max_us"].max() <= 50 * 1211.2
    sender = greedy.table("tcp_info").query("node == 'n2' and state == 'ESTAB'")
    assert set(sender["cca"]) == {"reno"} and sender["total_retrans"].iloc[-1] > 0
    assert sender["mss"].unique().tolist() == [1448]


def test_the_same_seed_gives_the_same_bytes(run_in):
    tree = small_scenario(**{"topology.central.loss": "1 %", "timing.test": "1 s"})
    one, two, other = (run_in("ns3", tree, seed=seed).json("run.json")["raw_sha256"] for seed in (1, 1, 2))
    assert one == two != other


@pytest.mark.parametrize("cca", sorted(ccas.ALGORITHMS))
def test_nothing_depends_on_what_was_in_memory(run_in, monkeypatch, cca):
    """MALLOC_PERTURB_ of mallopt(3) fills memory when it is given and taken: what nobody sets, and what is used when it
    is gone, shows. ns-3's Westwood does both, for connections that were accepted (simulation/ns3/westwood.h)."""
    tree = small_scenario(**{"timing.test": "2 s", "hosts": {"ecn": 1},
                             "traffic": {"kind": "tmix", "target": "right_to_left", "load": "60 %"}})
    hashes = set()
    for fill in ("85", "170"):
        monkeypatch.setenv("MALLOC_PERTURB_", fill)
        hashes.add(run_in("ns3", tree, cca).json("run.json")["raw_sha256"])
    assert len(hashes) == 1


def test_slow_start_counts_every_segment(run_in):
    """From 10 segments the window grows by one for each that is acknowledged, until a segment is lost."""
    finished = run_in("ns3", small_scenario(**{"probes": {"queue": {}, "tcp_probe": {}}}))
    flow, = finished.json("raw/workload.json")["flows"]
    received = finished.table("tcp_probe")
    mine = received[received["src"].str.startswith(flow["src"]) & (received["snd_una"] > 0)]
    duplicate_us = mine.loc[mine["snd_una"].diff() == 0, "t_us"].min()
    growing = mine[mine["t_us"] < duplicate_us].iloc[:-1]       # the last already tells of a gap
    acked = (growing["snd_una"] - 1) // 1448
    before = growing[growing["snd_cwnd"] < growing["ssthresh"]]
    assert len(before) > 30
    assert (before["snd_cwnd"] == 10 + acked[before.index]).all()


@pytest.mark.parametrize("queue", [
    {"kind": "bfifo", "limit": "75 kB"}, {"kind": "red", "limit": "150 kB"}, {"kind": "codel", "limit": 500},
    {"kind": "fq_codel"}, {"kind": "pie", "limit": 50}], ids=lambda queue: queue["kind"])
def test_every_queue(run_in, queue):
    """Each fills the link; an AQM keeps its queue shorter than it might be. (PIE drops nothing in the first 150 ms of a
    queue: with a longer one slow start would overshoot, and the flow wait for timeouts, in Linux, too.)"""
    finished = run_in("ns3", small_scenario(**{"topology.central.queue": queue}))
    assert judged(finished)[0] == "valid"
    assert finished.metrics()["throughput_mean", "right_to_left"] > 8.5
    longest = finished.table("queue").query("link == 'right_to_left' and t_us > 2000000")["backlog_bytes"].max()
    assert longest <= (75_000 if queue["kind"] == "bfifo" else 150_000)


def test_any_topology_and_kind_of_traffic(run_in):
    finished = run_in("ns3", small_scenario(topology=PARKING_LOT, traffic=[
        {"kind": "greedy", "tool": "sockets", "paths": ["n1->n6", "n5->n4"]},
        {"kind": "cbr", "rate": "2 Mbit/s", "paths": ["n2->n3"], "stop": "4 s"}]))
    assert judged(finished) == ("valid", set())
    udp, = finished.json("raw/guest.json")["traffic"]["cbr"]["flows"]
    # 1014 bytes on the link every 4.056 ms for four seconds
    assert udp["sent_packets"] == 987 and udp["received_packets"] == udp["sent_packets"] - udp["lost_packets"]
    assert finished.metrics()["mean_throughput_l4", "flow_1"] > 0.5


def test_chosen_segments_are_lost(run_in):
    tree = small_scenario(**{"traffic.sequence_start": 0, "topology.central": {
        "left_to_right": DUPLEX, "right_to_left": {**DUPLEX, "lose_segments": [14, 28]}}})
    finished = run_in("ns3", tree)
    assert finished.json("raw/counters.json")["drained"]["right_to_left"]["chosen_dropped_packets"] == 2
    assert len(finished.table("tcp_info").query("total_retrans >= 2")) > 0


DUPLEX = {"rate": "10 Mbit/s", "delay": "10 ms", "queue": {"kind": "pfifo", "limit": 200}}


@pytest.mark.parametrize("cca", sorted(set(ccas.ALGORITHMS) - {"reno", "dctcp"}))
def test_every_congestion_control_runs(run_in, cca):
    finished = run_in("ns3", small_scenario(**{"timing.test": "2 s"}), cca=cca)
    assert judged(finished)[0] == "valid"
    # TCP-LP yields to the queue that it makes itself
    assert finished.metrics()["mean_throughput_l4", "flow_1"] > (0.5 if cca == "lp" else 2)


# -- the verdict can fail --------------------------------------------------------------------------

def spoiled(finished, folder, name, change):
    """The verdict on a copy of a run of which one raw file says something else."""
    copy = folder / "run"
    shutil.copytree(finished.folder, copy)
    content = json.loads((copy / "raw" / name).read_text())
    change(content)
    (copy / "raw" / name).write_text(json.dumps(content))
    with pytest.raises(DamagedRun):             # nobody can do this to a sealed run unnoticed
        checks.judge_run(copy)
    plan, environment = (json.loads((copy / file).read_text()) for file in ("plan.json", "environment.json"))
    return checks.judge(checks.Evidence(copy, Scenario(plan["scenario"]), environment["clock"],
                                        list(map(Variant, plan["variants"])), environment["capabilities"]))


@pytest.mark.parametrize("name, change, check", [
    ("checks.json", lambda c: c["paths"][0].update(measured_rtt_us=20_300), "idle_network"),
    ("checks.json", lambda c: c["bottlenecks"][0].update(measured_bps=9.95e6), "idle_network"),
    ("checks.json", lambda c: c["bottlenecks"][1].update(longest_queue_packets=51), "idle_network"),
    ("counters.json", lambda c: c["drained"]["r2_n2" if "r2_n2" in c["drained"] else "right_to_left"].update(
        device_rx_packets=1), "conservation")])
def test_a_wrong_network_is_noticed(greedy, tmp_path, name, change, check):
    verdict = spoiled(greedy, tmp_path, name, change)
    assert verdict["verdict"] == "invalid" and check in {reason["check"] for reason in verdict["reasons"]}


def test_a_simulated_link_that_is_too_slow_is_noticed(tmp_path, monkeypatch):
    """The driver is told another rate than the scenario has: its own measurements say so."""
    from testbed.engines.ns3 import driver_orders
    right = driver_orders.text
    monkeypatch.setattr(driver_orders, "text",
                        lambda *args: right(*args).replace("rate_bps=10000000 ", "rate_bps=9900000 "))
    engine = engines.load("ns3")
    engine.prepare(print)
    (tmp_path / "s.yaml").write_text(json.dumps(small_scenario(**{"timing.test": "1 s"})))
    finished = carry_out(scenario.expand(str(tmp_path / "s.yaml"), {}, False, []), engine, "reno", 1, tmp_path)
    verdict, reasons = judged(finished)
    assert verdict == "invalid" and any("9.900 Mbit/s" in reason for reason in reasons)


# -- what goes wrong -------------------------------------------------------------------------------

@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of the driver."""
    monkeypatch.setattr(build, "cache_dir", lambda: tmp_path / "cache")
    return tmp_path / "cache"


def test_a_driver_that_does_not_compile(cache, tmp_path, monkeypatch):
    (tmp_path / "driver.cc").write_text("int main() { return nothing; }\n")
    monkeypatch.setattr(build, "SOURCES", tmp_path)
    with pytest.raises(EnvironmentProblem, match=r"^the ns-3 driver does not compile: .*driver.cc:1.*nothing.*$"):
        engines.load("ns3").prepare(lambda text: None)


def test_a_missing_package(tmp_path, monkeypatch):
    monkeypatch.setattr(installation, "SYSTEM", tmp_path)
    problems = engines.load("ns3").problems()
    assert [(p.message, p.fix) for p in problems] == [("ns-3's library is missing", "apt-get install libns3-dev")]


def test_an_installation_of_ones_own(cache, run_in, tmp_path):
    """Debian's as links in a folder with a space in its name: the same bytes, from a driver of its own."""
    own = tmp_path / "my ns-3"
    (own / "include").mkdir(parents=True)
    (own / "include" / "ns3").symlink_to("/usr/include/ns3")
    (own / "lib").mkdir()
    for library in installation.of(None).libraries:
        (own / "lib" / library.name).symlink_to(library)
    (tmp_path / "s.yaml").write_text(json.dumps(small_scenario()))
    engine = engines.load("ns3", {"ns3": str(own)})
    engine.prepare(lambda text: None)
    finished = carry_out(scenario.expand(str(tmp_path / "s.yaml"), {}, False, []), engine, "reno", 1, tmp_path)
    assert finished.error is None
    environment = finished.json("environment.json")
    assert environment["ns3_path"] == str(own) and environment["kernel_key"].endswith(environment["ns3_sha256"][:12])
    usual = run_in("ns3", small_scenario())
    assert finished.json("run.json")["raw_sha256"] == usual.json("run.json")["raw_sha256"]


def test_libraries_that_are_none(cache, tmp_path):
    own = tmp_path / "ns3"
    (own / "include").mkdir(parents=True)
    (own / "include" / "ns3").symlink_to("/usr/include/ns3")
    (own / "lib").mkdir()
    for library in installation.of(None).libraries:
        (own / "lib" / library.name).write_text("no library")
    (tmp_path / "driver.cc").write_text("int main() {}\n")
    with pytest.raises(EnvironmentProblem, match="^the ns-3 driver does not compile: .*"):
        engines.load("ns3", {"ns3": str(own)}).prepare(lambda text: None)


def fake_driver(cache, script):
    driver = build.driver(installation.of(None))
    driver.parent.mkdir(parents=True)
    driver.write_text(f"#!/bin/sh\n{script}\n")
    os.chmod(driver, stat.S_IRWXU)


@pytest.mark.parametrize("script, message", [
    ("echo 'assert failed. cond=\"x\"' >&2; kill -ABRT $$", r"the ns3 driver crashed \(SIGABRT\): assert failed. .*"),
    ("echo 'queue.csv: No space left on device' >&2; exit 1",
     "the ns3 driver ended with exit status 1: queue.csv: No space left on device"),
    ("exit 3", "the ns3 driver ended with exit status 3: without a word")])
def test_a_simulator_that_fails(cache, tmp_path, script, message):
    fake_driver(cache, script)
    (tmp_path / "s.yaml").write_text(json.dumps(small_scenario()))
    finished = carry_out(scenario.expand(str(tmp_path / "s.yaml"), {}, False, []), engines.load("ns3"), "reno", 1,
                         tmp_path)
    assert isinstance(finished, FinishedRun) and re.fullmatch(message, finished.error)
    assert finished.json("run.json")["status"] == "failed"


@pytest.mark.parametrize("tree, message", [
    (small_scenario(**{"topology.central.queue": {"kind": "sfq"}}), "engine ns3 has no queue sfq; there are: pfifo, "),
    (small_scenario(hosts={"sysctls": {"net.ipv4.tcp_fack": 1}}),
     "hosts.sysctls.net.ipv4.tcp_fack: engine ns3 cannot set 1"),
    (small_scenario(hosts={"jitter": "1 ms"}), "hosts.jitter: engine ns3 cannot set it; it has: ecn, sack, ")])
def test_what_it_does_not_have(tmp_path, tree, message):
    (tmp_path / "s.yaml").write_text(json.dumps(tree))
    engine = engines.load("ns3")
    engine.prepare(print)
    finished = carry_out(scenario.expand(str(tmp_path / "s.yaml"), {}, False, []), engine, "reno", 1, tmp_path)
    assert message in finished.error and "\n" not in finished.error


@pytest.mark.parametrize("name, message", [
    ("cdg", "engine ns3 has no congestion control 'cdg'; it has: bbr, "),
    ("tahoe", "engine ns3 loads no modules; of those that come with the testbed it has libra")])
def test_congestion_controls_that_it_does_not_have(name, message):
    from testbed.scenario import ccas as subjects
    with pytest.raises((UsageError, RunFailed), match=re.escape(message)):
        subjects.make_ready(*subjects.parse(name), engines.load("ns3"), print)
