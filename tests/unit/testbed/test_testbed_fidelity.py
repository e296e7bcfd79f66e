# SPDX-License-Identifier: GPL-2.0-only
"""Every fidelity check passes on good evidence, fails on bad, and does not pass without any."""
import re

import pytest

import evidence_files
from testbed import fidelity


@pytest.fixture
def files():
    return evidence_files.good_files()


@pytest.fixture
def findings(tmp_path):
    """findings(check, files) -> [(level, message)], the worst first."""
    def found(check, files, **evidence):
        return evidence_files.findings(tmp_path, check, files, **evidence)
    return found


@pytest.mark.parametrize("check", fidelity.names())
def test_every_check_passes_on_good_evidence(findings, files, check):
    found = findings(check, files)
    assert found and {level for level, _ in found} == {"ok"}, found


#: (check, file, field, bad value, level, part of the message)
BAD_FIELDS = [
    ("conservation", "counters.json", "drained/right_to_left/sent_packets", 9_899, "invalid",
     "right_to_left: sent = left the device"),
    ("conservation", "counters.json", "drained/n1_to_r1/device_rx_packets", 4_999, "invalid",
     "left the device = arrived"),
    ("conservation", "counters.json", "drained/n1_to_r1/wire_delivered_packets", 4_999, "invalid",
     "arrived = delivered"),
    ("conservation", "counters.json", "drained/n1_to_r1/wire_dropped_packets", 1, "invalid", "on the wire"),
    ("conservation", "counters.json", "drained/right_to_left/dropped_packets", 99, "invalid",
     "r2: 15000 packets in but 14900 out + 99 dropped + 0 queued"),
    ("conservation", "counters.json", "drained/left_to_right/queued_packets", 7, "invalid",
     "r1: 14900 packets in but 14900 out + 0 dropped + 7 queued"),
    ("conservation", "counters.json", "drained", {}, "invalid", "not those of this network"),
    ("conservation", "counters.json", "drained/alien", {}, "invalid", "alien"),
    ("idle_network", "checks.json", "paths/0/measured_rtt_us", 8060.0, "invalid", "8.060 ms instead of 8.047 ms"),
    ("idle_network", "checks.json", "paths/0/measured_rtt_us", 8030.0, "invalid", "8.030 ms instead"),
    ("idle_network", "checks.json", "paths/0/measured_rtt_us", None, "invalid", "no answer"),
    ("idle_network", "checks.json", "bottlenecks/0/measured_bps", 98_000_000, "invalid", "98.000 Mbit/s"),
    ("idle_network", "checks.json", "bottlenecks/1/measured_bps", 100_200_000, "invalid", "right_to_left saturated"),
    ("idle_network", "checks.json", "bottlenecks/1/longest_queue_packets", 851, "invalid", "reached 851"),
    ("idle_network", "checks.json", "bottlenecks/1/longest_queue_packets", 800, "invalid", "reached 800"),
    ("idle_network", "checks.json", "bottlenecks/1/dropped_packets", 0, "invalid", "0 drops"),
    ("idle_network", "checks.json", "bottlenecks/0/window_packets", 0, "invalid", "over 0 packets"),
    ("idle_network", "checks.json", "bottlenecks/0/overloaded", False, "suspect", "cannot overload"),
    ("idle_network", "checks.json", "bottlenecks/0/filled", False, "suspect",
     "its buffer of 0.1 s (850 packets) is too large"),
    ("idle_network", "checks.json", "offloads/r1/r1-eth0", None, "invalid", None),
    ("idle_network", "checks.json", "offloads", {}, "suspect", "no offloads were measured"),
    ("idle_network", "checks.json", "paths", [], "suspect", "no paths were measured"),
    ("idle_network", "checks.json", "bottlenecks", [], "suspect", "no bottlenecks were measured"),
    ("losses", "counters.json", "drained/n1_to_r1/wire_dropped_packets", 1, "invalid",
     "n1_to_r1 has no random loss, but lost 1 packets"),
    ("losses", "counters.json", "drained/r1_to_n1/dropped_packets", 2, "suspect", "r1_to_n1 is no bottleneck"),
    ("load", "workload.json", "components/0/target_load", 0.7, "invalid", "target 70%"),
    ("load", "workload.json", "components/0/target_load", 0.5, "invalid", "+22.00%"),
    ("load", "workload.json", "components/0/thirds_bps/right_to_left", [60e6, 60e6, 64e6], "suspect", "differ by 6.7%"),
    ("load", "workload.json", "components/0/thirds_bps/right_to_left", [60e6, 0, 60e6], "suspect", "differ by"),
    ("load", "workload.json", "components/0/offered_bps/right_to_left", 0, "invalid", "offered load 0.00%"),
    ("load", "workload.json", "components/0/measured_us", [30_000_000, 30_000_000], "suspect", "carried load unknown"),
    ("sampling", "guest.json", "sampler_lateness_us/tcp_info", 1001, "suspect", "tcp_info was up to 1001 us late"),
    ("sampling", "guest.json", "sampler_lateness_us/queue", 1001, "suspect", "queue was up to 1001 us late"),
    ("sampling", "guest.json", "sampler_lateness_us", {"queue": 0}, "suspect", "no record of probe tcp_info"),
    ("sampling", "guest.json", "probes/sojourn", {"lost_events": 3}, "invalid", "lost 3 events"),
    ("settings", "checks.json", "sysctls/r1/net.ipv4.tcp_congestion_control", "reno", "invalid", "is reno, not cubic"),
    ("settings", "checks.json", "sysctls/n1/net.ipv4.tcp_rmem", "4096 87380 1000", "invalid",
     "n1: net.ipv4.tcp_rmem is 4096 87380 1000, not"),
    ("settings", "checks.json", "sysctls/n2", {}, "invalid", "n2: net.ipv4.tcp_sack is None, not 1"),
    ("settings", "checks.json", "sysctls", {}, "invalid", "is None"),
    ("settings", "checks.json", "sysctls_wanted", {}, "suspect", "no record of the kernel settings"),
]


