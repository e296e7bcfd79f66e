# SPDX-License-Identifier: GPL-2.0-only
"""A greedy flow whose samples, queues, stacks and programs fit each other, and runs in which one of them does not."""
import pandas as pd

from tests.unit.testbed import evidence_files
from tests.unit.testbed.bad_runs import Bad
from tests.unit.testbed.spoils import both, cell, drop, empty, greedy, more, put, scaled, udp

#: segments that the bottleneck carries in a second, and what is in flight at its round trip of 181.16 ms
RATE, WINDOW = (evidence_files.TO_LEFT - evidence_files.DROPPED) // 30, 897
PACING_BPS = 1.2 * WINDOW * 1448 * 8e6 / 181_160


def sending(files):
    """n2 sends all it can to n1, through a queue of 171.6 ms; what was dropped it has sent again by 1 s."""
    greedy()(files)
    link, = (one for one in files["network.json"]["links"] if one["name"] == "n2_to_r2")
    link["rate_bps"] = 10**9
    rows = []
    for t_us in evidence_files.T_US:
        acked, again = RATE * t_us // 1_000_000, evidence_files.DROPPED * (t_us > 0)
        sender = evidence_files.socket_row(
            t_us, acked * 1448 + 1, WINDOW, cwnd=WINDOW, ssthresh=500, total_retrans=again, bytes_retrans=again * 1448,
            bytes_sent=(acked + WINDOW + again) * 1448, pacing_rate_bps=PACING_BPS, rwnd_limited_us=0)
        receiver = evidence_files.socket_row(t_us, 0, 0, bytes_sent=0, delivered=1, srtt_us=8100,
                                             bytes_received=acked * 1448)
        rows += [{**sender, "node": "n2", "src": "10.0.3.1", "sport": 5000, "dst": "10.0.2.1", "dport": 1223},
                 {**receiver, "node": "n1", "src": "10.0.2.1", "sport": 1223, "dst": "10.0.3.1", "dport": 5000}]
    files["tcp_info"] = pd.DataFrame(rows)
    nodes = files["snmp.json"]["nodes"]
    nodes["n1"]["TcpExtTCPOrigDataSent"] = [0, 0, 0]
    nodes["n2"].update(TcpRetransSegs=[evidence_files.DROPPED] * 3, TcpExtTCPOrigDataSent=[
        RATE * seconds + WINDOW for seconds in (10, 30, 30)])


def sender(column, factor=1.0, more_by=0.0, rows=slice(None)):
    """Another column of the sender's samples; rows: which of them."""
    def spoil(files):
        table = files["tcp_info"] = files["tcp_info"].astype({column: float})
        mine = table.index[table["node"] == "n2"][rows]
        table.loc[mine, column] = table.loc[mine, column] * factor + more_by
    return both(sending, spoil)


def receiver(column, factor):
    def spoil(files):
        table = files["tcp_info"] = files["tcp_info"].astype({column: float})
        table.loc[table["node"] == "n1", column] *= factor
    return both(sending, spoil)


def spoilt(*spoils):
    return both(sending, *spoils)


def later(table, by_us):
    return lambda files: files[table].update({"t_us": files[table]["t_us"] + by_us})


def moved_drops(files):
    """All drops of the run had happened after 5 s."""
    table = files["queue"]
    rows = (table["link"] == "right_to_left") & (table["t_us"] >= 5_000_000)
    table.loc[rows, "drops"] = evidence_files.DROPPED


def shorter_queue(files):
    """All that the queue is said to hold, and the time that packets spent there."""
    for table, columns in (("queue", ["backlog_bytes", "backlog_packets"]),
                           ("sojourn", ["mean_us", "min_us", "max_us"]), ("sojourn_hist", ["low_us", "high_us"])):
        for column in columns:
            scaled(table, column, 0.7)(files)
    files["queue"]["backlog_packets"] = files["queue"]["backlog_packets"].round()


