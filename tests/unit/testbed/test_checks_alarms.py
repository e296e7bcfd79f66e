# SPDX-License-Identifier: GPL-2.0-only
"""Correct runs that look odd, and are not blamed; beside each of them one that is."""
import pandas as pd
import pytest

from tests.unit.testbed import bad_air, bad_senders, evidence_files, spoils


@pytest.mark.parametrize("megabytes, level", [(55, "suspect"), (66, "ok")])
@pytest.mark.parametrize("where", ["in flight", "out of order", "came twice", "sent again"])
def test_what_crossed_a_link_and_was_not_received(findings, files, where, megabytes, level):
    """Of 215.2 MB programs received 150: the others came twice, or wait for segments that were lost and not repaired
    by the end. 1 % and two windows, 5.0 MB together, are allowed beside that."""
    files["guest.json"]["accounts"][1]["ends"][0]["checked_bytes"] = 150_000_000
    segments, stack = megabytes * 1_000_000 // 1448, files["snmp.json"]["nodes"]["n1"]
    if where == "in flight":
        last = (files["tcp_info"]["t_us"] == 30_000_000) & (files["tcp_info"]["node"] == "n2")
        files["tcp_info"].loc[last, "unacked"] = segments
    elif where == "out of order":
        del files["tcp_info"]
        stack["TcpExtTCPOFOQueue"] = [0, segments, segments]
    elif where == "came twice":
        stack["TcpExtDelayedACKLost"] = [0, segments // 2, segments // 2]
        stack["TcpExtTCPDSACKOfoSent"] = [0, segments // 2, segments // 2]
    else:
        files["snmp.json"]["nodes"]["n2"]["TcpRetransSegs"] = [50, segments, segments]
    assert findings("delivered", files)[0][0] == level


@pytest.mark.parametrize("spoil, rto_us, slow", [
    # answers of 12.6 to 13.9 s have 3 s and ten times their round trips
    (spoils.never_delivered, 1_000_000, 10), (spoils.never_delivered, 8_000_000, 0),
    # connections that began at 14 s have 7 s and ten round trips of 8 ms
    (spoils.never_connected, 4_000_000, 3), (spoils.never_connected, 4_500_000, 0)])
def test_a_timer_that_has_doubled_explains_a_wait(findings, files, spoil, rto_us, slow):
    spoil(files)
    files["guest.json"]["accounts"] = []
    table = files["connections"]
    connecting = spoil is spoils.never_connected
    rows = [{**evidence_files.socket_row(30_000_000, 1, 1, rto_us=rto_us), "src": "", "dst": "",
             **({"node": "n1", "sport": port, "dport": 5000} if connecting
                else {"node": "n2", "sport": 5000, "dport": port})}
            for port in table.loc[[100, 101, 102] if connecting else range(90, 100), "iport"]]
    files["tcp_info"] = pd.concat([files["tcp_info"], pd.DataFrame(rows)], ignore_index=True)
    text, = [text for _, text in findings("unfinished", files) if "fair share" in text] or ["0 of"]
    assert text.startswith(f"{slow} of")


def test_a_flow_may_ask_for_long_before_it_is_connected(findings, files):
    """Of 30 s it asks for 20: each sample is there."""
    bad_air.in_vain(on_air=False)(files)
    files["tcp_info"].loc[files["tcp_info"]["t_us"] >= 20_000_000, "state"] = "ESTAB"
    assert findings("sockets", files) == [
        ("ok", "tcp_info has 31 samples: all 0 of ends of connections that were alive when they were due, and 1 flows "
               "from their beginning to their end")]


def test_the_control_connection_of_iperf3_is_none_of_its_flow(findings, files):
    """It is there all the time; the flow's own never comes."""
    bad_air.in_vain(on_air=False)(files)
    files["tcp_info"] = files["tcp_info"].assign(state="ESTAB", sport=40_000)
    assert findings("sockets", files) == [
        ("suspect", "1 of 1 flows were not connected within the run, as far as tcp_info tells, such as flow 1, whose "
                    "sender tried until 30 s")]


@pytest.mark.parametrize("in_flight, level", [(0, "suspect"), (3, "ok")])
def test_a_sample_that_repeats_another_says_nothing_of_the_program(findings, files, in_flight, level):
    """After 10 s nothing is delivered any more: what is in flight is lost, or there is nothing to send."""
    spoils.greedy()(files)
    late = files["tcp_info"]["t_us"] >= 10_000_000
    files["tcp_info"].loc[late, ["app_limited", "delivered", "unacked", "bytes_acked"]] = 1, 700, in_flight, 1_000_000
    said = [level for level, text in findings("windows", files) if "to send in" in text]
    assert said == [level]


@pytest.mark.parametrize("cca, limited, level", [
    ("bbr", 2, "ok"), ("bbr", 3, "suspect"), ("cubic", 1, "ok"), ("cubic", 2, "suspect")])
def test_bbr_probes_for_the_shortest_round_trip(findings, files, cca, limited, level):
    """In 19 s it may do so twice, for 200 ms and three round trips of 181 ms: 7.8 % of 20 samples beside 5 %."""
    spoils.greedy(cca=cca)(files)
    files["tcp_info"]["bytes_acked"] += 131_072
    files["tcp_info"].loc[files["tcp_info"]["t_us"].between(12_000_000, (11 + limited) * 1_000_000), "app_limited"] = 1
    said = [level for level, text in findings("windows", files) if "to send in" in text]
    assert said == [level]


@pytest.mark.parametrize("elsewhere", [1500, 576])
def test_what_was_sent_again_is_as_large_as_its_way_allows(findings, files, elsewhere):
    """4,000 frames of 1514 B in 20 s, whatever the largest packet of a link is that nobody's way crosses."""
    network = files["network.json"]
    network["links"].append({**network["links"][0], "name": "elsewhere", "bottleneck": False, "mtu_bytes": elsewhere})
    network["mtu_bytes"] = elsewhere
    left = files["queue"]["link"] == "left_to_right"
    files["queue"].loc[left, "sent_bytes"] = files["queue"]["sent_bytes"] * 130 // 90
    files["snmp.json"]["nodes"]["n1"]["TcpRetransSegs"] = [10, 4010, 4010]
    assert any(level == "ok" and "sent again in vain at most 2.42" in text for level, text in findings("load", files))


def test_copies_that_wait_on_a_wire_are_named(findings, files):
    bad_senders.sender("srtt_us", 3)(files)
    link = next(link for link in files["network.json"]["links"] if link["name"] == "right_to_left")
    link["duplicate_percent"] = 5.0
    level, text = findings("round_trips", files)[0]
    assert level == "suspect"
    assert text.endswith("; copies of a link that is always busy wait on its wire: right_to_left")


def test_behind_a_shaper_frames_take_no_time_on_the_wire(findings, files):
    """Round trips that are shorter by what a segment and its acknowledgement take on the links, 0.3 ms in all."""
    bad_senders.sender("srtt_us", more_by=-1250)(files)
    assert findings("round_trips", files)[0][0] == "invalid"
    for link in files["network.json"]["links"]:
        link["shaper"] = True
    assert findings("round_trips", files)[0][0] == "ok"
    files["tcp_info"]["srtt_us"] -= 250
    assert findings("round_trips", files)[0][0] == "invalid"


@pytest.mark.parametrize("cca, shortest_us, again, queue, level", [
    # two segments take 2.5 ms at 10 Mbit/s
    ("bbr", 6_990, 1, "pfifo", "ok"), ("bbr", 4_400, 1, "pfifo", "invalid"), ("cubic", 6_990, 1, "pfifo", "invalid"),
    ("bbr", 6_990, 0, "pfifo", "invalid"), ("bbr", 6_990, 1, "fq", "invalid")])
def test_a_timer_sends_again_before_a_paced_segments_stamp(findings, files, cca, shortest_us, again, queue, level):
    """The kernel then takes the round trip for shorter than the way, whose 8.026 ms nobody can beat."""
    spoils.greedy(cca=cca)(files)
    for column, value in (("min_rtt_us", shortest_us), ("total_retrans", again), ("pacing_rate_bps", 10_000_000)):
        spoils.cell("tcp_info", column, value)(files)
    for link in files["network.json"]["links"]:
        if link["from"] == "n2":
            link["queue"] = queue
            link.pop("queue_traits", None)
    assert findings("delays", files)[0][0] == level


@pytest.mark.parametrize("check, spoil", [
    ("delays", bad_senders.sender("min_rtt_us", 0.1)), ("round_trips", bad_senders.sender("srtt_us", 0.95)),
    ("retransmissions", spoils.both(bad_senders.sender("total_retrans", 0), bad_senders.node(
        "n2", "TcpRetransSegs", [0, 0, 0])))])
def test_what_an_optimistic_receiver_has_its_sender_believe(findings, files, check, spoil):
    """A round trip that is too short, and that nothing was lost."""
    spoil(files)
    assert "invalid" in {level for level, _ in findings(check, files)}
    for one in files["workload.json"]["components"]:
        one["receiver"] = {"kind": "optimistic", "ahead": 0}
    assert "invalid" not in {level for level, _ in findings(check, files)}
