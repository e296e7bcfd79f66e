# SPDX-License-Identifier: GPL-2.0-only
"""What checks that compare instruments, times and connections still accept: limits, other clocks, other engines."""
import numpy as np
import pandas as pd
import pytest

from testbed.checks import cwnd, round_trips, windows
from testbed.core import steadiness
from tests.unit.testbed import bad_senders, evidence_files, spoils

SIMULATOR = {"clock": "simulated", "capabilities": {"kernel": False}}


# -- several instruments ----------------------------------------------------------------

@pytest.mark.parametrize("missing, level", [(0, "ok"), (99, "ok"), (4_000, "ok"), (60_000, "invalid")])
def test_on_a_wall_clock_packets_leave_between_two_readings(findings, files, missing, level):
    """100 Mbit/s for 0.25 s are 52,000 packets of the smallest size."""
    spoils.more("queue", "sent_packets", -missing, slice(30, 31))(files)
    assert findings("instruments", files, clock="real")[0][0] == level
    assert findings("instruments", files)[0][0] == ("invalid" if missing else "ok")


def test_a_warm_up_that_ends_within_an_interval(findings, files):
    """At 10.5 s: half of the packets of that second are in the distribution, and no more than all of them."""
    files["sojourn_hist"]["packets"] = files["sojourn_hist"]["packets"] // 20 * 19
    assert findings("instruments", files)[0][0] == "invalid"
    timing = {**evidence_files.TIMING, "warmup_us": 5_500_000}
    assert findings("instruments", files, timing=timing)[0][0] == "ok"
    files["sojourn_hist"]["packets"] = files["sojourn_hist"]["packets"] // 19 * 21
    assert findings("instruments", files, timing=timing)[0][0] == "invalid"


def test_an_engine_that_counts_once(findings, files):
    for name in ("counters.json", "sojourn", "sojourn_hist"):
        del files[name]
    assert findings("instruments", files, **SIMULATOR) == [("not applicable", "nothing was counted twice")]


def test_an_engine_without_a_distribution(findings, files):
    del files["sojourn_hist"]
    assert findings("instruments", files, **SIMULATOR)[0][0] == "ok"


# -- times and sockets ------------------------------------------------------------------

@pytest.mark.parametrize("early_us, clock, level", [
    (1, "virtual", "ok"), (2, "virtual", "invalid"), (1000, "real", "ok"), (1001, "real", "invalid"),
    (1000, "simulated", "ok"), (1001, "simulated", "invalid")])
def test_how_exact_times_are(findings, files, early_us, clock, level):
    spoils.more("connections", "connected_us", -early_us, 7)(files)
    assert findings("times", files, clock=clock)[0][0] == level


@pytest.mark.parametrize("unit, level", [(2, "ok"), (3, "invalid")])
def test_a_simulator_may_find_out_later_that_a_connection_is_established(findings, files, unit, level):
    """Noted 3 ms late: what was sent at once arrives 1 ms after that. Of other data units it says nothing."""
    files["connections"].loc[1, "connected_us"] += 3_000
    files["adus"].loc[2, "sent_us"] += 3_000
    if unit == 3:
        spoils.more("adus", "delivered_us", -5_000, slice(3, 4))(files)
        files["adus"].loc[3, "sent_us"] -= 500
    assert findings("times", files)[0][0] == "invalid"
    assert findings("times", files, **SIMULATOR)[0][0] == level


@pytest.mark.parametrize("missing, level", [(-1, "invalid"), (1, "ok"), (2, "invalid")])
def test_a_packet_that_leaves_at_the_very_end_is_in_no_interval(findings, files, missing, level):
    mine = files["sojourn"]["link"] == "right_to_left"
    files["sojourn"].loc[mine[mine].index[:1], "packets"] -= missing
    assert findings("instruments", files)[0][0] == level


