# SPDX-License-Identifier: GPL-2.0-only
"""Runs that are bad in one way each, for every way in which a check of the verdict can say so.

A check file is listed in CHECKS below with at least one such run; test_testbed_fidelity_fails.py asserts that, and
that each `Finding` in its code that is not ok is found in one of them.
"""
import dataclasses
from collections.abc import Callable
from typing import Any

import pandas as pd

import evidence_files

Files = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Bad:
    """spoil(files) makes good evidence bad; then `check` says `message` (a regular expression) at `level`.

    evidence: what else is different, for evidence_files.write.
    """
    check: str
    name: str
    spoil: Callable[[Files], object]
    level: str
    message: str
    evidence: dict[str, Any] = dataclasses.field(default_factory=dict)


SIMULATOR = {"clock": "simulated", "capabilities": {"kernel": False}}


def put(file: str, path: str, value: Any) -> Callable[[Files], None]:
    """Change a value in a JSON file."""
    return lambda files: evidence_files.set_at(files[file], path, value)


def cell(table: str, column: str, value: Any, rows: Any = slice(None)) -> Callable[[Files], None]:
    """Change a column of a table, in some rows (positions)."""
    def spoil(files: Files) -> None:
        frame = files[table] = files[table].astype({column: object})
        frame.loc[frame.index[rows], column] = value
    return spoil


def without(name: str) -> Callable[[Files], Any]:
    """Leave a file out."""
    return lambda files: files.pop(name)


def empty(table: str) -> Callable[[Files], None]:
    """Leave all rows of a table out."""
    return lambda files: files.update({table: files[table][:0]})


def no_link(table: str, link: str) -> Callable[[Files], None]:
    """Leave the rows of a link out."""
    return lambda files: files.update({table: files[table][files[table]["link"] != link]})


def scaled(table: str, column: str, factor: float, link: str = "right_to_left") -> Callable[[Files], None]:
    """Multiply a column of a link's rows."""
    def spoil(files: Files) -> None:
        files[table] = files[table].astype({column: float})
        files[table].loc[files[table]["link"] == link, column] *= factor
    return spoil


def both(*spoils: Callable[[Files], object]) -> Callable[[Files], None]:
    """One after the other."""
    def spoil(files: Files) -> None:
        for one in spoils:
            one(files)
    return spoil


def greedy(**changes: Any) -> Callable[[Files], None]:
    """One greedy flow from n2 to n1 in place of the Tmix source; its sender is sampled."""
    def spoil(files: Files) -> None:
        files["workload.json"] = {"components": [{"name": "greedy", "kind": "greedy"}], "flows": [
            evidence_files.flow(1, "n2", "n1", sport=5000, dport=1223, **changes)]}
        files["guest.json"]["accounts"] = [{"node": "n2", "ends": [evidence_files.end(1, "sender", 0)]},
                                           {"node": "n1", "ends": [evidence_files.end(1, "receiver", 14_335_200)]}]
        del files["connections"], files["adus"]
    return spoil


def udp(**counts: Any) -> Callable[[Files], None]:
    """Two UDP flows to the left in place of everything else, where 100 packets are dropped; counts: of the second."""
    def spoil(files: Files) -> None:
        flows = [evidence_files.flow(number, "n2", "n1", None, transport="udp", rate_bps=10**6) for number in (8, 9)]
        files["workload.json"] = {"components": [{"name": "greedy", "kind": "cbr"}], "flows": flows}
        good = {"sent_packets": 500, "received_packets": 450, "socket_dropped_packets": 0}
        files["guest.json"]["traffic"] = {"greedy": {"flows": [{"flow": 8, **good}, {"flow": 9, **good, **counts}]}}
    return spoil


def offloads(files: Files) -> None:
    files["checks.json"]["offloads"]["r1/r1-eth0"]["gso"] = True


def stuck_socket(files: Files) -> None:
    """Nothing is acknowledged in the last 6 s."""
    table = files["tcp_info"]
    table.loc[(table["node"] == "n2") & (table["t_us"] >= 24_000_000), "bytes_acked"] = 7


