# SPDX-License-Identifier: GPL-2.0-only
"""Fidelity checks on other networks, on several congestion controls in one run, and on other engines."""
import pytest

from testbed.checks import round_trips
from testbed.checks._ranges import Sojourns
from tests.unit.testbed import bad_senders, evidence_files, spoils

# -- other networks ---------------------------------------------------------------------


def test_few_packets_show_little(findings, files):
    """64 kbit/s for half a minute, where packets were counted: one more or less is 0.6 %."""
    del files["checks.json"]["bottlenecks"][0]["busy_us"]
    files["checks.json"]["bottlenecks"][0].update(measured_bps=100_600_000, window_packets=158)
    found = findings("idle_network", files)
    assert {level for level, _ in found} == {"ok"}
    assert any("(+0.6000%, over 158 packets, which can show 0.6%)" in text for _, text in found)
    files["checks.json"]["bottlenecks"][0].update(measured_bps=100_700_000)
    assert findings("idle_network", files)[0][0] == "invalid"


def test_of_frames_that_were_timed_few_show_as_much_as_many(findings, files):
    files["checks.json"]["bottlenecks"][0].update(measured_bps=100_090_000, window_packets=10)
    assert {level for level, _ in findings("idle_network", files)} == {"ok"}
    files["checks.json"]["bottlenecks"][0].update(measured_bps=100_110_000)
    assert findings("idle_network", files)[0] == (
        "invalid", "left_to_right saturated carries 100.110 Mbit/s at layer 2 (+0.1100%, over 10 packets)")


@pytest.mark.parametrize("measured_us, level", [
    (44.8, "ok"), (45.7, "ok"), (43.7, "ok"),
    (45.8, "invalid"), (46.7, "invalid"),           # as if one of six links has 1 us too much each way
    (43.6, "invalid")])
def test_round_trips_in_a_data_center(findings, files, measured_us, level):
    files["checks.json"]["paths"][0].update(base_rtt_us=40, serialisation_us=4.704, measured_rtt_us=measured_us)
    assert findings("idle_network", files)[0][0] == level


@pytest.mark.parametrize("limit, longest, dropped, level, looked_at_now_and_then", [
    (150_000, 99 * 1514, 9, "ok", "ok"), (150_000, 98 * 1514, 9, "invalid", "ok"),
    (150_000, 97 * 1514, 9, "invalid", "invalid"), (150_000, 150_001, 9, "invalid", "invalid"),
    (150_000, 99 * 1514, 0, "invalid", "invalid"), (1514, 1514, 9, "ok", "ok"), (3027, 1514, 9, "ok", "ok"),
    (3028, 1514, 9, "invalid", "ok"), (1514, 0, 9, "invalid", "ok")])
def test_a_buffer_in_bytes(findings, files, limit, longest, dropped, level, looked_at_now_and_then):
    link, measured = files["network.json"]["links"][0], files["checks.json"]["bottlenecks"][0]
    link.update(queue="bfifo", limit_packets=None, limit_bytes=limit)
    measured.update(limit_packets=None, limit_bytes=limit, longest_queue_packets=99, longest_queue_bytes=longest,
                    dropped_packets=dropped)
    found = findings("idle_network", files)
    assert found[0][0] == level and any(f"{longest} " in text and str(limit) in text for _, text in found)
    del measured["busy_us"]
    assert findings("idle_network", files)[0][0] == looked_at_now_and_then


@pytest.mark.parametrize("queue, longest, level", [
    ("pfifo", 1, "ok"), ("pfifo", 0, "invalid"), ("pfifo", 2, "invalid"), ("codel", 0, "ok"), ("codel", 2, "invalid")])
def test_a_buffer_of_one_packet(findings, files, queue, longest, level):
    files["network.json"]["links"][0].update(queue=queue, limit_packets=1)
    files["checks.json"]["bottlenecks"][0].update(limit_packets=1, longest_queue_packets=longest)
    assert findings("idle_network", files)[0][0] == level