@pytest.mark.parametrize("leaving, level", [(2, "ok"), (3, "invalid")])
def test_packets_that_a_simulator_is_just_sending(findings, files, leaving, level):
    spoils.more("edge_queue", "sent_packets", -leaving, slice(30, 31))(files)
    assert findings("instruments", files)[0][0] == "invalid"
    assert findings("instruments", files, **SIMULATOR)[0][0] == level


def test_an_engine_without_data_units(findings, files):
    del files["adus"]
    assert findings("times", files, **SIMULATOR) == [
        ("ok", "the times of 200 connections are possible, and fit each other")]
    assert findings("unfinished", files, **SIMULATOR)[0][0] == "ok"


@pytest.mark.parametrize("sack, level", [(1, "invalid"), (0, "ok")])
def test_without_sack_duplicate_acknowledgements_count_as_deliveries(findings, files, sack, level):
    bad_senders.sender("delivered", more_by=200)(files)
    files["checks.json"]["sysctls_wanted"]["n1"]["net.ipv4.tcp_sack"] = sack
    assert findings("acknowledged", files)[0][0] == level


@pytest.mark.parametrize("less, level", [(37, "ok"), (5_000_000, "invalid")])
def test_a_socket_may_live_on_after_its_flow_has_stopped(findings, files, less, level):
    """iperf3 takes a moment to end; its program does not count the 37 bytes that it sends before its data."""
    bad_senders.sending(files)
    for flow in files["workload.json"]["flows"]:
        flow["stop_us"] = 24_000_000
    end = files["guest.json"]["accounts"][1]["ends"][0]
    arrived = files["tcp_info"].loc[files["tcp_info"]["node"] == "n1", "bytes_received"].iloc[-1]
    end["checked_bytes"] = int(arrived) - less
    assert findings("acknowledged", files)[0][0] == level


@pytest.mark.parametrize("cca, recoveries, level", [
    ("tahoe", 1, "ok"), ("tahoe", 0, "invalid"), ("cubic", 1, "invalid")])
def test_tahoe_goes_back_as_after_a_timeout_when_it_leaves_recovery(findings, files, cca, recoveries, level):
    bad_senders.sender("ca_state", more_by=4, rows=slice(7, 9))(files)
    for flow in files["workload.json"]["flows"]:
        flow["cca"] = cca
    files["snmp.json"]["nodes"]["n2"].update(TcpExtTCPTimeouts=[0] * 3, TcpExtTCPSackRecovery=[0] * 3,
                                             TcpExtTCPRenoRecovery=[recoveries] * 3)
    said = [message for _, message in findings("retransmissions", files) if "to come into Loss" in message]
    assert bool(said) == (level == "invalid")


def test_without_sack_duplicate_acknowledgements_bring_no_round_trips():
    """Ten segments in each interval; those of a repair are left out, seen in it or only by what was sent again."""
    of = {name: np.array(values, float) for name, values in {
        "delivered": 10 * np.arange(1, 9), "ca_state": [0, 0, 3, 3, 0, 0, 0, 0],
        "total_retrans": [0, 0, 1, 1, 1, 1, 2, 2]}.items()}
    assert round_trips._delivered_in_order(of).tolist() == [10, 20, 20, 20, 20, 30, 30, 40]


@pytest.mark.parametrize("state, in_flight", [(0, 10.0), (4, None)])
def test_what_is_lost_and_waits_for_a_timeout_is_not_in_flight(state, in_flight):
    """Ten segments every 100 ms, and again and again 400 ms in which nothing comes; then the sender's timer says why,
    or nobody (0), and on average half of what is in flight never arrives."""
    steps = [10, 10, 10, 10, 0, 0, 0, 0, 10] * 12
    states = [0, 0, 0, 0, 0, 0, 0, 0, state] * 12
    of = {name: np.array(values, float) for name, values in {
        "t_us": 100_000 * np.arange(len(steps)), "ca_state": states, "total_retrans": np.zeros(len(steps)),
        "srtt_us": np.full(len(steps), 100_000), "unacked": np.full(len(steps), 10),
        "delivered": np.cumsum(steps)}.items()}
    found = list(cwnd._little(of))
    assert [message.split()[0] for _, message in found] == ([] if in_flight is None else [str(in_flight)])