def stuck_program(files: Files) -> None:
    """What was sent at 20 s is acknowledged, and nobody has read it."""
    stuck_socket(files)
    files["tcp_info"]["unacked"] = 0
    files["adus"].loc[3, "sent_us"] = 20_000_000


def lose_links(part: str, key: str) -> Callable[[Files], None]:
    def spoil(files: Files) -> None:
        whole = files["checks.json"][part]
        files["checks.json"][part] = ([one for one in whole if one["link"] != key] if isinstance(whole, list)
                                      else {name: one for name, one in whole.items() if name != key})
    return spoil


def no_answer_expected(files: Files) -> None:
    files["network.json"]["paths"].append({"initiator": "n1", "acceptor": "n3", "base_rtt_us": 8000,
                                           "hops": ["r2_to_n3"], "hops_back": []})


def lossy(lost: int) -> Callable[[Files], None]:
    """1 % of 5,000: 50, give or take 36."""
    def spoil(files: Files) -> None:
        next(link for link in files["network.json"]["links"] if link["name"] == "n1_to_r1")["loss_percent"] = 1.0
        files["counters.json"]["drained"]["n1_to_r1"]["wire_dropped_packets"] = lost
    return spoil


def chosen_loss(files: Files) -> None:
    next(link for link in files["network.json"]["links"] if link["name"] == "n1_to_r1").update(
        lose_segments=[14], lose_copies=1)


def nothing_moved(files: Files) -> None:
    for link in files["counters.json"]["drained"].values():
        link.update({key: 0 for key, value in link.items() if isinstance(value, int)})


def other_flow(files: Files) -> None:
    """A second flow with a congestion control of its own, whose samples name the first one's."""
    greedy()(files)
    files["workload.json"]["flows"].append(evidence_files.flow(2, "n1", "n2", "bic", sport=1223, dport=5000))
    files["guest.json"]["accounts"][0]["ends"].append(evidence_files.end(2, "sender", 0, ccas={"bic": 1}))


def overload(files: Files) -> None:
    """110 % are offered, and 60 % carried, though a lot waits."""
    files["workload.json"]["components"][0].update(target_load=1.1, offered_bps={"right_to_left": 110e6})
    files["connections"]["acc_bytes_asked"] = 2_000_000


def hidden_bottleneck(files: Files) -> None:
    """20 packets wait at the edge that n2's answers arrive on: 2.4 ms of the round trip's 8."""
    edges = files["edge_queue"]
    edges.loc[edges["link"] == "r1_to_n1", ["backlog_packets", "backlog_bytes"]] = [20, 20 * 1514]


def full_edge(files: Files) -> None:
    """An edge of 62.5 Mbit/s that carries 60."""
    next(link for link in files["network.json"]["links"] if link["name"] == "n2_to_r2")["rate_bps"] = 62_500_000


def drop(table: str, rows: Any) -> Callable[[Files], None]:
    """Leave some rows of a table out, by position."""
    def spoil(files: Files) -> None:
        files[table] = files[table].drop(files[table].index[rows])
    return spoil


def few(table: str) -> Callable[[Files], None]:
    """Samples at 10 s and later are too few."""
    return lambda files: files.update({table: files[table][files[table]["t_us"] < 11_000_000]})


def idle(files: Files) -> None:
    files["tcp_info"]["busy_us"] = 0


def idle_component(files: Files) -> None:
    """A second component, whose flow is never seen."""
    files["workload.json"]["flows"].append(evidence_files.flow(2, sport=9))