def test_an_aqm_may_drop_before_it_is_full(findings, files):
    files["network.json"]["links"][0]["queue"] = "codel"
    files["checks.json"]["bottlenecks"][0]["longest_queue_packets"] = 40
    assert findings("idle_network", files)[0][0] == "ok"
    files["checks.json"]["bottlenecks"][0]["dropped_packets"] = 0
    assert findings("idle_network", files)[0][0] == "invalid"


@pytest.mark.parametrize("link, queue, level", [
    ("n2_to_r2", "fq", "ok"), ("n2_to_r2", "pfifo", "suspect"), ("r2_to_n2", "fq", "suspect")])
def test_a_host_with_fq_lets_packets_wait_for_their_time(findings, files, link, queue, level):
    """120 packets wait there, 14.5 ms, on a link that is idle for 40 % of the time. A router's fq paces nothing."""
    next(one for one in files["network.json"]["links"] if one["name"] == link)["queue"] = queue
    edges = files["edge_queue"]
    edges.loc[edges["link"] == link, ["backlog_packets", "backlog_bytes"]] = [120, 120 * 1514]
    assert findings("edges", files)[0][0] == level


def test_what_waits_in_fq_while_its_link_is_busy_is_a_queue(findings, files):
    """40 packets, of 60 Mbit/s over 61."""
    spoils.saturated_host("fq")(files)
    edges = files["edge_queue"]
    edges.loc[edges["link"] == "n2_to_r2", ["backlog_packets", "backlog_bytes"]] = [40, 40 * 1514]
    assert findings("edges", files)[0][1].startswith("n2_to_r2 is no bottleneck, but packets wait there for 7.94 ms")


def test_a_queue_behind_a_saturated_host_is_that_of_the_bottleneck(findings, files):
    spoils.saturated_host("pfifo")(files)
    queue = files["queue"]
    queue.loc[queue["link"] == "right_to_left", ["backlog_packets", "backlog_bytes"]] = [50, 50 * 1514]
    assert findings("edges", files)[0][0] == "ok"


@pytest.mark.parametrize("timed, dropped, level", [
    (0.95, 0.05, "ok"), (0.5, 0.5, "ok"), (0.95, 0.0, "suspect"), (0.95, 0.1, "suspect"), (0.95, None, "ok")])
@pytest.mark.parametrize("queue", ["codel", "fq_codel", "choke", "pie"])
def test_where_the_kernel_timed_what_was_dropped_all_is_known(findings, files, queue, timed, dropped, level):
    """None: it did not, so that as much may be missing as the drops can make (5 % here), if the queue drops such."""
    for link in files["network.json"]["links"]:
        link["queue"] = queue
    sojourn, seconds_us = files["sojourn"], 10**6
    sojourn["max_us"] = sojourn["mean_us"]
    if dropped is not None:
        sojourn["dropped_us"] = sojourn["mean_us"] * sojourn["packets"] * dropped
    sojourn["mean_us"] *= timed
    files["queue"]["drops"] += files["queue"]["t_us"] * 250 // seconds_us
    assert findings("littles_law", files)[0][0] == ("suspect" if dropped is None and queue == "pie" else level)


def parking_lot(files):
    """Three routers: 1,000 packets cross both links, 500 more each of them; the second drops 30 of these."""
    def link(name, source, target, into, dropped=0):
        drained[name] = evidence_files.counters(source, target, into, dropped)
        links.append({"name": name, "bottleneck": source[0] == target[0] == "r", "lose_segments": []})
    drained, links = {}, []
    link("n1_to_r1", "n1", "r1", 1000), link("n2_to_r1", "n2", "r1", 500), link("r1_to_r2", "r1", "r2", 1500)
    link("r2_to_n3", "r2", "n3", 500), link("n4_to_r2", "n4", "r2", 500), link("r2_to_r3", "r2", "r3", 1500, 30)
    link("r3_to_n5", "r3", "n5", 1470)
    files["counters.json"]["drained"] = drained
    files["network.json"] = {"links": links, "nodes": [
        {"name": name, "role": "router" if name[0] == "r" else "host"} for name in ("r1", "r2", "r3", "n1", "n2")]}
    return drained