def test_an_end_that_has_closed_is_not_missing(findings, files):
    """The initiator of a connection that goes on for the other has nothing more to do."""
    gone = (files["tcp_info"]["node"] == "n1") & (files["tcp_info"]["t_us"] > 27_900_000)
    files["tcp_info"] = files["tcp_info"][~gone]
    assert findings("sockets", files)[0][0] == "ok"
    files["tcp_info"] = files["tcp_info"][files["tcp_info"]["t_us"] < 27_900_000]
    assert findings("sockets", files)[0][0] == "suspect"


@pytest.mark.parametrize("loss_percent, from_s, level", [
    (0, 12, "suspect"), (0.01, 12, "suspect"), (5, 12, "ok"), (5, 18, "suspect"), (5, 31, "suspect")])
def test_where_handshakes_are_lost_connecting_takes_its_time(findings, files, loss_percent, from_s, level):
    """iperf3 has two connections to make; here the sender is there from a time on, or never."""
    for link in files["network.json"]["links"]:
        link["loss_percent"] = loss_percent
    spoils.greedy()(files)
    late = (files["tcp_info"]["t_us"] >= from_s * 1_000_000) | (files["tcp_info"]["node"] == "n1")
    files["tcp_info"] = files["tcp_info"][late]
    assert findings("sockets", files)[0][0] == level


@pytest.mark.parametrize("late_us, level", [(0, "suspect"), (300_000, "ok")])
def test_a_dump_that_was_late_lacks_what_had_gone_meanwhile(findings, files, late_us, level):
    """All of the connections end 0.2 s after the last dump but two was due."""
    files["connections"].loc[files["connections"]["end_us"].isna() | (files["connections"]["end_us"] > 27_000_000),
                             ["end_us", "status"]] = [28_200_000, "finished"]
    table = files["tcp_info"][files["tcp_info"]["t_us"] < 27_900_000]
    late = files["tcp_info"][files["tcp_info"]["t_us"] == 28_000_000].iloc[:1].assign(
        t_us=28_000_000 + late_us, node="n1", sport=1, dport=1)
    files["tcp_info"] = pd.concat([table, late])
    assert findings("sockets", files, clock="real")[0][0] == level


def test_a_port_that_was_used_before(findings, files):
    """Connection 3 had the port of 199 and has ended long ago: established is the later one."""
    files["connections"].loc[3, "iport"] = 1223
    files["tcp_info"] = files["tcp_info"][files["tcp_info"]["t_us"] >= 28_000_000]
    assert findings("sockets", files)[0][0] == "ok"


@pytest.mark.parametrize("status, left, level", [
    ("failed: EPIPE", ["n1"], "ok"), ("failed: EPIPE", ["n2"], "ok"), ("finished", ["n1"], "suspect"),
    ("failed: EPIPE", ["n1", "n2"], "suspect")])
def test_one_end_of_a_connection_that_failed_may_live_on(findings, files, status, left, level):
    """Connection 199 ended at 27.9 s; after that, sockets of some of its ends are established."""
    files["connections"].loc[199, ["status", "end_us"]] = [status, 27_900_000]
    samples = files["tcp_info"]
    files["tcp_info"] = samples[(samples["t_us"] < 27_900_000) | samples["node"].isin(left)]
    assert findings("sockets", files)[0][0] == level


def test_a_flow_that_ends_when_it_has_sent_all(findings, files):
    spoils.greedy(bytes=10**6)(files)
    files["tcp_info"] = files["tcp_info"][files["tcp_info"]["t_us"] < 5_000_000]
    assert findings("sockets", files)[0][0] == "ok"


# -- unfinished connections -------------------------------------------------------------

def test_a_few_connections_may_be_slow(findings, files):
    spoils.never_connected(files)
    files["connections"].loc[100, "status"] = "failed: ETIMEDOUT"
    files["guest.json"]["accounts"] = []
    (level, text), = findings("unfinished", files)
    assert level == "ok" and text.startswith("2 of 200 connections had been waiting")