def share(column: str) -> Callable[[Files], None]:
    return lambda files: files["tcp_info"].update(pd.DataFrame({column: files["tcp_info"]["busy_us"] // 10}))


CHECKS = [
    Bad("ccas", "another in the account", put("guest.json", "accounts/1/ends/0/ccas", {"cubic": 198, "reno": 1}),
        "invalid", "flow 1: 1 connections used reno at the sender, not cubic"),
    Bad("ccas", "another at the acceptor", put("guest.json", "accounts/0/ends/0/ccas", {"": 199}),
        "invalid", "199 connections used an unknown one at the receiver"),
    Bad("ccas", "nobody said", put("guest.json", "accounts", []), "suspect", "no connection of 1 of 1 flows said"),
    Bad("ccas", "not everybody said", put("guest.json", "accounts/1/ends/0/ccas", {"cubic": 150}),
        "invalid", "199 connections were established, of which 150 said"),
    Bad("ccas", "another in a sample", cell("tcp_info", "cca", "reno", 5), "invalid",
        "1 of 62 flow samples use another congestion control: reno"),
    Bad("ccas", "unknown in a sample", cell("tcp_info", "cca", "", 5), "invalid", "1 of 62 flow samples"),
    Bad("ccas", "only connecting", cell("tcp_info", "state", "SYN-SENT"), "suspect", "no connected flow was sampled"),
    Bad("ccas", "two flows, one of them wrong", other_flow, "invalid", "flow 2 used cubic, not bic"),
    Bad("connections", "no table", without("connections"), "suspect", "no record of the connections"),
    Bad("connections", "never began", cell("connections", "start_us", None, 7), "invalid",
        "1 of 200 connections were due and never began"),
    Bad("connections", "late", lambda files: files["connections"]["start_us"].add(2_000).pipe(
        lambda late: files["connections"].update(late)), "suspect", "200 connections began late, by up to 2000 us"),
    Bad("connections", "failed", cell("connections", "status", "failed: ETIMEDOUT", slice(3)), "suspect",
        r"4 connections failed \(2.00%\): 3 ETIMEDOUT, 1 ECONNRESET"),
    Bad("connections", "no free port", cell("connections", "status", "failed: EADDRINUSE", 3), "suspect",
        "1 connections found no free port"),
    Bad("connections", "none finished", cell("connections", "status", "unfinished"), "suspect",
        "none of 200 connections finished"),
    Bad("conservation", "before the device", put("counters.json", "drained/right_to_left/sent_packets", 9_899),
        "invalid", "right_to_left: sent = left the device"),
    Bad("conservation", "between devices", put("counters.json", "drained/n1_to_r1/device_rx_packets", 4_999), "invalid",
        "left the device = arrived"),
    Bad("conservation", "on the wire", put("counters.json", "drained/n1_to_r1/wire_delivered_packets", 4_999),
        "invalid", "arrived = delivered"),
    Bad("conservation", "in a router", put("counters.json", "drained/right_to_left/dropped_packets", 99), "invalid",
        "r2: 15000 packets in but 14900 out . 99 dropped . 0 queued"),
    Bad("conservation", "other links", put("counters.json", "drained/alien", {}), "invalid", "alien"),
    Bad("conservation", "no links", put("counters.json", "drained", {}), "invalid", "not those of this network"),
    Bad("conservation", "no packets", nothing_moved, "suspect", "accounted for on 6 link directions .0 packets"),
    Bad("conservation", "a chosen loss that was not", chosen_loss, "suspect", "0 of 1 chosen losses took place"),
    Bad("datagrams", "vanished", udp(received_packets=451), "invalid", "901 received . 99 lost .*, but 100 were"),
    Bad("datagrams", "of one flow", udp(received_packets=300), "invalid", "flow 9: 500 packets sent, 300 received"),
    Bad("datagrams", "doubled", udp(received_packets=501), "invalid", "flow 9: 500 packets sent, 501 received"),
    Bad("datagrams", "no room", udp(received_packets=449, socket_dropped_packets=1), "invalid",
        "flow 9: the receiver's socket dropped 1 packets"),
    Bad("datagrams", "none sent", udp(sent_packets=0, received_packets=0), "suspect", "flow 9 sent no packet"),
    Bad("datagrams", "nobody counted", both(udp(), put("guest.json", "traffic", {})), "suspect",
        "no record of the packets of 2 of 2 UDP flows"),
    Bad("delivered", "more than crossed", put("guest.json", "accounts/1/ends/0/checked_bytes", 18_000_000), "invalid",
        "programs received 18000000: more than crossed it"),
    Bad("delivered", "less than crossed", put("guest.json", "accounts/1/ends/0/checked_bytes", 11_000_000), "suspect",
        "retransmissions explain at most 0 of the others"),
    Bad("delivered", "nobody said", put("guest.json", "accounts", []), "suspect",
        "right_to_left: no record of what 1 of its flows received"),
    Bad("edges", "no table", without("edge_queue"), "suspect", "were not sampled"),
    Bad("edges", "a link left out", no_link("edge_queue", "r1_to_n1"), "suspect", "1 links .* such as r1_to_n1"),
    Bad("edges", "packets wait", hidden_bottleneck, "suspect",
        r"r1_to_n1 is no bottleneck, but packets wait there for 2.42 ms on average .20.0 packets"),
    Bad("edges", "a full link", full_edge, "suspect",
        "n2_to_r2 is no bottleneck, but slower than one and carries 96.0% of its rate"),
    Bad("idle_network", "longer round trip", put("checks.json", "paths/0/measured_rtt_us", 8060.0), "invalid",
        "8.060 ms instead of 8.047 ms"),
    Bad("idle_network", "shorter round trip", put("checks.json", "paths/0/measured_rtt_us", 8030.0), "invalid",
        "8.030 ms instead"),
    Bad("idle_network", "no echo", put("checks.json", "paths/0/measured_rtt_us", None), "invalid", "no answer"),
    Bad("idle_network", "slower", put("checks.json", "bottlenecks/0/measured_bps", 98_000_000), "invalid",
        "98.000 Mbit/s"),
    Bad("idle_network", "faster", put("checks.json", "bottlenecks/1/measured_bps", 100_200_000), "invalid",
        "right_to_left saturated"),
    Bad("idle_network", "longer queue", put("checks.json", "bottlenecks/1/longest_queue_packets", 851), "invalid",
        "reached 851"),
    Bad("idle_network", "shorter queue", put("checks.json", "bottlenecks/1/longest_queue_packets", 800), "invalid",
        "reached 800"),
    Bad("idle_network", "no drops", put("checks.json", "bottlenecks/1/dropped_packets", 0), "invalid", "0 drops"),
    Bad("idle_network", "too short", put("checks.json", "bottlenecks/0/window_packets", 0), "invalid",
        "over 0 packets"),
    Bad("idle_network", "not overloaded", put("checks.json", "bottlenecks/0/overloaded", False), "suspect",
        "cannot overload"),
    Bad("idle_network", "not filled", put("checks.json", "bottlenecks/0/filled", False), "suspect",
        r"its buffer of 0.1 s \(850 packets\) is too large"),
    Bad("idle_network", "offloads", offloads, "invalid", "offloads are on: r1/r1-eth0 gso"),
    Bad("idle_network", "offloads unknown", put("checks.json", "offloads", {}), "suspect", "no offloads were measured"),
    Bad("idle_network", "no paths", put("checks.json", "paths", []), "suspect", "no paths were measured"),
    Bad("idle_network", "no rates", put("checks.json", "bottlenecks", []), "suspect", "no bottlenecks were measured"),
    Bad("idle_network", "a rate left out", lose_links("bottlenecks", "right_to_left"), "suspect",
        "rate and buffer of right_to_left not measured"),
    Bad("idle_network", "an interface left out", lose_links("offloads", "n1/n1-eth0"), "suspect",
        "offloads of n1/n1-eth0 not measured"),
    Bad("idle_network", "a link left out", no_answer_expected, "suspect", "round-trip time over r2_to_n3 not measured"),
    Bad("littles_law", "packets unseen", scaled("sojourn", "packets", 0.9), "suspect",
        r"right_to_left: 850.00 packets queued on average, 765.00 by the time .* \(-85.00, 24.29 allowed"),
    Bad("littles_law", "times wrong", scaled("sojourn", "mean_us", 1.05), "suspect", "892.50 by the time"),
    Bad("littles_law", "too few", few("queue"), "suspect", "1 samples of its queue and 20 of the time in it are too"),
    Bad("littles_law", "a link left out", no_link("sojourn", "right_to_left"), "suspect",
        "right_to_left: 20 samples of its queue and 0 of the time"),
    Bad("littles_law", "no table", without("sojourn"), "suspect", "no record of the time that packets spent"),
    Bad("load", "less than the target", put("workload.json", "components/0/target_load", 0.7), "invalid", "target 70%"),
    Bad("load", "more than the target", put("workload.json", "components/0/target_load", 0.5), "invalid", r"\+22.00%"),
    Bad("load", "nothing", put("workload.json", "components/0/offered_bps/right_to_left", 0), "invalid",
        "offered load 0.00%"),
    Bad("load", "not steady", put("workload.json", "components/0/thirds_bps/right_to_left", [60e6, 60e6, 64e6]),
        "suspect", "differ by 6.7%"),
    Bad("load", "against the target", lambda files: files["workload.json"]["components"][0].update(
        reverse_links=["left_to_right"], reverse_load=0.1), "invalid", r"9.00% of left_to_right, .* \(-10.00%\)"),
    Bad("load", "nobody said", lambda files: files["workload.json"]["components"][0].pop("offered_bps"), "suspect",
        "tmix: no record of the load that was offered"),
    Bad("load", "not measured", put("workload.json", "components/0/measured_us", [30_000_000, 30_000_000]), "suspect",
        "carried load unknown"),
    Bad("load", "carried less", scaled("queue", "sent_bytes", 0.8), "suspect", "carried 48.00 Mbit/s of 61.00 offered"),
    Bad("load", "carried more", scaled("queue", "sent_bytes", 1.2), "suspect", "carried 72.00 Mbit/s of 61.00 offered"),
    Bad("load", "idle in overload", overload, "suspect", "carried 60.00 Mbit/s of 110.00 offered"),
    Bad("load", "no queue", without("queue"), "suspect", "the bottleneck was not sampled"),
    Bad("load", "a link left out", no_link("queue", "right_to_left"), "suspect", "carried load unknown"),
    Bad("losses", "random", put("counters.json", "drained/n1_to_r1/wire_dropped_packets", 1), "invalid",
        "n1_to_r1 has no random loss, but lost 1 packets"),
    Bad("losses", "no bottleneck", put("counters.json", "drained/r1_to_n1/dropped_packets", 2), "suspect",
        "r1_to_n1 is no bottleneck, but its queue dropped 2 packets"),
    Bad("losses", "too few", lossy(1), "suspect", r"n1_to_r1 lost 1 of 5000 packets at random, 50 expected"),
    Bad("losses", "too many", lossy(100), "suspect", "lost 100 of 5000"),
    Bad("minimum", "no flow", put("workload.json", "flows", []), "suspect", "no flow is on record"),
    Bad("minimum", "sources without connections", empty("connections"), "suspect",
        "no record of what was delivered by 1 sources"),
    Bad("minimum", "a simulator without records", both(greedy(), without("tcp_info"), without("guest.json")), "suspect",
        "no record of what was delivered by 1 flows", SIMULATOR),
    Bad("minimum", "no queue", without("queue"), "suspect", "no queue was sampled", SIMULATOR),
    Bad("payload", "wrong bytes", put("guest.json", "accounts/0/ends/0", evidence_files.end(
        1, "receiver", 100_000, wrong_pieces=2, first_wrong=[7, 1448])), "invalid",
        "flow 1: 2 pieces that its receiver got .* the first in connection 7 after 1448 bytes"),
    Bad("payload", "nobody looked", put("guest.json", "accounts", []), "suspect", "no record of what 1 of 1 flows"),
    Bad("payload", "one end did not look", put("guest.json", "accounts/1/ends", []), "suspect",
        "1 of 1 flows received"),
    Bad("payload", "nothing arrived", both(put("guest.json", "accounts/0/ends/0/checked_bytes", 0),
                                           put("guest.json", "accounts/1/ends/0/checked_bytes", 0)),
        "suspect", "no byte arrived"),
    Bad("payload", "other counts", cell("connections", "acc_bytes_delivered", 71_000, 4), "invalid",
        "source 0: its connections delivered 14333812 bytes, of which its programs looked at 14335212"),
    Bad("sampling", "late", put("guest.json", "sampler_lateness_us/tcp_info", 1001), "suspect",
        "tcp_info was up to 1001 us late"),
    Bad("sampling", "no record", put("guest.json", "sampler_lateness_us", {"queue": 0}), "suspect",
        "no record of probe tcp_info"),
    Bad("sampling", "events lost", put("guest.json", "probes/sojourn", {"lost_events": 3}), "invalid", "lost 3 events"),
    Bad("sampling", "no table", without("tcp_info"), "suspect", "probe tcp_info left no table"),
    Bad("sampling", "no queue", without("queue"), "suspect", "no queue was sampled"),
    Bad("sampling", "a link left out", no_link("queue", "right_to_left"), "suspect",
        "right_to_left: its queue was never sampled"),
    Bad("sampling", "samples left out", drop("queue", slice(0, 1)), "suspect",
        "right_to_left: 30 samples of its queue, 31 were due"),
    Bad("settings", "of a node", put("checks.json", "sysctls/r1/net.ipv4.tcp_congestion_control", "reno"), "invalid",
        "r1: net.ipv4.tcp_congestion_control is reno, not cubic"),
    Bad("settings", "of no node", put("checks.json", "sysctls", {}), "invalid", "is None"),
    Bad("settings", "of the kernel", put("checks.json", "machine_sysctls/net.ipv4.tcp_mem", "1 2 4"), "invalid",
        "the kernel: net.ipv4.tcp_mem is 1 2 4, not 1 2 3"),
    Bad("settings", "not recorded", put("checks.json", "sysctls_wanted", {}), "suspect",
        "no record of the settings of the nodes"),
    Bad("settings", "the kernel's not recorded", put("checks.json", "machine_sysctls_wanted", {}), "suspect",
        "no record of the settings of the whole kernel"),
    *[Bad("stack", name, put("snmp.json", f"nodes/n1/{name}", [0, 0, 1]), "suspect", f"{what}.*: {name} 1")
      for name, what in (("TcpExtListenDrops", "refused for want of room"), ("TcpExtTCPTimeWaitOverflow", "forgotten"),
                         ("TcpExtTCPMemoryPressures", "limit of memory"), ("TcpExtPruneCalled", "too little buffer"),
                         ("TcpExtTCPRcvCollapsed", "too little buffer"), ("IpInDiscards", "threw packets away"),
                         ("IpReasmReqds", "fragments"))],
    Bad("stack", "reordering", put("snmp.json", "nodes/n2/TcpExtTCPSACKReorder", [0, 5, 5]), "suspect",
        "senders saw 5 of 10000 segments overtake others"),
    Bad("stack", "a node left out", lambda files: files["snmp.json"]["nodes"].pop("r1"), "suspect",
        "the stack of r1 was not read"),
    Bad("stack", "nothing sent", put("snmp.json", "nodes", {name: {} for name in ("n1", "n2", "r1", "r2")}), "suspect",
        "TCP sent no data"),
    Bad("stalled", "in TCP", stuck_socket, "suspect",
        "1 of 2 sockets that were connected at the end are stuck: 10.0.3.1:5000 to 10.0.2.1:1223 had nothing "
        "acknowledged for 6.0 s, with a timeout of 0.2 s"),
    Bad("stalled", "in a program", stuck_program, "suspect",
        "1 data units were sent and acknowledged more than 5 s .* connection 199 of source 0"),
    Bad("stalled", "no samples", empty("tcp_info"), "suspect", "no flow was sampled"),
    Bad("stalled", "units without times", cell("adus", "delivered_us", None), "suspect",
        "198 connections finished, but no data unit was delivered"),
    Bad("stalled", "no units", without("adus"), "suspect", "no record of data units"),
    Bad("windows", "receive window", share("rwnd_limited_us"), "suspect",
        "1 of 1 flows of tmix were limited by the receive window for more than 5% .* flow 1 for 10.00%"),
    Bad("windows", "send buffer", share("sndbuf_limited_us"), "suspect", "limited by the send buffer .* 10.00%"),
    Bad("windows", "nothing busy", idle, "suspect", "no sampled flow was busy"),
    Bad("windows", "a component not seen", idle_component, "suspect", "no sampled flow of greedy was busy"),
    Bad("windows", "nothing to send", both(greedy(), cell("tcp_info", "app_limited", 1)), "suspect",
        "1 of 1 flows of greedy had nothing to send in more than 5% of their samples: flow 1 in 100.00%"),
]
