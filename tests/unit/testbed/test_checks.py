# SPDX-License-Identifier: GPL-2.0-only
"""Every check passes on good evidence, and together they make a verdict (bad: test_checks_fails.py)."""
import re

import numpy as np
import pandas as pd
import pytest

from testbed import checks
from testbed.checks import _flows, _tables, edges
from testbed.core.errors import DamagedRun
from testbed.core.run_files import Scenario
from tests.unit.testbed import bad_air, bad_links, bad_quic, bad_runs, bad_senders, evidence_files, spoils, steady_runs
from topologies.linux import tc
from traffic.workload.records import Flow


@pytest.mark.parametrize("check", checks.names())
def test_every_check_passes_on_good_evidence(findings, files, check):
    if check == "air":
        bad_air.counted()(files)
    if check == "qlog":
        bad_quic.quic()(files)
    if check == "connected":
        bad_air.in_vain()(files)
    if check in ("acknowledged", "cwnd", "retransmissions", "round_trips"):
        bad_senders.sending(files)
    if check in ("datagrams", "one_way"):
        (spoils.udp() if check == "datagrams" else bad_senders.delays())(files)
    if check == "steady":
        steady_runs.flows([steady_runs.sawtooth(3)], [[1.0, *range(3, 30, 3)]])(files)
    if check == "schedule":
        bad_links.changing(files)
        bad_links.deep(files)
    if check == "segments":
        spoils.limited(window=20)(files)
    if check == "marks":
        bad_links.marking(files)
    found = findings(check, files)
    # these files are of a run in virtual time
    assert found and {level for level, _ in found} == ({checks.NOT_APPLICABLE} if check == "cpu" else {"ok"}), found


@pytest.mark.parametrize("field, value, chance, level", [
    ("thirds_bps", [60e6, 60e6, 64e6], {"thirds_chance": 0.02}, "ok"),
    ("thirds_bps", [60e6, 60e6, 66e6], {"thirds_chance": 0.02}, "suspect"),
    ("offered_bps", 64e6, {"load_chance": 0.02}, "ok"), ("offered_bps", 66e6, {"load_chance": 0.02}, "invalid"),
    # where four times what chance does is more than a fifth of the load, nobody can tell
    ("offered_bps", 62e6, {"load_chance": 0.2}, "ok"), ("offered_bps", 10e6, {"load_chance": 0.23}, "suspect"),
    ("offered_bps", 64e6, {}, "invalid"), ("offered_bps", 64e6, {"counted_bps": {"right_to_left": 61e6}}, "ok"),
    ("offered_bps", 61e6, {"counted_bps": {"right_to_left": 64e6}}, "invalid")])
def test_a_load_is_judged_by_what_chance_does_to_it(findings, files, field, value, chance, level):
    component, = files["workload.json"]["components"]
    component[field]["right_to_left"] = value
    component.update(chance)
    found = [(got, text) for got, text in findings("load", files) if "carried" not in text]
    assert max(found, key=lambda one: checks.LEVELS.index(one[0]))[0] == level
    assert any("by chance alone 2.0%" in text for _, text in found) == (0.02 in chance.values())
    assert any("whether it is what was wanted cannot be judged" in text for _, text in found) == (
        "load_chance" in chance and level == "suspect")