def test_a_large_unit_takes_its_time(findings, files):
    """1 GB at what 61 % of 100 Mbit/s leave free takes 205 s; an overloaded link has no limit at all."""
    spoils.never_delivered(files)
    files["guest.json"]["accounts"] = []

    def slow():
        return [(level, text[:3]) for level, text in findings("unfinished", files) if "fair share" in text]
    assert slow() == [("suspect", "10 ")]
    files["adus"].loc[181:200:2, "bytes"] = 10**9
    assert slow() == []                         # of the other findings it says nothing more
    files["adus"]["bytes"] = 1000
    files["workload.json"]["components"][0]["offered_bps"]["right_to_left"] = 110e6
    assert slow() == []


# -- loads, windows, hosts --------------------------------------------------------------

@pytest.mark.parametrize("chance, judged", [(0.0, True), (steadiness.MOST_CHANCE, True), (0.051, False), (0.2, False)])
def test_a_load_that_chance_leaves_open(findings, files, chance, judged):
    files["workload.json"]["components"][0]["thirds_chance"] = chance
    text, = [text for level, text in findings("load", files) if "last third" in text and level == "ok"]
    assert ("whether the load is steady cannot be judged" in text) != judged
    if chance == 0.2:
        assert text.endswith("for up to 80% can be chance")


def test_more_acknowledgements_than_counted(findings, files):
    """One for each of 4,954 packets a second in place of every other one: 1.3 Mbit/s."""
    left = files["queue"]["link"] == "left_to_right"
    files["queue"].loc[left, "sent_bytes"] = files["queue"]["sent_bytes"] * 111 // 90
    assert any(level == "ok" and "left_to_right carried 11.10 Mbit/s of 9.00" in text and "at most 1.31" in text
               for level, text in findings("load", files))
    files["queue"].loc[left, "sent_bytes"] = files["queue"]["sent_bytes"] * 114 // 111
    assert findings("load", files)[0][0] == "suspect"


def test_what_was_sent_again_in_vain(findings, files):
    """4,000 segments in 20 s, of which no queue dropped any: 2.4 Mbit/s that nobody offered."""
    left = files["queue"]["link"] == "left_to_right"
    files["queue"].loc[left, "sent_bytes"] = files["queue"]["sent_bytes"] * 130 // 90
    assert findings("load", files)[0][0] == "suspect"
    files["snmp.json"]["nodes"]["n1"]["TcpRetransSegs"] = [10, 4010, 4010]
    assert any(level == "ok" and "left_to_right carried 13.00 Mbit/s of 9.00" in text
               and "sent again in vain at most 2.42" in text for level, text in findings("load", files))
    files["queue"].loc[left & (files["queue"]["t_us"] > 15_000_000), "drops"] = 2500
    assert findings("load", files)[0][0] == "suspect"           # those were not in vain
    files["queue"].loc[left, "drops"] = 2500                    # before measuring began
    assert findings("load", files)[0][0] == "ok"


def test_slow_links_have_their_own_unit(findings, files):
    link = next(link for link in files["network.json"]["links"] if link["name"] == "right_to_left")
    link["rate_bps"] = 64_000
    assert any("right_to_left carried 60002.85 kbit/s of 61000.00" in text for _, text in findings("load", files))


def test_a_few_long_connections_may_wait_for_a_buffer(findings, files):
    spoils.long_connections("rwnd_limited_us", 2, 20)(files)
    assert findings("windows", files)[0][0] == "ok"
    spoils.long_connections("rwnd_limited_us", 3, 20)(files)
    assert findings("windows", files)[0][0] == "suspect"


def test_hosts_that_are_to_send_large_packets(findings, files):
    spoils.large_packets(files)
    assert findings("stack", files)[0][0] == "suspect"
    next(node for node in files["network.json"]["nodes"] if node["name"] == "n2")["gso"] = True
    assert findings("stack", files)[0][0] == "ok"