@pytest.mark.parametrize("check, file, field, value, level, message", BAD_FIELDS)
def test_bad_evidence_is_found(findings, files, check, file, field, value, level, message):
    if field == "offloads/r1/r1-eth0":
        files[file]["offloads"]["r1/r1-eth0"]["gso"], message = True, "offloads are on: r1/r1-eth0 gso"
    else:
        evidence_files.set_at(files[file], field, value)
    found = findings(check, files)
    assert found[0][0] == level
    assert any(message in text for got, text in found if got == level), found


@pytest.mark.parametrize("field, value, chance, level", [
    ("thirds_bps", [60e6, 60e6, 64e6], {"thirds_chance": 0.02}, "ok"),
    ("thirds_bps", [60e6, 60e6, 66e6], {"thirds_chance": 0.02}, "suspect"),
    ("offered_bps", 64e6, {"load_chance": 0.02}, "ok"), ("offered_bps", 66e6, {"load_chance": 0.02}, "invalid"),
    ("offered_bps", 64e6, {}, "invalid"), ("offered_bps", 64e6, {"counted_bps": {"right_to_left": 61e6}}, "ok"),
    ("offered_bps", 61e6, {"counted_bps": {"right_to_left": 64e6}}, "invalid")])
def test_a_load_is_judged_by_what_chance_does_to_it(findings, files, field, value, chance, level):
    component, = files["workload.json"]["components"]
    component[field]["right_to_left"] = value
    component.update(chance)
    found = [(got, text) for got, text in findings("load", files) if "carried" not in text]
    assert max(found, key=lambda one: fidelity.LEVELS.index(one[0]))[0] == level
    assert any("by chance alone 2.0%" in text for _, text in found) == (0.02 in chance.values())


@pytest.mark.parametrize("changes, level, message", [
    ({"reverse_load": 0.09}, "ok", "offered load 9.00% of left_to_right, against the target, 9% wanted (+0.00%)"),
    ({"reverse_load": 0.10}, "invalid", "10% wanted (-10.00%)"), ({"reverse_load": 0.08}, "invalid", "(+12.50%)"),
    # nothing was fitted to the measured part
    ({"reverse_load": 0.10, "load_chance": 0.02}, "ok", "10% wanted"),
    ({"reverse_load": 0.10, "counted_bps": {"right_to_left": 61e6, "left_to_right": 10e6}}, "ok", "(+0.00%)")])
def test_the_load_against_the_target_is_judged(findings, files, changes, level, message):
    files["workload.json"]["components"][0].update(reverse_links=["left_to_right"], **changes)
    assert any(got == level and message in text for got, text in findings("load", files))


