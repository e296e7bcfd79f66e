# SPDX-License-Identifier: GPL-2.0-only
"""Ways to spoil good evidence: each takes the files of a run (evidence_files.good_files) and changes them."""
from collections.abc import Callable
from typing import Any

import pandas as pd

from tests.unit.testbed import evidence_files

Files = dict[str, Any]


def put(file: str, path: str, value: Any) -> Callable[[Files], None]:
    """Change a value in a JSON file."""
    return lambda files: evidence_files.set_at(files[file], path, value)


def at(file: str, *path: Any) -> Callable[[Files], None]:
    """Change a value whose keys may contain slashes; the last of `path` is the new one."""
    def spoil(files: Files) -> None:
        *keys, last, value = path
        place = files[file]
        for key in keys:
            place = place[key]
        assert last in place
        place[last] = value
    return spoil


def wide_red(files: Files) -> None:
    """The bottleneck has RED, so wide that its probability is a few of the kernel's steps only."""
    link = next(one for one in files["network.json"]["links"] if one["name"] == "right_to_left")
    options = {"limit": 10**8, "min": 10**7, "max": 5 * 10**7, "avpkt": 1000, "burst": 23334, "bandwidth": 10**8,
               "probability": 0.02}
    link.update(queue="red", queue_options=options)


def without_key(file: str, key: str) -> Callable[[Files], None]:
    return lambda files: files[file].pop(key)


def with_threshold(found: dict[str, int]) -> Callable[[Files], None]:
    """n2 is to begin with a slow-start threshold of 10; its trial connections found others, by address."""
    def spoil(files: Files) -> None:
        next(node for node in files["network.json"]["nodes"] if node["name"] == "n2")["initial_ssthresh"] = 10
        files["checks.json"]["initial_ssthresh"] = {"n2": found}
    return spoil


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
                                           {"node": "n1", "ends": [evidence_files.end(1, "receiver", 148_620 * 1448)]}]
        del files["connections"], files["adus"]
    return spoil


def limited(**limits: int) -> Callable[[Files], None]:
    """One greedy flow whose component sets the size of its segments, or how many are in flight."""
    def spoil(files: Files) -> None:
        greedy()(files)
        files["workload.json"]["components"][0].update(limits)
    return spoil


def udp(**counts: Any) -> Callable[[Files], None]:
    """Two UDP flows to the left in place of everything else, where 100 packets are dropped; counts: of the second."""
    def spoil(files: Files) -> None:
        flows = [evidence_files.flow(number, "n2", "n1", None, transport="udp", rate_bps=10**6) for number in (8, 9)]
        files["workload.json"] = {"components": [{"name": "greedy", "kind": "cbr"}], "flows": flows}
        good = {"sent_packets": 500, "received_packets": 450, "socket_dropped_packets": 0}
        files["guest.json"]["traffic"] = {"greedy": {"flows": [{"flow": 8, **good}, {"flow": 9, **good, **counts}]}}
    return spoil


def held(packets: int) -> Callable[[Files], None]:
    """What the kernel counted of the queue to the target is always so many packets; samples stay."""
    def spoil(files: Files) -> None:
        times = files["queue"]["t_us"].unique()
        files["backlog"] = pd.DataFrame({"t_us": times, "link": "right_to_left", "packet_us": times * packets,
                                         "byte_us": times * packets * 1514, "most_packets": packets + 1,
                                         "most_bytes": (packets + 1) * 1514})
    return spoil


def program(says: Any, segments: int) -> Callable[[Files], None]:
    """Programs in place of everything else, whose hosts sent so many segments with data; says: JSON, or text."""
    def spoil(files: Files) -> None:
        flow = {**evidence_files.flow(1, "n2", "n1", None, transport="program"), "component": "other"}
        files["workload.json"] = {"components": [{"name": "other", "kind": "program"}], "flows": [flow]}
        name = "program-other-sender.out"
        files["guest.json"]["traffic"] = {"other": {"files": {"sender": [name]}}}
        files[name] = says
        files["snmp.json"]["nodes"] = {host: {"IpOutRequests": [5, 5, 5 + segments], "TcpOutSegs": [5, 5, 5 + segments],
                                              "TcpExtTCPOrigDataSent": [0, 0, segments]} for host in ("n1", "n2")}
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
    files["adus"].loc[399, "sent_us"] = 20_000_000