def collapsed(files):
    """Half of the packets took 100 ms more and half 100 ms less: the distribution has the mean of all."""
    table = files["sojourn"]
    mine = table["link"] == "right_to_left"
    spread = files["sojourn_hist"]
    spread.loc[spread["link"] == "right_to_left", ["low_us", "high_us"]] = [171_570, 171_590]
    table.loc[mine, ["mean_us", "min_us", "max_us"]] = [(71_578.5, 71_578.5, 71_578.5), (
        271_578.5, 271_578.5, 271_578.5)] * (int(mine.sum()) // 2)


def delays(**changes):
    """Two UDP flows whose packets waited as long as the queue says, the second with other delays."""
    idle_us = 4000 + 3 * 1014 * 8 / 100
    good = {"received_bytes": 450_000, "delay_min_us": idle_us + 171_578, "delay_p50_us": idle_us + 171_578,
            "delay_mean_us": idle_us + 171_578.5, "delay_max_us": idle_us + 171_579}

    def spoil(files):
        udp()(files)
        first, second = files["guest.json"]["traffic"]["greedy"]["flows"]
        first.update(good)
        second.update({**good, **changes})
    return spoil


def node(name, counter, values):
    return put("snmp.json", f"nodes/{name}/{counter}", values)


CHECKS = [
    Bad("acknowledged", "no samples", spoilt(empty("tcp_info")), "suspect", "no connected socket was sampled"),
    Bad("acknowledged", "more acknowledged", sender("bytes_acked", 1.05), "invalid",
        "what was sent and is not acknowledged is not in flight, in 27 of 62 samples, such as n2:5000 at 4 s"),
    Bad("acknowledged", "less in flight", sender("unacked", more_by=-1), "invalid",
        "at 0 s: 1298855 bytes in 896 segments of 1448"),
    Bad("acknowledged", "more in flight than bytes", both(sender("unacked", 3000)), "invalid", "is not in flight"),
    Bad("acknowledged", "nothing sent again", sender("bytes_retrans", 0), "invalid",
        "is not in flight"),
    Bad("acknowledged", "segments sent again", sender("total_retrans", 0), "invalid",
        "the bytes that were sent again are not those of the segments that were, .* 144800 bytes in 0 segments"),
    Bad("acknowledged", "too many sent again", sender("total_retrans", 2), "invalid",
        "flow 1: 200 segments were sent again until 1 s, whose bytes make 100.0"),
    Bad("acknowledged", "delivered less", sender("delivered", 0.9), "invalid",
        "more bytes are acknowledged than segments were delivered"),
    Bad("acknowledged", "delivered twice", sender("delivered", 2), "invalid", "flow 1: 9910 segments delivered at 1 s"),
    Bad("acknowledged", "a counter that falls", sender("delivered", 0.5, rows=slice(9, 10)), "invalid",
        "flow 1: delivered of its sender falls at 9 s"),
    Bad("acknowledged", "the receiver has more", receiver("bytes_received", 1.2), "invalid",
        "flow 1: its receiver has 8608070 bytes in order at 1 s, of 8472248 sent and"),
    Bad("acknowledged", "the receiver has less", receiver("bytes_received", 0.95), "invalid", "bytes in order at 1 s"),
    Bad("acknowledged", "the program got more", spoilt(put(
        "guest.json", "accounts/1/ends/0/checked_bytes", 230_000_000)), "invalid",
        "flow 1: its receiver's program got 230000000 bytes, its socket 215201760"),
    Bad("acknowledged", "the program got less", spoilt(put(
        "guest.json", "accounts/1/ends/0/checked_bytes", 205_000_000)), "invalid",
        "its receiver's program got 205000000 bytes"),
    Bad("cwnd", "lost in Open", sender("lost", more_by=3), "invalid",
        "flow 1: 3 segments are lost and its state is Open"),
    Bad("cwnd", "repairs nothing", both(sender("ca_state", more_by=3, rows=slice(7, 9)), cell(
        "tcp_info", "total_retrans", 0)), "invalid",
        "it has repaired losses 1 times by its state, and sent 0 segments again"),
    Bad("cwnd", "round trips", sender("srtt_us", 0.7), "invalid",
        "897.0 segments were in flight on average, 628.. by what was delivered per round trip"),
    Bad("cwnd", "windows", sender("cwnd", 2), "invalid", "in 30 of 30 samples its pacing rate is not what TCP makes"),
    Bad("cwnd", "rates", sender("pacing_rate_bps", 1000 / 1024), "invalid", "its pacing rate is not what TCP makes"),
    Bad("cwnd", "thresholds", sender("ssthresh", 4), "invalid", "its pacing rate is not what TCP makes"),
    Bad("cwnd", "windows and rates", both(sender("cwnd", 2), lambda files: files["tcp_info"].update(
        {"pacing_rate_bps": files["tcp_info"]["pacing_rate_bps"] * 2})), "suspect",
        "in 28 of 28 samples less is in flight than its window, .* 897 of 1794 segments"),
    Bad("cwnd", "smaller windows", sender("cwnd", 0.5), "suspect", "more is in flight than its window, .* 897 of 448"),
    Bad("forwarded", "drops before their time", moved_drops, "invalid",
        "r2: sent = queued does not hold when measuring began: 75423 packets by its stack, 75490 by its links"),
    Bad("forwarded", "a shorter queue", shorter_queue, "invalid",
        "r2: sent = queued does not hold when measuring began"),
    Bad("forwarded", "at the end", node("n1", "IpOutRequests", [25_000, 74_990, 75_000]), "invalid",
        "n1: sent = queued does not hold at the end: 74990 packets by its stack, 75000 by its links"),
    Bad("forwarded", "received less", node("r1", "IpInReceives", [0, 0, 0]), "invalid",
        "r1: delivered = received does not hold when the network had run empty: 0 packets by its stack"),
    Bad("instruments", "another time", more("queue", "sent_packets", 40, slice(5, 6)), "invalid",
        "right_to_left: sojourn has another number of packets than queue at 1 of 31 instants, such as 5 s .*40"),
    Bad("instruments", "a mean that is none", cell("sojourn", "max_us", 100_000, slice(5, 7)), "invalid",
        "right_to_left: the mean of 2 intervals of sojourn is not between .* 171.579 ms at 5 s"),
    Bad("instruments", "a collapsed distribution", collapsed, "invalid",
        "right_to_left: 99080 packets were queued for less than 171.590 ms by sojourn_hist, .* and 49540 at most"),
    Bad("one_way", "longer on average", delays(delay_mean_us=210_000), "suspect",
        "flow 9: its packets took 210.000 ms on average, delays, frames and queues make 157.[0-9]* to 177.[0-9]* ms"),
    Bad("one_way", "shorter on average", delays(delay_mean_us=140_000), "suspect", "took 140.000 ms on average"),
    Bad("one_way", "longest", delays(delay_max_us=250_000), "suspect",
        "flow 9: a packet took 250.000 ms, delays, frames and queues make 176.[0-9]* ms at most"),
    Bad("queues", "bytes and packets", scaled("queue", "backlog_bytes", 0.01), "invalid",
        "right_to_left: at 0 s 12869 bytes cannot be 850 packets .31 such samples"),
    Bad("queues", "sent bytes and packets", scaled("queue", "sent_bytes", 1.1), "invalid",
        "right_to_left: at 1 s 8250392 bytes sent cannot be 4954 packets"),
    Bad("queues", "vanished", cell("queue", "backlog_packets", 20_000, slice(4, 5)), "invalid",
        "of 20000 packets 850 are left after 1000 ms in which it sent 4954 and dropped 3"),
    Bad("queues", "more than its limit", cell("queue", "backlog_packets", 860, slice(4, 5)), "invalid",
        "it holds 860, of 850 that it has room for"),
    Bad("queues", "drops with room", lambda files: files["queue"].update(pd.DataFrame({
        "t_us": files["queue"]["t_us"] // 100, "backlog_packets": files["queue"]["backlog_packets"] // 2,
        "sent_packets": files["queue"]["sent_packets"] // 100})), "invalid",
        "it dropped 3 packets since the last sample, though it held [0-9]* at most, of 850"),
    Bad("queues", "faster than the link", lambda files: files["queue"].update({"t_us": files["queue"]["t_us"] // 1000}),
        "invalid", "right_to_left: at 0.001 s 7500356 bytes sent in 1 ms, the link carries 12500"),
    Bad("queues", "slower than the link", lambda files: files["queue"].update(pd.DataFrame({
        column: files["queue"][column] // 60 for column in ("t_us", "sent_bytes", "sent_packets")}).assign(
            sent_bytes=files["queue"]["sent_bytes"] // 120, sent_packets=files["queue"]["sent_packets"] // 120)),
        "invalid", "62502 bytes sent in 16.666 ms, the link carries 208325, and 1286900 waited"),
    Bad("retransmissions", "sockets say less", both(sender("total_retrans", 0.9)), "invalid",
        "n2: 100 segments were sent again by its stack, 90 by its sockets until 10 s"),
    Bad("retransmissions", "sockets say more", spoilt(node("n2", "TcpRetransSegs", [100, 99, 99])), "invalid",
        "n2: 99 segments were sent again by its stack, 100 by its sockets until 30 s"),
    Bad("retransmissions", "sent more", spoilt(node("n2", "TcpExtTCPOrigDataSent", [60_000, 160_000, 160_000])),
        "invalid", "n2: 60000 segments with new data were sent by its stack, 50437 by its sockets until 10 s"),
    Bad("retransmissions", "sent less", spoilt(node("n2", "TcpExtTCPOrigDataSent", [50_000, 149_517, 149_517])),
        "invalid", "n2: 50000 segments with new data were sent by its stack"),
    Bad("retransmissions", "states that nobody counted", sender("ca_state", more_by=3, rows=slice(7, 9)), "invalid",
        "n2: its sockets were seen to come into Recovery 1 times, its stack says 0"),
    Bad("retransmissions", "nothing was repaired", both(sender("total_retrans", 0), node(
        "n2", "TcpRetransSegs", [0, 0, 0])), "invalid",
        "30 segments had been lost by 9.2[0-9]* s, 0 were sent again until 10 s and 0 may still have to be"),
    Bad("retransmissions", "in vain, and nobody got it", both(sender("total_retrans", 2), node(
        "n2", "TcpRetransSegs", [200, 200, 200])), "invalid",
        "200 segments were sent again, 100 packets were lost, 0 segments came twice and 0 packets were under way"),
    Bad("round_trips", "too short", sender("srtt_us", 0.95), "invalid",
        "flow 1: 30 of 30 samples of its smoothed round trip are shorter than its way allows, such as 172.102 ms"),
    Bad("round_trips", "too long", sender("srtt_us", 3), "suspect", "are longer than links and queues on its way make"),
    Bad("round_trips", "longer on average", sender("srtt_us", 1.2), "suspect",
        "its smoothed round trip, 217.392 ms on average, is 36.[0-9]* ms longer"),
    Bad("round_trips", "a shorter queue", spoilt(shorter_queue), "suspect", "are longer than links and queues|longer"),
    Bad("round_trips", "in ms", sender("srtt_us", 0.001), "invalid",
        "are shorter than its way allows, such as 0.181 ms"),
    Bad("round_trips", "shortest of all", sender("min_rtt_us", 30), "invalid", "its shortest round trip, 243.000 ms"),
    Bad("round_trips", "a shortest one that grows", sender("min_rtt_us", more_by=100, rows=slice(9, None)), "invalid",
        "its shortest round trip, 8.200 ms at 9 s, is longer than those before"),
    Bad("round_trips", "a base that is none", spoilt(put("workload.json", "flows/0/base_rtt_us", 9000)), "invalid",
        "flow 1: a base round trip of 9 ms, the delays of its links make 8 ms"),
    Bad("sampling", "later", spoilt(later("tcp_info", 10_000)), "suspect",
        "tcp_info: 62 of 62 rows are of instants at which no sample was due, such as 0.01 s"),
    Bad("sampling", "rows twice", spoilt(lambda files: files.update(tcp_info=pd.concat(
        [files["tcp_info"], files["tcp_info"][:3]]))), "suspect", "tcp_info: 3 of 65 rows are there twice"),
    Bad("sampling", "rows of sojourn twice", lambda files: files.update(sojourn=pd.concat(
        [files["sojourn"], files["sojourn"][:2]])), "suspect", "sojourn: 2 of 62 rows are there twice"),
    Bad("instruments", "rows of sojourn left out", drop("sojourn", slice(3, 4)), "invalid",
        "right_to_left: sojourn has another number of packets than queue at 27 of 31 instants, such as 4 s"),
]