def test_what_seeds_have_in_common_is_said(findings, files):
    def said():
        return " ".join(text for _, text in findings("load", files))
    assert "each seed has the scale" not in said() and "chosen" not in said()
    files["workload.json"]["components"][0].update(load_chance=0.0, balance="thirds", shuffle_attempts=7)
    assert "(+1.67%; each seed has the scale at which it is met)" in said()
    assert "differ by 3.3%; the arrangement was chosen for it, 7 tried" in said()


def test_windows_of_the_vectors_are_no_defect(findings, files):
    def suspects():
        return [text.partition(" for ")[0] for level, text in findings("windows", files) if level == "suspect"]
    limit_windows(files["tcp_info"])
    assert suspects() == ["sampled flows were limited by the receive window"]
    files["workload.json"]["components"][0]["windows"] = "vector"
    assert suspects() == []
    assert any("10.00% of their busy time, as their vectors have it" in text for _, text in findings("windows", files))
    limit_buffers(files["tcp_info"])
    assert suspects() == ["sampled flows were limited by the send buffer"]


def spoil_connections(table):
    table.loc[7, "acc_bytes_delivered"] = 8999


def spoil_adus(table):
    table.loc[9, "adus_delivered"] = 1


def spoil_request(table):
    table.loc[3, "init_bytes_delivered"] = None


def fail_three(table):
    table.loc[:2, "status"] = "failed: ETIMEDOUT"


def finish_none(table):
    table["status"] = "unfinished"


def overfill(table):
    table.loc[(table["link"] == "right_to_left") & (table["t_us"] == 3_000_000), "backlog_packets"] = 851


def carry_little(table):
    table["sent_bytes"] = table["sent_bytes"] * 8 // 10


def forget_link(table):
    table.drop(table.index[table["link"] == "right_to_left"], inplace=True)


def another_cca(table):
    table.loc[5, "cca"] = "reno"


def unknown_cca(table):
    table.loc[5, "cca"] = ""


def connect_none(table):
    table["state"] = "SYN-SENT"


def limit_windows(table):
    table["rwnd_limited_us"] = table["busy_us"] // 10


def limit_buffers(table):
    table["sndbuf_limited_us"] = table["busy_us"] // 10


def idle(table):
    table["busy_us"] = 0


@pytest.mark.parametrize("check, name, spoil, level, message", [
    ("account", "connections", spoil_connections, "invalid", "1 finished connections did not get .* connection 7"),
    ("account", "connections", spoil_adus, "invalid", "connection 9"),
    ("account", "connections", spoil_request, "invalid", "connection 3"),
    ("account", "connections", fail_three, "suspect", r"4 connections failed \(2.00%\): 3 ETIMEDOUT, 1 ECONNRESET"),
    ("account", "connections", finish_none, "suspect", "none of 200 connections finished"),
    ("load", "queue", carry_little, "suspect", "carried 48.00 Mbit/s of 61.00 offered"),
    ("load", "queue", forget_link, "suspect", "carried load unknown"),
    ("sampling", "queue", overfill, "invalid", "longest queue sampled 851 of 850"),
    ("sampling", "queue", forget_link, "suspect", "right_to_left: its queue was never sampled"),
    ("settings", "tcp_info", another_cca, "invalid", "1 of 62 flow samples use another congestion control: reno"),
    ("settings", "tcp_info", unknown_cca, "invalid", "1 of 62 flow samples"),
    ("settings", "tcp_info", connect_none, "suspect", "no connected flow was sampled"),
    ("windows", "tcp_info", limit_windows, "suspect", "receive window for 10.00%"),
    ("windows", "tcp_info", limit_buffers, "suspect", "send buffer for 10.00%"),
    ("windows", "tcp_info", idle, "suspect", "no sampled flow was busy"),
])
def test_bad_tables_are_found(findings, files, check, name, spoil, level, message):
    spoil(files[name])
    found = findings(check, files)
    assert found[0][0] == level and re.search(message, found[0][1]), found


@pytest.mark.parametrize("check, name, message", [
    ("account", "connections", "no record of the connections"), ("load", "queue", "not sampled"),
    ("sampling", "queue", "probe queue left no table"), ("sampling", "tcp_info", "probe tcp_info left no table"),
    ("settings", "tcp_info", "no flow was sampled")])
def test_missing_tables_are_suspect(findings, files, check, name, message):
    del files[name]
    level, text = findings(check, files)[0]
    assert level == "suspect" and message in text