def half_open(*numbers: int, resent: int = 30) -> Callable[[Files], None]:
    """The acceptor of these connections has never heard of them, and sent `resent` SYN-ACKs again."""
    def spoil(files: Files) -> None:
        connections, units, samples = files["connections"], files["adus"], files["tcp_info"]
        connections.loc[connections["conn"].isin(numbers), "status"] = "unfinished"
        units.loc[units["conn"].isin(numbers), ["sent_us", "delivered_us"]] = None
        one = samples[samples["node"] == "n1"].assign(unacked=0, bytes_acked=1)
        files["tcp_info"] = pd.concat(
            [one.assign(sport=1024 + number) for number in numbers], ignore_index=True)
        files["guest.json"]["traffic"] = {"tmix": {"overdue": [
            f"the acceptor of connection {number} of source 0" for number in numbers]}}
        files["snmp.json"]["nodes"]["n2"]["TcpExtTCPSynRetrans"] = [0, resent, resent]
    return spoil


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
    """1 % of 75,000: 750, give or take 137."""
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


def saturated_host(queue: str) -> Callable[[Files], None]:
    """n2 is as slow as the bottleneck behind it, of which it carries 60 of 61 Mbit/s, and two packets wait there."""
    def spoil(files: Files) -> None:
        for link in files["network.json"]["links"]:
            if link["name"] in ("right_to_left", "n2_to_r2"):
                link["rate_bps"] = 61_000_000
            if link["name"] == "n2_to_r2":
                link["queue"] = queue
        edges, bottlenecks = files["edge_queue"], files["queue"]
        edges.loc[edges["link"] == "n2_to_r2", ["backlog_packets", "backlog_bytes"]] = [2, 2 * 1514]
        bottlenecks.loc[bottlenecks["link"] == "right_to_left", ["backlog_packets", "backlog_bytes"]] = [1, 1514]
    return spoil


def full_edge(files: Files) -> None:
    """An edge of 62.55 Mbit/s that carries 60."""
    next(link for link in files["network.json"]["links"] if link["name"] == "n2_to_r2")["rate_bps"] = 62_550_000


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


def more(table: str, column: str, value: Any, rows: Any = slice(None)) -> Callable[[Files], None]:
    """Add to a column of a table, in some rows (positions)."""
    def spoil(files: Files) -> None:
        frame = files[table] = files[table].astype({column: float})
        frame.loc[frame.index[rows], column] += value
    return spoil


def until(table: str, end_us: int) -> Callable[[Files], None]:
    """Leave out what was sampled later."""
    return lambda files: files.update({table: files[table][files[table]["t_us"] <= end_us]})


def every(table: str, interval_us: int) -> Callable[[Files], None]:
    """Leave out what was sampled between."""
    return lambda files: files.update({table: files[table][files[table]["t_us"] % interval_us == 0]})


def nothing_finished(files: Files) -> None:
    """Every connection of the measured part is unfinished."""
    table = files["connections"]
    table.loc[(table["start_us"] >= 10_000_000) & (table["status"] == "finished"), ["status", "end_us"]] = [
        "unfinished", None]


def never_delivered(files: Files) -> None:
    """Answers of ten connections that began at 12.6 s and later have been under way since then."""
    nothing_finished(files)
    files["adus"].loc[181:200:2, "delivered_us"] = None


def never_connected(files: Files) -> None:
    """Three connections that began at 14 s are still connecting."""
    table = files["connections"]
    table.loc[100:102, ["status", "connected_us", "end_us"]] = ["unfinished", None, None]


def jitter(*paths: float) -> Callable[[Files], None]:
    """Up to 242 us of it are wanted; so much is measured beyond the least round trip of each path."""
    def spoil(files: Files) -> None:
        path, = files["checks.json"]["paths"]
        files["checks.json"]["paths"] = [{**path, "jitter_us": 242, "measured_rtt_us": 8047.0 + one} for one in paths]
    return spoil


def long_connections(column: str, limited: int, total: int = 100) -> Callable[[Files], None]:
    """Long connections of the source, so many of which are limited for a tenth of their time; all of them for less."""
    def spoil(files: Files) -> None:
        samples = files["tcp_info"]
        sender = samples[samples["node"] == "n2"]
        files["tcp_info"] = pd.concat([samples, *(
            sender.assign(dport=2000 + number, bytes_acked=sender["t_us"] // 10, rwnd_limited_us=0,
                          sndbuf_limited_us=0).assign(**{column: sender["busy_us"] // 10 * (number < limited)})
            for number in range(total))], ignore_index=True)
        files["workload.json"]["flows"][0]["sport"] = None
    return spoil


def large_packets(files: Files) -> None:
    """What n2 sends is in larger packets than its segments."""
    files["snmp.json"]["nodes"]["n2"]["IpOutRequests"] = [1500, 4900, 4900]


def half_of_the_sockets(files: Files) -> None:
    """Those of acceptors are missing, one of which began to send at 29.5 s."""
    files["adus"].loc[399, "sent_us"] = 29_500_000
    files["tcp_info"] = files["tcp_info"][files["tcp_info"]["sport"] != 5000]


def short_completions(files: Files) -> None:
    """Every connection that finished did so after 1 us."""
    table = files["connections"]
    table["end_us"] = table["end_us"].where(table["end_us"].isna(), table["start_us"] + 1)
