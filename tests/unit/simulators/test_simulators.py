# SPDX-License-Identifier: GPL-2.0-only
"""What simulators have in common, and what the ns-3 driver is told; nothing is simulated here."""
import array
import json
import os
import sys

import pandas as pd
import pytest

from testbed import engines
from testbed.core import raw_tables
from testbed.core.errors import RunFailed, UsageError
from testbed.engines._simulators import changing, driver_orders, idle, process, tables, workload
from testbed.engines.ns3 import ccas
from topologies.links.records import Network
from traffic.workload.records import Workload


def test_parameters_become_attributes():
    told = ccas.settings("cubic", {"hystart": "0", "hystart_delay_max_us": "16000", "quick_acks": "16", "prr": "0"},
                         (3, 37))
    assert told["type"] == "ns3::TcpCubic"
    assert (told["+HyStart"], told["+HyStartDelayMax"]) == ("false", "16000us")
    assert (told["quick_acks"], told["min_rto_us"]) == ("16", "200000")
    assert told["recovery"] == "ns3::TcpClassicRecovery"


def test_libra_is_told_the_capacity_in_bit_per_s():
    assert ccas.settings("libra", {"unit": "1000", "capacity": "100000"}, (3, 37))["+Capacity"] == "100000000"
    assert ccas.settings("libra", {}, (3, 37))["+Capacity"] == "100000000"


@pytest.mark.parametrize("version, kind", [((3, 37), "WestwoodPlus"), ((3, 43), None)])
def test_only_the_older_westwood_has_two_kinds(version, kind):
    told = ccas.settings("westwood", {}, version)
    assert (told["type"], told.get("+ProtocolType")) == ("testbed::Westwood", kind)


@pytest.mark.parametrize("given, message", [
    ({"hystart_detect": "3"}, "engine ns3 has no parameter 'hystart_detect' of cubic; there are: hystart, "),
    ({"hystart": "yes"}, "parameter hystart of cubic: a whole number expected, not 'yes'")])
def test_parameters_that_there_are_not(given, message):
    with pytest.raises(UsageError, match=message):
        ccas.settings("cubic", given, (3, 37))


def test_sysctls_that_can_be_honoured():
    engine = engines.load("ns3")
    assert engine._not_possible({"net.ipv4.tcp_sack": 0, "net.ipv4.tcp_recovery": 0, "net.ipv4.tcp_ecn": "1"}) == []
    assert engine._not_possible({"net.ipv4.tcp_recovery": 1, "net.ipv4.tcp_x": "a b"}) == [
        "net.ipv4.tcp_recovery=1", "net.ipv4.tcp_x=a b"]


def test_an_order_has_no_room_for_spaces():
    assert driver_orders.line("link", "a_to_b", rate_bps=5, bottleneck=True) == "link a_to_b rate_bps=5 bottleneck=1\n"
    for words in ({"x": "a b"}, {"x": "a\nquit"}):
        with pytest.raises(RunFailed):
            driver_orders.line("link", **words)


def _prepared(flows, module, folder):
    """A workload of one program, whose orders are in job.json."""
    return Workload({"components": [{"name": "c", "kind": "toy"}], "flows": flows, "programs": [
        {"module": module, "component": "c", "arguments": [str(folder / "job.json")]}]})


def test_traffic_of_an_unknown_program_is_refused(tmp_path):
    (tmp_path / "job.json").write_text("{}")
    with pytest.raises(RunFailed, match="engine toy cannot send the traffic of component c: .* what traffic.video"):
        workload.read(_prepared([], "traffic.video", tmp_path), "toy")


NETWORK = Network({
    "nodes": [],
    "links": [{"name": name, "rate_bps": rate, "bottleneck": rate == 10_000_000, "capacity_packets": 10,
               "limit_packets": 10, "limit_bytes": None} for name, rate in
              (("a_r", 100_000_000), ("r_b", 10_000_000), ("b_r", 10_000_000), ("r_a", 100_000_000))],
    "paths": [{"initiator": "a", "acceptor": "b", "base_rtt_us": 1000, "hops": ["a_r", "r_b"],
               "hops_back": ["b_r", "r_a"], "initiator_address": "10.0.1.1", "acceptor_address": "10.0.2.1"}],
})


def test_what_is_measured_before_traffic():
    """An echo of 98 bytes takes 2 x (7.84 + 78.4) us; a sender that offers twice 10 Mbit/s sends every 605.6 us."""
    echo, = idle.echoes(NETWORK)
    assert echo.expected_us == pytest.approx(1000 + 2 * (7.84 + 78.4))
    there, back = idle.overloads(NETWORK)
    assert there.interval_ns == 605_600 and [s.host for s in there.plan.senders] == ["a"]
    assert [s.host for s in back.plan.senders] == ["b"] and back.plan.senders[0].local
    measured = idle.Saturated({"measured_bps": 1e7, "window_packets": 4000, "longest_queue_packets": 10,
                               "longest_queue_bytes": 15140, "dropped_packets": 5})
    checks = idle.checks(NETWORK, [1172.48], [measured, measured])
    assert checks["paths"][0]["measured_rtt_us"] == 1172.48 and checks["bottlenecks"][1]["link"] == "b_r"
    with pytest.raises(ValueError):
        idle.checks(NETWORK, [1172.48], [measured])