@pytest.mark.parametrize("name", ["connections", "tcp_info", "queue"])
def test_tables_without_rows_are_suspect(tmp_path, files, name):
    files[name] = files[name][:0]
    verdict = fidelity.judge(evidence_files.write(tmp_path, files))
    assert verdict["verdict"] == "suspect", verdict["reasons"]


def test_no_packet_at_all_is_suspect(findings, files):
    for link in files["counters.json"]["drained"].values():
        link.update({key: 0 for key, value in link.items() if isinstance(value, int)})
    assert findings("conservation", files)[0] == ("suspect",
                                                  "every packet accounted for on 6 link directions (0 packets)")


def test_traffic_without_a_target_load_needs_no_record_of_connections(findings, files):
    files["workload.json"] = {"components": [{"name": "greedy", "kind": "greedy"}], "flows": [evidence_files.flow(1)]}
    del files["connections"]
    assert findings("account", files) == [] and findings("load", files) == []


def test_what_is_lost_on_the_wire_is_accounted_for(findings, files):
    drained = files["counters.json"]["drained"]
    drained["n1_to_r1"].update(wire_delivered_packets=4_950, wire_dropped_packets=50)
    for link in ("left_to_right", "r2_to_n2"):
        drained[link] = evidence_files.counters(drained[link]["from"], drained[link]["to"], 4_950)
    assert {level for level, _ in findings("conservation", files)} == {"ok"}


def test_an_overloaded_link_need_not_carry_what_is_offered(findings, files):
    files["workload.json"]["components"][0].update(target_load=1.1, offered_bps={"right_to_left": 110e6})
    right_to_left = files["queue"]["link"] == "right_to_left"
    sent_bytes = files["queue"]["sent_bytes"].copy()
    files["queue"].loc[right_to_left, "sent_bytes"] = sent_bytes * 19 // 12
    found = findings("load", files)
    assert found[0][0] == "ok" and any("carried 95.00 Mbit/s of 110.00 offered" in text for _, text in found)
    # but more than a link that is not overloaded: otherwise the load was off
    files["queue"].loc[right_to_left, "sent_bytes"] = sent_bytes
    assert findings("load", files)[0] == ("suspect", "right_to_left carried 60.00 Mbit/s of 110.00 offered (-45.5%)")


def test_load_of_components_that_come_and_go(findings, files):
    """60 Mbit/s in the whole of 20 s, and 30 more in the first half: 75 offered, of which 60 are carried."""
    first = files["workload.json"]["components"][0]
    files["workload.json"]["components"].append({
        **first, "name": "burst", "target_load": 0.3, "offered_bps": {"right_to_left": 30e6, "left_to_right": 0},
        "measured_us": [10_000_000, 20_000_000]})
    files["workload.json"]["flows"].append({**files["workload.json"]["flows"][0], "flow": 2, "component": "burst"})
    assert any("carried 60.00 Mbit/s of 76.00 offered" in text for _, text in findings("load", files))


def test_load_that_nobody_recorded(findings, files):
    del files["workload.json"]["components"][0]["offered_bps"]
    assert findings("load", files) == [("suspect", "tmix: no record of the load that was offered")]


@pytest.mark.parametrize("lost, level", [(0, "suspect"), (1, "suspect"), (25, "ok"), (50, "ok"), (80, "ok"),
                                         (100, "suspect")])
def test_random_losses_are_as_many_as_the_link_says(findings, files, lost, level):
    """1 % of 5,000: 50, give or take 36."""
    files["network.json"]["links"][2]["loss_percent"] = 1.0
    assert files["network.json"]["links"][2]["name"] == "n1_to_r1"
    files["counters.json"]["drained"]["n1_to_r1"]["wire_dropped_packets"] = lost
    assert (level, f"n1_to_r1 lost {lost} of 5000 packets at random, 50 expected (1 %)") in findings("losses", files)


def test_chosen_losses_are_not_random(findings, files):
    files["counters.json"]["drained"]["n1_to_r1"].update(wire_dropped_packets=2, chosen_dropped_packets=2)
    assert {level for level, _ in findings("losses", files)} == {"ok"}


@pytest.mark.parametrize("part, key, message", [
    ("bottlenecks", "right_to_left", "rate and buffer of right_to_left not measured"),
    ("offloads", "n1/n1-eth0", "offloads of n1/n1-eth0 not measured")])
def test_what_was_not_measured_before_the_run(findings, files, part, key, message):
    whole = files["checks.json"][part]
    files["checks.json"][part] = ([one for one in whole if one["link"] != key] if isinstance(whole, list)
                                  else {name: one for name, one in whole.items() if name != key})
    assert findings("idle_network", files)[0] == ("suspect", message)


