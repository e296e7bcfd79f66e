# SPDX-License-Identifier: GPL-2.0-only
"""The ns-2 engine: its network to the nanosecond, its traffic, its verdict, what it refuses."""
import json
import re
import shutil

import pytest

from testbed import engines
from testbed.core.errors import RunFailed, UsageError
from testbed.engines import ns2
from testbed.scenario import ccas, scenario
from tests.engines.conftest import carry_out, small_scenario


@pytest.fixture(scope="module")
def greedy(run_in):
    return run_in("ns2", small_scenario())


def failed(tree, folder, cca="reno"):
    """The error of a run that cannot be."""
    (folder / "s.yaml").write_text(json.dumps(tree))
    error = carry_out(scenario.expand(str(folder / "s.yaml"), {}, False, []), engines.load("ns2"), cca, 1, folder).error
    assert error and "\n" not in error
    return error


def test_a_greedy_flow_fills_the_link(greedy):
    """10 Mbit/s in frames of 1514 bytes carry 1448 bytes of data each; a full buffer holds a packet 50 x 1.2112 ms."""
    assert greedy.metrics()["mean_throughput_l4", "flow_1"] == pytest.approx(10 * 1448 / 1514, rel=0.01)
    queue = greedy.table("queue").query("link == 'right_to_left'")
    assert 49 <= queue["backlog_packets"].max() <= 50 and queue["drops"].iloc[-1] > 0
    assert 20_000 < greedy.table("sojourn").query("link == 'right_to_left'")["mean_us"].max() <= 50 * 1211.2


@pytest.mark.parametrize("cca", ["newreno", "tahoe", "reno-classic", "cubic", "vegas", "westwood"])
def test_other_congestion_controls(run_in, cca):
    """Two-way agents and Linux's modules in one-way agents."""
    finished = run_in("ns2", small_scenario(), cca=cca)
    assert finished.json("verdict.json")["verdict"] == "valid"
    assert 5 < finished.metrics()["throughput_mean", "right_to_left"] <= 10.01


def test_the_initial_window_is_the_scenarios(run_in):
    """After a round trip of 20 ms, 10 segments were acknowledged two by two, and the window grew by one for each; the
    threshold is the whole receive window until something is lost."""
    probes = {"queue": {}, "tcp_info": {"interval": "10 ms"}}
    finished = run_in("ns2", small_scenario(probes=probes), cca="scalable")
    sender = finished.table("tcp_info").query("node == 'n2'")
    assert sender.query("10000 <= t_us <= 20000")["cwnd"].unique().tolist() == [10]
    assert sender.query("t_us == 40000")["cwnd"].tolist() == [15]
    assert sender["ssthresh"].iloc[0] > 1000


def test_a_long_flow_never_pauses(run_in):
    """Of 25 s every one after the first is full: 826 frames of 1514 bytes."""
    finished = run_in("ns2", small_scenario(**{"timing.test": "24 s"}))
    sent = finished.table("queue").query("link == 'right_to_left' and t_us % 1000000 == 0")["sent_packets"].diff()
    assert len(sent) == 26 and (sent.iloc[2:] >= 824).all()


def test_a_flow_that_stops(run_in):
    """After its last second, and what was in flight then, nothing is sent."""
    finished = run_in("ns2", small_scenario(**{"traffic.stop": "3 s", "timing.test": "5 s"}))
    sent = finished.table("queue").query("link == 'right_to_left'").set_index("t_us")["sent_packets"]
    assert sent[3_000_000] - sent[2_000_000] > 800 and sent[6_000_000] == sent[3_500_000] < sent[3_000_000] + 200


def test_a_flow_longer_than_ns2_can_count_is_an_error(tmp_path, monkeypatch):
    scripts = tmp_path / "ns2"
    shutil.copytree(ns2._SCRIPTS, scripts)
    (scripts / "flows.tcl").write_text((scripts / "flows.tcl").read_text().replace("most_bytes 2147000000",
                                                                                   "most_bytes 2000000"))
    monkeypatch.setattr(ns2, "_SCRIPTS", scripts)
    assert "flow 1: ns-2 sends no more than 2000000 bytes in one connection" in failed(small_scenario(), tmp_path)


def test_constant_bit_rate(run_in):
    """1014 bytes on the link every 4.056 ms for five seconds."""
    finished = run_in("ns2", small_scenario(traffic={"kind": "cbr", "rate": "2 Mbit/s", "paths": ["n1->n2"]}))
    udp, = finished.json("raw/guest.json")["traffic"]["cbr"]["flows"]
    assert (udp["sent_packets"], udp["lost_packets"]) == (1233, 0)
    assert finished.json("verdict.json")["verdict"] == "valid"