@pytest.mark.parametrize("jitter, level", [((1.1,), "ok"), ((0.9,), "invalid"), ((0.5, 90, 3), "ok"),
                                           ((0.5, 90, 0.1), "invalid")])
def test_jitter_that_does_not_show(findings, files, jitter, level):
    spoils.jitter(*jitter)(files)
    assert findings("idle_network", files)[0][0] == level


def test_how_much_was_compared(findings, files):
    for account in files["guest.json"]["accounts"]:
        one, = account["ends"]
        one.update(checked_bytes=one["checked_bytes"] // 10,
                   unchecked_bytes=one["checked_bytes"] - one["checked_bytes"] // 10)
    assert any("(10.0%) were compared" in text for _, text in findings("payload", files))


def test_edges_are_read_with_the_bottlenecks(findings, files):
    """Every 3 s, if every second is a reading: 2.5 s apart are 3."""
    files["edge_queue"] = files["edge_queue"][files["edge_queue"]["t_us"] % 3_000_000 == 0]
    probes = {**evidence_files.PROBES, "queue": {"interval_us": 1_000_000, "edge_interval_us": 2_500_000}}
    assert findings("sampling", files, probes=probes)[0][0] == "ok"
    assert findings("sampling", files)[0][0] == "suspect"


def test_hosts_that_are_sampled_more_often_lack_no_samples(findings, files):
    """Both ends of a flow, at the interval of their own probe; tcp_info itself is whole each time."""
    spoils.greedy()(files)
    whole = files["tcp_info"]
    files["tcp_info_often"] = whole

    def judged(hosts, interval_us=1_000_000):
        probes = {**evidence_files.PROBES, "tcp_info_often": {"hosts": hosts, "interval_us": interval_us}}
        return findings("sockets", files, probes=probes)[0]
    assert judged(["n1", "n2"])[0] == "ok"
    lacking = "tcp_info_often lacks samples of the senders of 1 of 1 flows, such as 30 of flow 1"
    assert judged(["n2"], 500_000) == ("suspect", lacking)
    for node, end in (("n2", "senders"), ("n1", "receivers")):
        files["tcp_info_often"] = whole[(whole["node"] != node) | (whole["t_us"] % 2_000_000 == 0)]
        level, message = judged(["n1", "n2"])
        assert level == "suspect" and f"tcp_info_often lacks samples of the {end} of 1 of 1 flows" in message
        assert judged(["n2" if node == "n1" else "n1"])[0] == "ok"


@pytest.mark.parametrize("ends, seen_until_s, level", [
    ({"bytes": 3_000_000}, 9, "not applicable"), ({"stop_us": 9_000_000}, 9, "not applicable"), ({}, 9, "suspect"),
    ({"bytes": 3_000_000}, 30, "suspect"), ({"bytes": 3_000_000}, -1, "suspect")])
def test_a_flow_that_ended_in_the_warm_up_was_limited_by_nothing(findings, files, ends, seen_until_s, level):
    """Measuring begins at 10 s. Who was never seen, or was seen doing nothing later, is suspect."""
    files["workload.json"]["flows"].append(evidence_files.flow(2, "n2", "n1", component="short", sport=9, **ends))
    mine = files["tcp_info"][files["tcp_info"]["node"] == "n2"].assign(sport=9, dport=2)
    mine = mine.assign(busy_us=mine["busy_us"].clip(upper=4_000_000), rwnd_limited_us=0)
    files["tcp_info"] = pd.concat([files["tcp_info"], mine[mine["t_us"] <= seen_until_s * 1_000_000]])
    found = {text.split(":")[0]: level for level, text in findings("windows", files)}
    assert found.get("short", found.get("no sampled flow of short was busy")) == level


@pytest.mark.parametrize("first, second, grown", [
    # us per second of busy time, and of that with a closed window, of a socket until 20 s and of the next one
    ((250_000, 0), (100_000, 50_000), [[1_000_000, 500_000], [2_500_000, 0]]),
    ((1000, 900), (100_000, 0), [[10_000, 9_000], [1_000_000, 0]]),
    # the second has more of everything when it is first sampled
    ((1000, 0), (100_000, 90_000), [[10_000, 0], [1_000_000, 900_000]])])
def test_another_socket_with_the_same_ports_has_windows_of_its_own(findings, files, first, second, grown):
    """Of neither the window was closed for longer than it was busy."""
    spoils.greedy()(files)
    table = files["tcp_info"]
    mine, late = ((table["node"] == "n2").to_numpy(), (table["t_us"] > 20_000_000).to_numpy())
    table[windows._TIMES] = 0
    for begin_us, of, (busy, limited) in ((0, mine & ~late, first), (20_000_000, mine & late, second)):
        seconds = (table.loc[of, "t_us"] - begin_us) // 1_000_000
        table.loc[of, "busy_us"], table.loc[of, "rwnd_limited_us"] = seconds * busy, seconds * limited
    last = windows._grown(table[mine], 10_000_000).sort_values("busy_us")
    assert last[["busy_us", "rwnd_limited_us"]].to_numpy().tolist() == grown
    assert set(last["node"]) == {"n2"} and set(last["sport"]) == {5000}
    share = sum(limited for _, limited in grown) / sum(busy for busy, _ in grown)
    message, = [text for _, text in findings("windows", files) if "the receive window" in text]
    assert f"for {share:.2%}" in message


@pytest.mark.parametrize("addresses", [{}, {"10.0.2.1": "fd00:0:0:2::1", "10.0.3.1": "fd00:0:0:3::1"}])
def test_flows_of_both_versions_are_found_busy(findings, files, addresses):
    """Whatever order the samples are in: busy for half of the time, of which 0.2 % with a closed window."""
    spoils.greedy()(files)
    files["tcp_info"] = files["tcp_info"].replace(addresses)[::-1]
    for flow in files["workload.json"]["flows"]:
        flow.update({end: addresses.get(flow[end], flow[end]) for end in ("src", "dst")})
    found = findings("windows", files)
    assert {level for level, _ in found} == {"ok"}
    assert found[0][1].startswith("1 flows of greedy were limited by the receive window for 0.20% of their busy time")


def test_no_rows_are_no_crash(findings, files):
    for check in ("sockets", "times", "unfinished", "instruments", "windows"):
        for name in ("connections", "adus", "tcp_info", "queue", "edge_queue", "sojourn", "sojourn_hist"):
            spoilt = {**files, name: files[name][:0]}
            assert isinstance(files[name], pd.DataFrame)
            findings(check, spoilt)


def test_a_datagram_that_a_full_socket_refuses_is_not_thrown_away(findings, files):
    """Its program is told, and sends it later; of IPv6 the counters are others."""
    nodes = files["snmp.json"]["nodes"]
    nodes["n2"] |= {"IpOutDiscards": [0, 4, 4], "UdpSndbufErrors": [0, 4, 4]}
    assert {level for level, _ in findings("stack", files)} == {"ok"}
    nodes["n2"] |= {"IpOutDiscards": [0, 5, 5], "Ip6OutDiscards": [0, 2, 2]}
    assert ("suspect", "hosts threw packets away: IpOutDiscards 1, Ip6OutDiscards 2") in findings("stack", files)


@pytest.mark.parametrize("packets, told", [(850, False), (780, False), (425, True), (1700, True)])
def test_what_samples_do_not_show_of_a_queue_is_told(tmp_path, packets, told):
    """They see 850 packets at all times; metrics have what the kernel counted, so that the run is right."""
    files = evidence_files.good_files()
    spoils.held(packets)(files)
    found = evidence_files.findings(tmp_path, "sampling", files)
    message = (f"right_to_left: samples do not show what its queue held: 850.00 packets on average and 850 at most "
               f"instead of {packets}.00 and {packets + 1}, which metrics have")
    assert (("ok", message) in found) == told and {level for level, _ in found} == {"ok"}