def test_links_without_an_echo(findings, files):
    files["network.json"]["paths"].append({"initiator": "n1", "acceptor": "n3", "hops": ["r2_to_n3"], "hops_back": []})
    assert findings("idle_network", files)[0] == ("suspect", "the round-trip time over r2_to_n3 not measured")


# -- UDP --------------------------------------------------------------------------------

def datagrams(findings, files, alone=True, **counts):
    """What `account` finds of two UDP flows to the left, where 100 packets are dropped; counts are of the second."""
    flows = [evidence_files.flow(number, "n2", "n1", None, transport="udp", rate_bps=10**6) for number in (8, 9)]
    if alone:
        files["workload.json"].update(components=[{"name": "greedy", "kind": "cbr"}], flows=flows)
    else:
        files["workload.json"]["flows"] += flows
    good = {"sent_packets": 500, "received_packets": 450, "socket_dropped_packets": 0}
    files["guest.json"]["traffic"]["greedy"] = {"flows": [{"flow": 8, **good}, {"flow": 9, **good, **counts}]}
    return [found for found in findings("account", files) if "connections" not in found[1]]


def test_packets_that_were_dropped_on_the_way(findings, files):
    assert datagrams(findings, files) == [
        ("ok", "1000 packets sent = 900 received + 100 lost of 2 UDP flows (100 dropped on their links)")]


@pytest.mark.parametrize("alone, counts, level, message", [
    (True, {"received_packets": 451}, "invalid", "900|901"),
    (False, {"received_packets": 300}, "invalid", "flow 9: 500 packets sent, 300 received, 100 dropped on its links"),
    (False, {"received_packets": 501}, "invalid", "flow 9: 500 packets sent, 501 received"),
    (False, {"received_packets": 449, "socket_dropped_packets": 1}, "invalid", "flow 9: .* socket dropped 1 packets"),
    (False, {"sent_packets": 0, "received_packets": 0}, "suspect", "flow 9 sent no packet")])
def test_packets_that_vanished(findings, files, alone, counts, level, message):
    found = datagrams(findings, files, alone, **counts)
    assert found[0][0] == level and any(re.search(message, text) for got, text in found if got == level), found


def test_udp_flows_that_nobody_counted(findings, files):
    datagrams(findings, files)
    del files["guest.json"]["traffic"]["greedy"]
    assert findings("account", files) == [("suspect", "no record of the packets of 2 of 2 UDP flows")]


def test_real_time_is_given_more_tolerance(findings, files):
    files["checks.json"]["paths"][0]["measured_rtt_us"] = 8300.0
    files["guest.json"]["sampler_lateness_us"]["queue"] = 4000
    assert findings("idle_network", files)[0][0] == "invalid" and findings("sampling", files)[0][0] == "suspect"
    assert findings("idle_network", files, clock="real")[0][0] == "ok"
    assert findings("sampling", files, clock="real")[0][0] == "ok"


def test_the_verdict_is_the_worst_finding(tmp_path, files):
    def judge():
        return fidelity.judge(evidence_files.write(tmp_path, files))
    good = judge()
    assert good["verdict"] == "valid" and good["reasons"] == []
    assert {c["check"] for c in good["checks"]} == set(fidelity.names())
    files["guest.json"]["sampler_lateness_us"]["queue"] = 2000
    assert judge()["verdict"] == "suspect"
    files["guest.json"]["probes"]["sojourn"]["lost_events"] = 1
    verdict = judge()
    assert verdict["verdict"] == "invalid"
    assert [(r["check"], r["level"]) for r in verdict["reasons"]] == [("sampling", "suspect"), ("sampling", "invalid")]


def test_a_verdict_without_any_check_is_not_valid(tmp_path, monkeypatch):
    monkeypatch.setattr(fidelity, "names", lambda: [])
    assert fidelity.judge(fidelity.Evidence(tmp_path, {}, "virtual", []))["verdict"] == "suspect"


@pytest.mark.parametrize("check", ["conservation", "idle_network", "settings"])
def test_what_only_a_kernel_leaves_is_not_asked_of_other_engines(tmp_path, check):
    evidence = fidelity.Evidence(tmp_path, {}, "simulated", [], {"kernel": False})
    assert (check, "not applicable") in [(c["check"], c["level"]) for c in fidelity.judge(evidence)["checks"]]