def test_what_it_does_not_have(tmp_path):
    tmix = small_scenario(traffic={"kind": "tmix", "target": "right_to_left", "load": "30 %"})
    tmix["traffic"]["windows"] = "vector"
    assert "windows: engine ns2 does not limit the receive windows" in failed(tmix, tmp_path)
    for change, message in (({"topology.central.queue": {"kind": "codel"}}, "has no queue codel; there are: pfifo, "),
                            ({"topology.central.loss": "1 %"}, "engine ns2 has no losses but those of queues"),
                            ({"hosts": {"ecn": 1}}, "hosts.ecn: engine ns2 cannot set it")):
        assert message in failed(small_scenario(**change), tmp_path)
    for name, message in (("bbr", "engine ns2 has no congestion control 'bbr'"),
                          ("libra", "it has tahoe, reno_classic")):
        with pytest.raises((UsageError, RunFailed), match=re.escape(message)):
            ccas.make_ready(*ccas.parse(name), engines.load("ns2"), print)


@pytest.fixture(scope="module")
def one_way(run_in):
    """Some hundred connections over agents that are used again and again, half of the traffic up."""
    traffic = {"kind": "tmix", "target": "right_to_left", "load": "50 %", "reverse_load": "40 %"}
    return run_in("ns2", small_scenario(traffic=traffic, **{"timing.test": "9 s"}), cca="cubic")


def test_linux_modules_carry_connections_over_two_agents(one_way):
    """Every byte of every data unit, after a handshake of a round trip; the last one of a connection before its end."""
    reasons = one_way.json("verdict.json")["reasons"]
    # so short a load is not steady
    assert [one["message"].partition(" differ")[0] for one in reasons] == ["second and last third of the offered load"]
    connections = one_way.table("connections")
    finished = connections.query("status == 'finished'")
    assert len(finished) > 100 and len(finished) > 0.8 * len(connections)
    for side in ("init", "acc"):
        assert (finished[f"{side}_bytes_delivered"] == finished[f"{side}_bytes_asked"]).all()
    assert (finished["adus_delivered"] == finished["adus_asked"]).all()
    # a SYN of 67 bytes crosses 100, 10 and 100 Mbit/s there and back, the answer behind an acknowledgement or two
    handshake_us = (connections["connected_us"] - connections["start_us"]).min()
    least_us = 20_000 + 2 * 67 * 8 * (1 / 100 + 1 / 10 + 1 / 100)
    assert least_us < handshake_us < least_us + 2 * 66 * 8 / 10
    last = one_way.table("adus").groupby(["source", "conn"])["delivered_us"].max()
    ended = finished.set_index(["source", "conn"])["end_us"]
    assert (ended - last.reindex(ended.index)).dropna().min() > 0


def test_data_units_have_the_frames_of_tcp(one_way):
    """66 bytes of headers for each segment, 67 for SYN and FIN, acknowledgements for one or two: what is left over is
    little of a segment that was filled up, or sent twice."""
    units, links = one_way.table("adus"), one_way.table("queue").groupby("link").last()
    delivered = units.dropna(subset=["delivered_us"])
    bytes_ = delivered.groupby("side")["bytes"].sum()
    segments = (-(-delivered["bytes"] // 1448)).groupby(delivered["side"]).sum()
    for side, link, other in (("a", "right_to_left", "i"), ("i", "left_to_right", "a")):
        least = bytes_[side] + 66 * (segments[side] + segments[other] / 2)
        assert least < links["sent_bytes"][link] < 1.12 * least


def test_a_script_that_fails(tmp_path, monkeypatch):
    right = ns2.Engine.order_text
    monkeypatch.setattr(ns2.Engine, "order_text", lambda *args: right(*args).replace("duration_us=", "duration="))
    assert failed(small_scenario(), tmp_path).startswith(
        "the ns2 driver ended with exit status 1: driver.tcl: orders: no duration_us: run ")


def test_a_missing_program(monkeypatch):
    monkeypatch.setattr(ns2, "_PROGRAM", "/nowhere/ns")
    assert [(p.message, p.fix) for p in engines.load("ns2").problems()] == [("ns-2 is missing", "apt-get install ns2")]


def test_nothing_is_delivered_before_it_is_sent(run_in):
    """Where a SYN is lost, the driver finds out late that a connection is established: not after its data arrive."""
    finished = run_in("ns2", small_scenario(
        traffic={"kind": "tmix", "target": "right_to_left", "load": "80 %", "reverse_load": "60 %"},
        **{"topology.central.queue": {"kind": "pfifo", "limit": 8}, "timing.test": "7 s"}))
    connections = finished.table("connections").query("connected_us.notna()")
    late = connections.query("connected_us - start_us > 1000000")
    assert len(late) > 3                # their SYN was lost
    units = finished.table("adus").query("delivered_us.notna()")
    assert (units["delivered_us"] - units["sent_us"]).min() >= 10_000