@pytest.mark.parametrize("changes, level, message", [
    ({"reverse_load": 0.09}, "ok", "offered load 9.00% of left_to_right, against the target, 9% wanted (+0.00%)"),
    ({"reverse_load": 0.10}, "invalid", "10% wanted (-10.00%)"), ({"reverse_load": 0.08}, "invalid", "(+12.50%)"),
    # nothing was fitted to the measured part: four times 3 % may be chance, four times 2 % would not do
    ({"reverse_load": 0.10, "load_chance": 0.03}, "ok", "10% wanted"),
    ({"reverse_load": 0.10, "load_chance": 0.02}, "suspect", "10% wanted (-10.00%)"),
    ({"reverse_load": 0.15, "load_chance": 0.2}, "suspect", "15% wanted (-40.00%): whether it is"),
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
    spoils.share("rwnd_limited_us")(files)
    assert suspects() == ["1 of 1 flows of tmix were limited by the receive window"]
    files["workload.json"]["components"][0]["windows"] = "vector"
    assert suspects() == []
    assert any("10.00% of their busy time, as their vectors have it" in text for _, text in findings("windows", files))
    spoils.share("sndbuf_limited_us")(files)
    assert suspects() == ["1 of 1 flows of tmix were limited by the send buffer"]


def test_segments_and_windows_of_the_scenario(findings, files):
    """Samples of the sender: 1448 bytes in a segment, 3 of them in flight."""
    spoils.limited(segment_bytes=1448, window=3)(files)
    assert findings("segments", files) == [("ok", "greedy: 1448 bytes in a segment in 31 samples"),
                                           ("ok", "greedy: at most 3 segments in flight in 31 samples")]
    spoils.share("rwnd_limited_us")(files)
    assert any("as the scenario has it" in text for level, text in findings("windows", files) if level == "ok")
    files["tcp_info"]["unacked"] = None
    assert findings("segments", files)[0] == (
        "suspect", "greedy: no sender was sampled: the segments in flight are not known")
    assert ("not applicable", "the engine does not tell the segments in flight") in findings(
        "segments", files, **bad_runs.SIMULATOR)


@pytest.mark.parametrize("name", ["connections", "tcp_info", "queue"])
def test_tables_without_rows_are_bad(tmp_path, files, name):
    files[name] = files[name][:0]
    verdict = checks.judge(evidence_files.write(tmp_path, files))
    assert verdict["verdict"] == ("invalid" if name == "connections" else "suspect") and not verdict["errors"], verdict


def test_traffic_without_a_target_load_needs_no_record_of_connections(findings, files):
    files["workload.json"] = {"components": [{"name": "greedy", "kind": "greedy"}], "flows": [evidence_files.flow(1)]}
    del files["connections"]
    assert findings("connections", files) == [] and findings("load", files) == []


@pytest.mark.parametrize("counter, count, level", [
    ("TcpExtTCPRenoReorder", 900, "ok"), ("TcpExtTCPTSReorder", 2, "ok"), ("TcpExtTCPTSReorder", 3, "suspect")])
def test_duplicate_acks_without_sack_are_no_proof_of_reordering(findings, files, counter, count, level):
    files["snmp.json"]["nodes"]["n2"][counter] = [0, count, count]
    assert {found for found, _ in findings("stack", files)} == {level}


def test_senders_take_parts_of_segments_for_reordering(findings, files):
    files["snmp.json"]["nodes"]["n2"]["TcpExtTCPTSReorder"] = [0, 900, 900]
    for kind, level in (("divided", "ok"), ("optimistic", "suspect")):
        files["workload.json"]["components"][0]["receiver"] = {"kind": kind}
        assert {found for found, _ in findings("stack", files)} == {level}


def test_what_is_lost_on_the_wire_is_accounted_for(findings, files):
    drained = files["counters.json"]["drained"]
    drained["n1_to_r1"].update(wire_delivered_packets=74_950, wire_dropped_packets=50)
    for link in ("left_to_right", "r2_to_n2"):
        drained[link] = evidence_files.counters(drained[link]["from"], drained[link]["to"], 74_950)
    assert {level for level, _ in findings("conservation", files)} == {"ok"}


def _uncut(files, segments):
    """Each packet has so many segments, and nobody cuts them: queues and wires count segments in what they sent."""
    for link in files["network.json"]["links"]:
        link["uncut"] = True
        for place in (f"{link['from']}/{link['device']}", f"{link['to']}/{tc.wire_device(link['peer_device'])}"):
            files["checks.json"]["offloads"][place] = {"tso": True, "gso": True, "gro": False}
    for node in files["network.json"]["nodes"]:
        if node["role"] == "host":
            node["gso"] = True
    for reading in files["counters.json"].values():
        for one in reading.values():
            for name in ("device_tx_packets", "device_rx_packets", "dropped_packets"):
                one[name] //= segments
    for values in files["snmp.json"]["nodes"].values():
        for name in values:
            if name.startswith("Ip"):
                values[name] = [count // segments for count in values[name]]


@pytest.mark.parametrize("check", ["conservation", "forwarded", "idle_network", "retransmissions", "stack"])
def test_packets_that_nobody_cuts_count_once_in_devices_and_by_segment_in_queues(findings, files, check):
    _uncut(files, 10)
    assert {level for level, _ in findings(check, files)} == {"ok"}


@pytest.mark.parametrize("check, counter, more, message", [
    ("conservation", "sent_packets", 700_000,
     "n2_to_r2: sent = left the device does not hold: 848720 and 14872 to 698984"),
    ("conservation", "device_rx_packets", 1, "n2_to_r2: left the device = arrived does not hold: 14872 and 14873"),
    ("conservation", "sent_packets", 3,
     r"n2_to_r2: sent = delivered \+ lost \+ on the wire does not hold: 148723 and 148720"),
    ("conservation", "wire_dropped_packets", 1, "r2: 22371 packets in but 22362 out"),
    ("forwarded", "device_tx_packets", 2, "n2: sent = queued does not hold .*: 14872 packets by its stack, 14874"),
    ("forwarded", "wire_queued_packets", 2, "r2: delivered = received does not hold .*: 22372 packets by its stack"),
])
def test_packets_that_nobody_cuts_do_not_vanish(findings, files, check, counter, more, message):
    _uncut(files, 10)
    files["counters.json"]["drained"]["n2_to_r2"][counter] += more
    found = findings(check, files)
    assert any(level == "invalid" and re.search(message, text) for level, text in found), found


def test_where_tcp_hands_over_several_segments_one_of_a_megabyte_may_be_shorter(findings, files):
    spoils.limited(window=20)(files)
    spoils.cell("tcp_info", "unacked", 21)(files)
    assert findings("segments", files)[0][0] == "invalid"
    _uncut(files, 10)
    assert [level for level, _ in findings("segments", files)] == ["ok"]
    spoils.cell("tcp_info", "unacked", 22)(files)
    assert findings("segments", files)[0][0] == "invalid"


@pytest.mark.parametrize("backlog_bytes, level", [(47 * 1514, "ok"), (47 * 1514 + 1, "invalid")])
def test_a_packet_that_nobody_cuts_is_as_large_as_all_its_frames(findings, files, backlog_bytes, level):
    """47 segments of an MTU of 1500, with headers of IPv6 and all options of TCP, have more than 64 kB."""
    _uncut(files, 10)
    left = files["queue"]["link"] == "left_to_right"
    files["queue"].loc[left, ["backlog_packets", "backlog_bytes"]] = 1, backlog_bytes
    assert findings("queues", files)[0][0] == level


@pytest.mark.parametrize("share, level", [(1, "ok"), (8, "ok"), (64, "invalid"), (0.5, "invalid")])
def test_packets_that_nobody_cuts_are_timed_once(findings, files, share, level):
    """47 segments at most; more packets than segments there are none."""
    _uncut(files, 10)
    sojourn, spread = files["sojourn"], files["sojourn_hist"]
    files["sojourn"] = sojourn.assign(packets=sojourn["packets"] / share)
    files["sojourn_hist"] = spread.assign(packets=spread["packets"] / share)
    files["queue"]["drops"] //= 10
    assert findings("instruments", files)[0][0] == level


def test_where_nobody_is_to_cut_all_interfaces_say_so(findings, files):
    _uncut(files, 10)
    files["checks.json"]["offloads"]["r1/r1-eth0"]["tso"] = False
    assert ("invalid", "offloads are off: r1/r1-eth0 tso") in findings("idle_network", files)


@pytest.mark.parametrize("load, carried, waiting_bytes, level", [
    (110, 95, 10_000_000, "ok"), (110, 95, 0, "suspect"), (110, 84, 20_000_000, "suspect"), (110, 99.5, 0, "ok"),
    (85, 84, 0, "ok"), (85, 76, 0, "suspect"), (85, 76, 10_000_000, "ok"), (85, 94, 0, "suspect")])
def test_carried_load_is_judged_at_every_load(findings, files, load, carried, waiting_bytes, level):
    """What is not carried has to wait, and a link that is offered more than it carries is busy."""
    files["workload.json"]["components"][0].update(target_load=load / 100, offered_bps={"right_to_left": load * 1e6})
    right_to_left = files["queue"]["link"] == "right_to_left"
    files["queue"].loc[right_to_left, "sent_bytes"] = files["queue"]["sent_bytes"] * int(carried * 10) // 600
    files["connections"]["acc_bytes_asked"] = files["connections"]["acc_bytes_delivered"]
    files["connections"].loc[199, "acc_bytes_asked"] += waiting_bytes
    assert [found for found, text in findings("load", files) if f"carried {carried:.2f} Mbit/s of" in text] == [level]


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


@pytest.mark.parametrize("lost, level", [(0, "suspect"), (600, "suspect"), (620, "ok"), (750, "ok"), (880, "ok"),
                                         (900, "suspect")])
def test_random_losses_are_as_many_as_the_link_says(findings, files, lost, level):
    """1 % of 75,000: 750, give or take 137."""
    files["network.json"]["links"][2]["loss_percent"] = 1.0
    assert files["network.json"]["links"][2]["name"] == "n1_to_r1"
    files["counters.json"]["drained"]["n1_to_r1"]["wire_dropped_packets"] = lost
    assert (level, f"n1_to_r1 lost {lost} of 75000 packets at random, 750 expected (1 %)") in findings("losses", files)


def test_chosen_losses_are_not_random(findings, files):
    files["counters.json"]["drained"]["n1_to_r1"].update(wire_dropped_packets=2, chosen_dropped_packets=2)
    assert {level for level, _ in findings("losses", files)} == {"ok"}


def test_nothing_is_said_of_edges_in_a_short_test(tmp_path, files):
    files["edge_queue"] = files["edge_queue"][:0]
    for duration_us, level in ((14_000_000, "not applicable"), (15_000_000, "suspect")):
        evidence = evidence_files.write(tmp_path, files, timing={**evidence_files.TIMING, "duration_us": duration_us})
        assert [finding.level for finding in edges.check(evidence)] == [level]


@pytest.mark.parametrize("queue, timed, level", [
    ("pfifo", 0.95, "suspect"), ("choke", 0.95, "ok"), ("fq_codel", 0.95, "ok"), ("fq_codel", 0.9, "suspect")])
def test_who_was_dropped_after_waiting_is_in_no_time(findings, files, queue, timed, level):
    """Of the packets queued 5 % are dropped at last: nobody times their wait. More than that is missing otherwise."""
    for link in files["network.json"]["links"]:
        link["queue"] = queue
    files["sojourn"]["max_us"] = files["sojourn"]["mean_us"]
    files["sojourn"]["mean_us"] *= timed
    files["queue"]["drops"] += files["queue"]["t_us"] // 4000
    assert findings("littles_law", files)[0][0] == level


def test_a_queue_that_nobody_used_has_no_times(findings, files):
    left = files["queue"]["link"] == "left_to_right"
    files["queue"].loc[left, "backlog_packets"] = 0
    files["sojourn"] = files["sojourn"][files["sojourn"]["link"] != "left_to_right"]
    assert {level for level, _ in findings("littles_law", files)} == {"ok"}


def test_a_connection_that_was_idle_and_has_just_sent_is_not_stuck(findings, files):
    table = files["tcp_info"]
    late = (table["node"] == "n2") & (table["t_us"] >= 20_000_000)
    table.loc[late, "bytes_acked"] = 7
    table.loc[late & (table["t_us"] < 30_000_000), "unacked"] = 0
    assert findings("stalled", files)[0] == (
        "ok", "2 sockets were connected at the end; 1 waited for acknowledgements, for at most 0.0 s")


def test_another_connection_of_the_same_ports_is_not_stuck(findings, files):
    """As in ten minutes of traffic, when an ephemeral port comes round again."""
    table = files["tcp_info"]
    own = table["node"] == "n2"
    table.loc[own, "bytes_acked"] = 7
    assert findings("stalled", files)[0][0] == "suspect"
    files["tcp_info"] = table[~own | (table["t_us"] < 20_000_000) | (table["t_us"] == table["t_us"].max())]
    assert findings("stalled", files)[0] == (
        "ok", "2 sockets were connected at the end; 1 waited for acknowledgements, for at most 0.0 s")
    files["tcp_info"] = table.sample(frac=1, random_state=1)
    assert findings("stalled", files)[0][0] == "suspect", "in whatever order samples are"


def test_a_connection_whose_timer_has_grown_is_not_stuck(findings, files):
    """Its timeout doubled from 0.2 s to 3.2 s while nothing came for 8 s."""
    table = files["tcp_info"]
    late = (table["node"] == "n2") & (table["t_us"] >= 22_000_000)
    table.loc[late, ["bytes_acked", "rto_us"]] = [7, 3_200_000]
    assert findings("stalled", files)[0][0] == "ok"
    table.loc[late, "rto_us"] = 2_000_000
    assert findings("stalled", files)[0][0] == "suspect"


def overloaded(files):
    """The link that is the target is offered more than it carries."""
    component, = files["workload.json"]["components"]
    component["offered_bps"]["right_to_left"] = 110e6


@pytest.mark.parametrize("status, level, aside", [("ETIMEDOUT", "ok", r" (ETIMEDOUT: a link is overloaded)"),
                                                  ("ECONNRESET", "suspect", "")])
def test_connections_may_give_up_over_an_overloaded_link(findings, files, status, level, aside):
    overloaded(files)
    files["connections"].loc[:18, "status"] = f"failed: {status}"
    failed = files["connections"]["status"].str.startswith("failed").sum()
    assert any(one == level and text.startswith(f"{failed} connections failed (") and text.endswith(aside)
               for one, text in findings("connections", files))


def test_who_sends_again_and_again_over_an_overloaded_link_is_unlucky(findings, files):
    """Nothing was acknowledged in the last 6 s; its timer went off each second, the last time at 29 s."""
    spoils.stuck_socket(files)
    overloaded(files)
    table = files["tcp_info"]
    own = table["node"] == "n2"
    table["total_retrans"] = 0
    assert findings("stalled", files)[0][0] == "suspect", "a timer that never goes off"
    table.loc[own, ["rto_us", "total_retrans"]] = [1_000_000, 3]
    table.loc[own, "total_retrans"] = table["t_us"] // 1_000_000
    found = findings("stalled", files)[0]
    assert found[0] == "ok" and found[1].endswith(
        "; 1 sent again and again for longer than 3 timeouts, over an overloaded link")
    table.loc[own, "total_retrans"] = 3                                 # nothing sent for 30 s
    table["mss"] = 484
    for pacing_bps, level in ((100, "ok"), (500, "suspect"), (0, "suspect"), (np.nan, "suspect")):
        table["pacing_rate_bps"] = pacing_bps
        assert findings("stalled", files)[0][0] == level, "584 bytes at 100 bit/s are 47 s"
    table.loc[own, "total_retrans"] = table["t_us"] // 1_000_000
    files["workload.json"]["components"][0]["offered_bps"]["right_to_left"] = 60e6
    assert findings("stalled", files)[0][0] == "suspect", "nothing explains that there"
    link = next(link for link in files["network.json"]["links"] if link["name"] == "right_to_left")
    link["schedule"] = [{"at_us": 20_000_000, "up": False}, {"at_us": 20_000_100, "up": True}]
    assert findings("stalled", files)[0][0] == "suspect", "nor does an outage of an instant"


def test_what_hosts_drop_when_all_is_over_is_no_finding(findings, files):
    counters, nodes = files["counters.json"], files["snmp.json"]["nodes"]
    edge = next(link["name"] for link in files["network.json"]["links"] if not link["bottleneck"])
    counters["drained"][edge]["dropped_packets"] = 7
    nodes["n2"]["IpOutDiscards"] = [0, 0, 3]
    for check in ("losses", "stack"):
        assert {level for level, _ in findings(check, files)} == {"ok"}
    counters["at_end"][edge]["dropped_packets"] = 1
    nodes["n2"]["IpOutDiscards"] = [0, 1, 3]
    assert ("suspect", f"{edge} is no bottleneck, but its queue dropped 1 packets") in findings("losses", files)
    assert ("suspect", "hosts threw packets away: IpOutDiscards 1") in findings("stack", files)


def test_a_port_may_be_taken_when_its_turn_comes_again(findings, files):
    """One of 2000 is no finding, one of 200 is (bad_runs.py)."""
    files["connections"] = pd.concat([files["connections"]] * 10, ignore_index=True)
    files["connections"].loc[3, "status"] = "failed: EADDRNOTAVAIL"
    found = findings("connections", files)
    assert not any("no free port" in text for _, text in found)


def test_half_open_connections_wait_for_nobody(findings, files):
    """Connected after 1 s and 28 s, their acceptor's SYN-ACKs were sent again four times and once."""
    spoils.half_open(7, 199, resent=5)(files)
    assert findings("stalled", files) == [
        ("ok", "2 sockets were connected at the end; 0 waited for acknowledgements, for at most 0.0 s"),
        ("ok", "2 of 200 connections are half open: what should have told the acceptor that they are established was "
               "lost each time, such as connection 7 of source 0")]
    files["snmp.json"]["nodes"]["n2"]["TcpExtTCPSynRetrans"] = [0, 4, 4]
    assert findings("stalled", files)[0][1].startswith("2 programs should have sent something")


@pytest.mark.parametrize("socket, state, half_open", [
    (None, "ESTAB", True), (200_000, "ESTAB", True),        # of an earlier connection with the same ports
    (30_000_000, "ESTAB", False),                           # the acceptor's program does not accept, or does not send
    (None, "FIN-WAIT-2", False)])
def test_half_open_is_who_has_no_socket_at_the_other_end(findings, files, socket, state, half_open):
    spoils.half_open(7)(files)
    table = files["tcp_info"]
    table["state"] = state
    if socket is not None:
        row = {**table.iloc[-1].to_dict(), "t_us": socket, "node": "n2", "src": "10.0.3.1", "sport": 5000,
               "dst": "10.0.2.1", "dport": 1031}
        files["tcp_info"] = pd.concat([table, pd.DataFrame([row])])
    assert any("1 of 200 connections are half open" in text for _, text in findings("stalled", files)) == half_open
    assert any("1 programs should" in text for _, text in findings("stalled", files)) != half_open


# -- UDP --------------------------------------------------------------------------------

def test_packets_that_were_dropped_on_the_way(findings, files):
    spoils.udp()(files)
    assert findings("datagrams", files) == [
        ("ok", "1000 packets sent = 900 received + 100 lost of 2 UDP flows (100 dropped on their links)")]


def test_beside_other_traffic_fewer_may_be_lost_than_dropped(findings, files):
    tmix = files["workload.json"]["flows"]
    spoils.udp(received_packets=451)(files)
    files["workload.json"]["flows"] = tmix + files["workload.json"]["flows"]
    assert {level for level, _ in findings("datagrams", files)} == {"ok"}


# -- all together -----------------------------------------------------------------------

def test_real_time_is_given_more_tolerance(findings, files):
    files["checks.json"]["paths"][0]["measured_rtt_us"] = 8300.0
    files["guest.json"]["sampler_lateness_us"]["queue"] = 4000
    assert findings("idle_network", files)[0][0] == "invalid" and findings("sampling", files)[0][0] == "suspect"
    assert findings("idle_network", files, clock="real")[0][0] == "ok"
    assert findings("sampling", files, clock="real")[0][0] == "ok"


def test_the_verdict_is_the_worst_finding(tmp_path, files):
    def judge():
        return checks.judge(evidence_files.write(tmp_path, files))
    good = judge()
    assert good["verdict"] == "valid" and good["reasons"] == []
    assert {c["check"] for c in good["checks"]} == set(checks.names()) - {
        "air", "connected", "cwnd", "datagrams", "marks", "one_way", "qlog", "schedule", "segments", "steady"}
    files["guest.json"]["sampler_lateness_us"]["queue"] = 2000
    assert judge()["verdict"] == "suspect"
    files["guest.json"]["probes"]["sojourn"]["lost_events"] = 1
    verdict = judge()
    assert verdict["verdict"] == "invalid"
    assert [(r["check"], r["level"]) for r in verdict["reasons"]] == [("sampling", "suspect"), ("sampling", "invalid")]


def test_a_table_is_read_once_and_each_check_has_its_own(tmp_path, files, monkeypatch):
    evidence = evidence_files.write(tmp_path, files)
    whole = evidence.table("queue")
    assert list(evidence.table("queue", usecols=["link", "t_us"])) == ["t_us", "link"]
    assert list(evidence.table("queue", usecols=lambda name: name == "drops")) == ["drops"]
    whole["drops"] = -1
    monkeypatch.setattr(pd, "read_csv", None)
    assert (evidence.table("queue")["drops"] >= 0).all() and evidence.table("opportunities") is None
    monkeypatch.undo()
    with pytest.raises(DamagedRun, match="raw/queue.csv.gz: column nonsense is missing"):
        evidence.table("queue", usecols=["t_us", "nonsense"])
    monkeypatch.setattr(_tables, "_SHORT", 0)
    monkeypatch.setattr(_tables, "_MOST_ROWS", 0)           # one that is too large is read for each
    evidence = evidence_files.write(tmp_path, files)
    assert list(evidence.table("queue", usecols=["link", "t_us"])) == ["t_us", "link"]
    assert evidence._kept == {"queue": None}


def test_a_verdict_without_any_check_is_not_valid(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "names", lambda: [])
    assert checks.judge(checks.Evidence(tmp_path, Scenario({}), "virtual", []))["verdict"] == "suspect"


@pytest.mark.parametrize("check", ["conservation", "idle_network", "settings"])
def test_what_only_a_kernel_leaves_is_not_asked_of_other_engines(tmp_path, check):
    evidence = checks.Evidence(tmp_path, Scenario({}), "simulated", [], {"kernel": False})
    assert (check, "not applicable") in [(c["check"], c["level"]) for c in checks.judge(evidence)["checks"]]


@pytest.mark.parametrize("changed, full", [({}, True), ({"both_ways": True}, False), ({"bytes": 1000}, False),
                                           ({"rate_bps": 1000}, False), ({"source": 1}, False),
                                           ({"kind": "on-off"}, False)])
def test_flows_that_fill_their_segments(changed, full):
    assert _flows.greedy(Flow({"bytes": None, "rate_bps": None, "source": None, "both_ways": False, "kind": "mine",
                               **changed})) == full