def test_conservation_in_a_parking_lot(findings, files):
    drained = parking_lot(files)
    assert sorted(findings("conservation", files)) == [
        ("ok", "every packet accounted for on 7 link directions (6940 packets)"),
        ("ok", "r1: 1500 packets in = 1500 out + 0 dropped + 0 queued"),
        ("ok", "r2: 2000 packets in = 1970 out + 30 dropped + 0 queued"),
        ("ok", "r3: 1470 packets in = 1470 out + 0 dropped + 0 queued")]
    drained["r2_to_n3"] = evidence_files.counters("r2", "n3", 501)
    assert findings("conservation", files)[0] == (
        "invalid", "r2: 2000 packets in but 1971 out + 30 dropped + 0 queued")


def test_a_link_behind_a_slower_one_cannot_be_overloaded(findings, files):
    """That is so of any two links of one rate in a row; not where others come in, or where rates change."""
    network = files["network.json"]
    first, second = network["links"][:2]
    for path in network["paths"]:
        path["hops"] = [first["name"], *path["hops_back"]]
        path["hops_back"] = [path["hops_back"][0]]
    network["paths"] = [{**path, "hops": [first["name"], second["name"]], "hops_back": [first["name"]]}
                        for path in network["paths"]]
    files["checks.json"]["bottlenecks"][1]["overloaded"] = False
    assert ("ok", f"{second['name']}: not measured, since no bottleneck before it is faster: no queue can stand there "
                  "for long") in findings("idle_network", files)

    def refused():
        return any(level == "suspect" and text.startswith(f"{second['name']}: the hosts behind it cannot overload it")
                   for level, text in findings("idle_network", files))
    assert not refused()
    first["rate_bps"] += 1
    assert refused()
    first.update(rate_bps=second["rate_bps"], schedule=[{"at_us": 5, "rate_bps": 10 * second["rate_bps"]}])
    assert refused()
    del first["schedule"]
    network["paths"].append({**network["paths"][0], "hops": [second["name"]]})
    assert refused()


def test_clients_may_think_all_the_time_and_go_on_until_the_end(findings, files):
    spoils.idle_component(files)
    assert any("no sampled flow of greedy was busy" in text for _, text in findings("windows", files))
    files["workload.json"]["components"].append({"name": "greedy", "kind": "request-response", "mix": "sources",
                                                 "clients": 2, "closes": False})
    found = findings("windows", files)
    assert not any(level == "suspect" for level, _ in found)
    assert any(text == "greedy: its clients were thinking whenever they were sampled" for _, text in found)


# -- several congestion controls in one run ----------------------------------------------

def in_turn(findings, files, change=lambda samples: None, ccas=("cubic", "bic")):
    """Findings about two flows against each other; ccas: what their senders say of themselves."""
    files["workload.json"]["flows"] = [evidence_files.flow(1, sport=7),
                                       evidence_files.flow(2, "n2", "n1", "bic", sport=8)]
    files["guest.json"]["accounts"] = [{"ends": [evidence_files.end(number, "sender", 0, ccas={cca: 1})]}
                                       for number, cca in enumerate(ccas, start=1)]
    samples = files["tcp_info"]
    mine = samples["node"] == "n1"
    samples.loc[mine, ["sport", "dport"]] = [7, 2]
    samples.loc[~mine, ["sport", "dport", "cca"]] = [8, 2, "bic"]
    change(samples)
    return findings("ccas", files)


def test_flows_that_take_turns(findings, files):
    assert in_turn(findings, files) == [("ok", "2 sockets of 2 flows said that they use bic, cubic"),
                                        ("ok", "62 samples of 2 flows report bic, cubic, each its own")]