def test_columns_that_a_simulator_does_not_know_stay_empty(tmp_path):
    (tmp_path / "tcp_info.csv").write_text("t_us,node,cwnd\n0,n1,10\n")
    tables.from_csv(tmp_path, tmp_path, ["tcp_info", "queue"])
    written = pd.read_csv(tmp_path / "tcp_info.csv.gz")
    assert list(written.columns) == raw_tables.TABLES["tcp_info"].names()
    assert written["cwnd"].tolist() == [10] and written["rttvar_us"].isna().all()
    (tmp_path / "queue.csv").write_text("t_us,length\n0,1\n")
    with pytest.raises(RunFailed, match="queue.csv: columns length are not in testbed/core/raw_tables.py"):
        tables.from_csv(tmp_path, tmp_path, ["queue"])


def test_progress_and_log_of_a_simulator(tmp_path):
    seen = []
    process.run("toy", [sys.executable, "-c", "print('phase checks\\nt 1000000\\nt x\\nhello')"], tmp_path,
                tmp_path / "log.txt", lambda phase, t_us: seen.append((phase, t_us)))
    assert seen == [("checks", 0), ("traffic", 1_000_000)]
    assert (tmp_path / "log.txt").read_text() == "t x\nhello\n"


def test_an_interrupted_run_leaves_no_simulator_behind(tmp_path):
    pids = []

    def interrupt(_phase, t_us):
        pids.append(t_us)
        raise KeyboardInterrupt

    script = "import os, time; print('t', os.getpid(), flush=True); time.sleep(600)"
    with pytest.raises(KeyboardInterrupt):
        process.run("toy", [sys.executable, "-c", script], tmp_path, tmp_path / "log.txt", interrupt)
    with pytest.raises(ProcessLookupError):

        os.kill(pids[0], 0)


def test_instants_of_packets_are_those_of_the_programs(tmp_path):
    """A job of two flows: one with equal gaps, one that sends in two bursts."""
    equal = {"flow": 1, "start_us": 0, "stop_us": 9, "gap_ns": 1000, "payload_bytes": 100}
    bursts = {**equal, "flow": 2, "bursts_us": [[1, 3], [6, 8]]}
    (tmp_path / "job.json").write_text(json.dumps({"send": [equal, bursts], "receive": []}))
    flows = [{"flow": number, "sender": "a", "receiver": "b", "dst": "10.0.0.1", "dport": 7, "start_us": 0,
              "stop_us": 9} for number in (1, 2)]
    work = workload.read(_prepared(flows, "traffic.datagrams.program", tmp_path), "toy")
    workload.write_instants(work, tmp_path)
    assert [path.name for path in tmp_path.glob("*.departures")] == ["flow-2.departures"]
    assert array.array("q", (tmp_path / "flow-2.departures").read_bytes()).tolist() == [1000, 2000, 6000, 7000]
    first, second = driver_orders.traffic(work, lambda flow: {})
    assert "gap_ns=1000" in first and "departures=flow-2.departures" in second and "gap_ns" not in second


def test_times_of_a_tcp_flow_that_rests(tmp_path):
    """Its bursts reach the driver as a file of from, to; a flow that never rests has none."""
    (tmp_path / "job.json").write_text(json.dumps({
        "send": [{"flow": 1, "bursts_us": [[0, 5], [7, 9]]}, {"flow": 2}], "receive": []}))
    flows = [{"flow": number, "sender": "a", "receiver": "b", "src": "10.0.0.1", "dst": "10.0.0.2", "sport": None,
              "dport": 7, "start_us": 0, "stop_us": 9, "bytes": None} for number in (1, 2)]
    work = workload.read(_prepared(flows, "traffic.greedy.flows", tmp_path), "toy")
    workload.write_instants(work, tmp_path)
    assert array.array("q", (tmp_path / "flow-1.bursts").read_bytes()).tolist() == [0, 5, 7, 9]
    first, second = driver_orders.traffic(work, lambda flow: {})
    assert "bursts=flow-1.bursts" in first and "bursts" not in second and not (tmp_path / "flow-2.bursts").exists()


LINK = {"name": "a_b", "rate_bps": 10_000_000, "delay_us": 5000, "loss_percent": 0.0, "limit_packets": 20,
        "schedule": [{"at_us": 1_000_000, "rate_bps": 5_000_000}, {"at_us": 2_000_000, "limit": 7, "up": False}]}


def test_a_change_says_all_that_is_so_of_a_link():
    one, two = changing.changes(Network({"links": [{"name": "plain", "rate_bps": 1}, LINK]}))
    assert one == ("change a_b at_us=1000000 limit_changes=0 rate_bps=5000000 delay_us=5000 loss_percent=0.0 limit=20 "
                   "up=1\n")
    assert two.split()[2:] == ["at_us=2000000", "limit_changes=1", "rate_bps=5000000", "delay_us=5000",
                               "loss_percent=0.0", "limit=7", "up=0"]


def test_opportunities_of_a_trace_begin_anew(tmp_path):
    network = Network({"links": [
        {"name": "a_b", "opportunities": {"times": [[1000, 2], [3000, 1]], "period_us": 3000}}]})
    changing.write_opportunities(network, 7000, tmp_path)
    assert list(changing.traces(network)) == ["trace a_b opportunities=a_b.opportunities\n"]
    assert array.array("q", (tmp_path / "a_b.opportunities").read_bytes()).tolist() == [
        1000, 2, 3000, 1, 4000, 2, 6000, 1]


@pytest.mark.parametrize("moderate, bytes_", [(1, "6000"), (0, "500")])
def test_the_receive_buffer_without_autotuning_is_the_one_it_begins_with(moderate, bytes_):
    settings = {"net.ipv4.tcp_rmem": "400 500 6000", "net.ipv4.tcp_moderate_rcvbuf": moderate}
    assert driver_orders._receive_buffer(settings) == bytes_