@pytest.mark.parametrize("ccas, change, message", [
    (("cubic", "cubic"), lambda samples: None, "flow 2: 1 connections used cubic at the sender, not bic"),
    (("cubic", "bic"), lambda samples: samples.__setitem__("cca", "cubic"), "flow 2 used cubic, not bic")])
def test_a_flow_that_used_anothers(findings, files, ccas, change, message):
    assert in_turn(findings, files, change, ccas)[0] == ("invalid", message)


def test_other_sockets_between_the_same_hosts_do_not_count(findings, files):
    def add_control_connection(samples):
        samples.loc[(samples["node"] == "n2") & (samples["t_us"] == 0), ["sport", "cca"]] = [99, "cubic"]
    assert in_turn(findings, files, add_control_connection)[0][0] == "ok"


def test_a_flow_that_samples_missed_has_said_so_itself(findings, files):
    found = in_turn(findings, files, lambda samples: samples.drop(samples.index[samples["node"] == "n2"], inplace=True))
    assert found == [("ok", "2 sockets of 2 flows said that they use bic, cubic"),
                     ("ok", "31 samples of 1 flows report bic, cubic, each its own")]


def test_what_a_receiver_uses_counts_where_data_go_both_ways_only(findings, files):
    files["guest.json"]["accounts"][0]["ends"][0]["ccas"] = {"reno": 199}
    assert findings("ccas", files)[0] == ("invalid", "flow 1: 199 connections used reno at the receiver, not cubic")
    files["workload.json"]["flows"][0]["both_ways"] = False
    assert {level for level, _ in findings("ccas", files)} == {"ok"}


@pytest.mark.parametrize("check, file, path, value", [
    ("conservation", "counters.json", "drained/n1_to_r1/wire_dropped_packets", 1),
    ("idle_network", "checks.json", "paths/0/measured_rtt_us", 8060.0)])
def test_a_simulator_that_leaves_the_file_is_judged_by_it(findings, files, check, file, path, value):
    simulator = {"clock": "simulated", "capabilities": {"kernel": False}}
    assert {level for level, _ in findings(check, files, **simulator)} == {"ok"}
    evidence_files.set_at(files[file], path, value)
    assert findings(check, files, **simulator)[0][0] == "invalid"


@pytest.mark.parametrize("link, rate_bps, packets, every, level", [
    ("n2_to_r2", 10**8, 80, 1, "ok"),           # 9.7 ms at the host, 103 ms in the bottleneck behind it
    ("n2_to_r2", 10**8, 100, 1, "suspect"),     # 12.1 ms are more than a tenth of that and of the round trip
    ("n2_to_r2", 99 * 10**6, 80, 1, "suspect"),     # slower than the bottleneck: it is one itself
    ("r1_to_n1", 10**8, 80, 1, "suspect"),      # not a host
    ("n2_to_r2", 10**8, 2500, 20, "ok"),        # one burst that a sample happened to see
    ("r1_to_n1", 10**8, 2500, 20, "suspect"),
    ("n2_to_r2", 10**8, 400, 2, "suspect")])    # every other sample
def test_a_host_may_hold_bursts_in_the_place_of_the_bottleneck(findings, files, link, rate_bps, packets, every, level):
    edges = files["edge_queue"]
    mine = (edges["link"] == link) & (edges["t_us"] % (every * 1_000_000) == 0)
    edges.loc[mine, ["backlog_packets", "backlog_bytes"]] = [packets, packets * 1514]
    next(one for one in files["network.json"]["links"] if one["name"] == link)["rate_bps"] = rate_bps
    assert findings("edges", files)[0][0] == level


@pytest.mark.parametrize("seconds, level", [
    ((11, 15, 20, 26), "ok"), ((15, 16, 20, 26), "ok"), ((15, 16, 17, 18), "suspect")])
def test_long_waits_in_a_row_are_no_bursts(findings, files, seconds, level):
    """Four of twenty samples have a mean and a standard error, in whichever order."""
    edges = files["edge_queue"]
    mine = (edges["link"] == "n2_to_r2") & edges["t_us"].isin([1_000_000 * second for second in seconds])
    edges.loc[mine, ["backlog_packets", "backlog_bytes"]] = [500, 500 * 1514]
    (found, message), *_ = findings("edges", files)
    assert found == level and ("4 samples in a row" in message) == (level == "suspect")


def test_large_frames_beside_a_narrow_link(tmp_path, findings, files):
    """The smallest MTU of a network says nothing of the frames that other links carry."""
    evidence = evidence_files.write(tmp_path, files)
    before_us = round_trips._edges_us([], {}, Sojourns(evidence), evidence)
    files["network.json"]["mtu_bytes"] = 576
    next(link for link in files["network.json"]["links"] if link["name"] == "n1_to_r1")["mtu_bytes"] = 576
    evidence = evidence_files.write(tmp_path, files)
    assert round_trips._edges_us([], {}, Sojourns(evidence), evidence) == before_us
    assert max(us for us in before_us.values() if us < 1e9) > 0
    assert {level for level, _ in findings("queues", files)} == {"ok"}


def test_a_datagram_waits_for_a_frame_of_each_link(findings, files):
    bad_senders.delays(delay_max_us=178_000)(files)
    assert {level for level, _ in findings("one_way", files)} == {"suspect"}
    for link in files["network.json"]["links"]:
        link["mtu_bytes"] = 9000
    assert {level for level, _ in findings("one_way", files)} == {"ok"}


@pytest.mark.parametrize("shaper, level", [(True, "ok"), (False, "suspect")])
def test_a_datagram_takes_no_time_on_the_wire_behind_a_shaper(findings, files, shaper, level):
    """Where it does, each takes 81 ms more than it took."""
    bad_senders.delays()(files)
    link = next(link for link in files["network.json"]["links"] if link["name"] == "right_to_left")
    link.update(shaper=shaper, rate_bps=link["rate_bps"] // 1000)
    assert {level for level, _ in findings("one_way", files)} == {level}


@pytest.mark.parametrize("stop_s, level", [(30, "ok"), (20, "suspect")])
def test_a_datagram_that_waits_when_records_end_waits_for_a_full_queue(findings, files, stop_s, level):
    bad_senders.delays(delay_max_us=250_000)(files)
    next(link for link in files["network.json"]["links"] if link["name"] == "right_to_left")["limit_packets"] = 8500
    for flow in files["workload.json"]["flows"]:
        flow["stop_us"] = stop_s * 1_000_000
    assert {one for one, _ in findings("one_way", files)} == {level}


def test_linux_6_1_counts_forwarded_packets_among_requests(findings, files):
    for name, counters in files["snmp.json"]["nodes"].items():
        del counters["IpOutTransmits"]
        if name in ("r1", "r2"):
            counters["IpOutRequests"] = counters["IpForwDatagrams"]
    assert {level for level, _ in findings("forwarded", files)} == {"ok"}
    files["snmp.json"]["nodes"]["r1"]["IpOutRequests"][2] += 1
    assert findings("forwarded", files)[0][0] == "invalid"


@pytest.mark.parametrize("handed_over, level", [(0, "invalid"), (1, "invalid"), (2, "ok")])
@pytest.mark.parametrize("programs", [True, False])
def test_a_datagram_of_a_program_may_be_many_packets(findings, files, handed_over, level, programs):
    """200 packets more at the links of n2, which programs handed over 128 at a time."""
    stacks = files["snmp.json"]["nodes"]["n2"]
    stacks["IpOutRequests"] = [count - 200 for count in stacks["IpOutRequests"]]
    stacks["UdpOutDatagrams"] = [handed_over] * 3
    flow, = files["workload.json"]["flows"]
    flow["transport"] = "program" if programs else "tcp"
    assert findings("forwarded", files)[0][0] == (level if programs else "invalid")
