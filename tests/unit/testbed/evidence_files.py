# SPDX-License-Identifier: GPL-2.0-only
"""The raw files of a run in which everything is as it should be, to be spoilt by tests."""
import importlib
import json

import numpy as np
import pandas as pd

import topologies
from testbed import checks
from testbed.core.record import plain
from testbed.core.run_files import Scenario
from testbed.guest.tuning import Hosts, node_sysctls
from tests.unit.testbed import kernel_options
from topologies.links import end_hosts
from traffic.workload.records import Flow, Variant

PROBES = {"queue": {"interval_us": 1_000_000, "edge_interval_us": 1_000_000}, "sojourn": {"interval_us": 1_000_000},
          "tcp_info": {"interval_us": 1_000_000}}
TIMING = {"prefill_us": 5_000_000, "warmup_us": 5_000_000, "test_us": 20_000_000, "duration_us": 30_000_000}
HOSTS = {"ecn": 0, "sack": 1, "slow_start_after_idle": 1, "sysctls": {"net.ipv4.tcp_rmem": "4096  87380 6291456"}}
SECTION = {"kind": "dumbbell", "central": {"rate_bps": 10**8, "delay_us": 2000, "queue": {"limit": 850}},
           "edge": {"rate_bps": 10**8}, "left_delays_us": [0], "right_delays_us": [2000]}
#: packets that each holds
QUEUES = (("right_to_left", 850), ("left_to_right", 3))
EDGES = (("n1_to_r1", 0), ("r1_to_n1", 0), ("n2_to_r2", 1), ("r2_to_n2", 0))
T_US = range(0, 30_000_001, 1_000_000)
#: what comes to right_to_left, what it drops of that, and what left_to_right carries
TO_LEFT, DROPPED, TO_RIGHT = 148_720, 100, 75_000
#: payload of the segments that right_to_left carries, shared by the connections that finished
ANSWER_BYTES = (TO_LEFT - DROPPED) * 1448 // 198
REQUEST_BYTES = 144_000
#: payload that crosses left_to_right, and all of its bytes
REQUESTS_BYTES = 200 * REQUEST_BYTES
RIGHT_BYTES = TO_RIGHT * 66 + REQUESTS_BYTES


def variant(kernel_cca, **sysctls):
    """A variant's record; sysctls without their net.ipv4 prefix."""
    return {"name": kernel_cca, "kernel_cca": kernel_cca, "parameters": {}, "module_sha256": None, "under_test": True,
            "needs_ecn": kernel_cca == "dctcp",
            "sysctls": {f"net.ipv4.{name}": value for name, value in sysctls.items()}}


def flow(number, sender="n1", receiver="n2", cca="cubic", **changes):
    """A flow record; by default one way, between the given hosts."""
    address = {"n1": "10.0.2.1", "n2": "10.0.3.1"}
    hops = [f"{sender}_to_r{sender[1]}", "left_to_right" if sender == "n1" else "right_to_left",
            f"r{receiver[1]}_to_{receiver}"]
    back = [f"{receiver}_to_r{receiver[1]}", "left_to_right" if sender == "n2" else "right_to_left",
            f"r{sender[1]}_to_{sender}"]
    return {"flow": number, "component": "greedy", "kind": "greedy", "transport": "tcp", "sender": sender,
            "receiver": receiver, "src": address[sender], "dst": address[receiver], "sport": None, "dport": 2,
            "variant": cca, "cca": cca, "start_us": 0, "stop_us": 30_000_000, "bytes": None, "rate_bps": None,
            "connections": 1, "source": None, "both_ways": False, "base_rtt_us": 8000, "hops": hops, "hops_back": back,
            **changes}


def counters(source, target, into, dropped=0, queued=0, **changes):
    """Counters of a link direction that got `into` packets."""
    sent = into - dropped - queued
    return {"from": source, "to": target, "sent_packets": sent, "sent_bytes": sent * 1514, "dropped_packets": dropped,
            "queued_packets": queued, "device_tx_packets": sent, "device_rx_packets": sent,
            "wire_delivered_packets": sent, "wire_dropped_packets": 0, "chosen_dropped_packets": 0,
            "wire_queued_packets": 0, "wire_delivered_bytes": sent * 1514, **changes}


def drained():
    """Counters of all links: 60 Mbit/s to the left, where 100 packets are dropped, and 9 Mbit/s to the right, of which
    the requests are the payload."""
    right = {"sent_bytes": RIGHT_BYTES}
    return {"left_to_right": counters("r1", "r2", TO_RIGHT, **right),
            "right_to_left": counters("r2", "r1", TO_LEFT, dropped=DROPPED),
            "n1_to_r1": counters("n1", "r1", TO_RIGHT, **right), "r1_to_n1": counters("r1", "n1", TO_LEFT - DROPPED),
            "n2_to_r2": counters("n2", "r2", TO_LEFT), "r2_to_n2": counters("r2", "n2", TO_RIGHT, **right)}


def saturated(link, **changes):
    """A bottleneck's entry in checks.json."""
    return {"link": link, "rate_bps": 100_000_000, "measured_bps": 100_004_000.0, "window_packets": 4000,
            "busy_us": 484_460.6,
            "limit_packets": 850, "longest_queue_packets": 850, "limit_bytes": None,
            "longest_queue_bytes": 850 * 1514, "dropped_packets": 9000, "overloaded": True, "filled": True, **changes}


def end(number, which, size, **changes):
    """What a program says of its end of a flow, whose connections brought it `size` bytes."""
    return {"flow": number, "end": which, "ccas": {"cubic": 199}, "checked_bytes": size, "unchecked_bytes": 0,
            "wrong_pieces": 0, "first_wrong": None, **changes}


def good_files():
    """{file name: content} of good evidence: JSON values and pandas tables."""
    described = end_hosts.apply(end_hosts.HostsSection(), topologies.resolve(SECTION))
    network = json.loads(json.dumps(described.content()))
    for link in network["links"]:
        del link["queue_traits"]            # tests give links queues of other kinds
    flows = [flow(1, dport=5000, component="tmix", kind="tmix", source=0, connections=200, both_ways=True)]
    wanted = node_sysctls(described, Hosts(HOSTS), [Variant(variant("cubic"))], [Flow(one) for one in flows])
    return {
        "network.json": network,
        "counters.json": {"at_end": drained(), "drained": drained()},
        "checks.json": _checks(network, wanted),
        "workload.json": {
            "components": [{"name": "tmix", "kind": "tmix", "target_links": ["right_to_left"], "target_load": 0.6,
                            "offered_bps": {"right_to_left": 61e6, "left_to_right": 9e6},
                            "thirds_bps": {"right_to_left": [50e6, 60e6, 62e6], "left_to_right": [9e6, 9e6, 9e6]},
                            "measured_us": [10_000_000, 30_000_000]}],
            "flows": flows, "ccas": {"cubic": "cubic"}},
        "guest.json": {"sampler_lateness_us": {"queue": 0, "sojourn": 1, "tcp_info": 12},
                       "probes": {"queue": {}, "sojourn": {"lost_events": 0}}, "traffic": {"tmix": {}},
                       "accounts": [
                           {"node": "n2", "ends": [end(1, "receiver", REQUESTS_BYTES, **_replay("acceptor"))]},
                           {"node": "n1", "ends": [end(1, "sender", 198 * ANSWER_BYTES + 12,
                                                       **_replay("initiator"))]}]},
        "late.json": {"changed": {}, "read": {"sysctls": 64}, "tainted": 4096, "kept_more_mb": 0, "trouble": []},
        "snmp.json": {"measure_from_us": 10_000_000, "readings": ["measure_from", "at_end", "drained"],
                      "nodes": {"n1": {"TcpExtTCPOrigDataSent": [80, 200, 200], "TcpOutSegs": [2000, 5000, 5000],
                                       "IpOutRequests": packets_of("n1"), "IpOutTransmits": packets_of("n1"),
                                       "IpInReceives": packets_to("n1")},
                                "n2": {"TcpExtTCPOrigDataSent": [3000, 9800, 9800], "TcpOutSegs": [3000, 9800, 9800],
                                       "TcpRetransSegs": [50, 100, 100],
                                       "IpOutRequests": packets_of("n2"), "IpOutTransmits": packets_of("n2"),
                                       "IpInReceives": packets_to("n2")},
                                **{router: {"IpForwDatagrams": packets_of(router), "IpOutTransmits": packets_of(router),
                                            "IpInReceives": packets_to(router)}
                                   for router in ("r1", "r2")}}},
        **_tables(),
    }


def _checks(network, wanted):
    machine = {"net.core.rmem_max": 4194304, "net.core.wmem_max": 4194304, "net.ipv4.tcp_mem": "1 2 3"}
    return {
        "paths": [{"initiator": "n1", "acceptor": "n2", "base_rtt_us": 8000, "serialisation_us": 47.0,
                   "measured_rtt_us": 8047.4}],
        "bottlenecks": [saturated("left_to_right"), saturated("right_to_left")],
        "offloads": {f"{link['from']}/{link['device']}": {"tso": False, "gso": False, "gro": False}
                     for link in network["links"]},
        "devices": {place: {"mtu": 1500, "gso_max_segs": 1 if place[:3] in ("n1/", "n2/") else 65535, "qdiscs": qdiscs}
                    for place, qdiscs in kernel_options.devices(network["links"]).items()},
        "initcwnd": {"n1": [10], "n2": [10], "r1": [0], "r2": [0]},
        "quickack": {"n1": [0], "n2": [0], "r1": [0], "r2": [0]},
        "timer_period_us": 0, "jiffy_us": 1000, "tainted": 4096,
        "sysctls_wanted": wanted,
        "sysctls": {node: {k: " ".join(str(v).split()) for k, v in settings.items()}
                    for node, settings in wanted.items()},
        "machine_sysctls_wanted": machine, "machine_sysctls": {name: str(value) for name, value in machine.items()}}


def _replay(role):
    """What a program of Tmix says beside that."""
    return {"source": 0, "role": role, "status": {"finished": 198, "unfinished": 1}}


def queue_rows(link, backlog):
    """Samples of a queue that sends evenly what its counters have, and always holds as many packets."""
    total = drained()[link]

    def until(value):
        return [value * t // T_US[-1] for t in T_US]
    return pd.DataFrame({"t_us": T_US, "link": link, "sent_bytes": until(total["sent_bytes"]),
                         "sent_packets": until(total["sent_packets"]), "drops": until(total["dropped_packets"]),
                         "backlog_packets": backlog, "backlog_bytes": backlog * 1514})


def packets_of(node):
    """What a node's stack counts of the packets that it sends, at each reading: what has come to its queues."""
    rows = [queue_rows(link, backlog).set_index("t_us").loc[10_000_000] for link, backlog in (*QUEUES, *EDGES)
            if drained()[link]["from"] == node]
    came = sum(row["sent_packets"] + row["drops"] + row["backlog_packets"] for row in rows)
    total = sum(one["sent_packets"] + one["dropped_packets"] for one in drained().values() if one["from"] == node)
    return [int(came), total, total]


def packets_to(node):
    """What it counts of those that it receives."""
    total = sum(one["wire_delivered_packets"] for one in drained().values() if one["to"] == node)
    return [total // 3, total, total]


def sojourn_rows(link, backlog):
    """What each packet of the same queue went through, second by second."""
    packets = drained()[link]["sent_packets"] // 30
    return pd.DataFrame({"t_us": T_US[:-1], "link": link, "packets": packets,
                         **dict.fromkeys(("mean_us", "min_us", "max_us"), backlog * 1e6 / packets)})


def spread_rows(link, backlog):
    """How the times of the packets of the last 20 s are distributed: all of them are the same."""
    packets = drained()[link]["sent_packets"] // 30
    return pd.DataFrame({"link": [link], "low_us": backlog * 1e6 // packets, "high_us": backlog * 1e6 // packets + 1,
                         "packets": packets * 20})


def _units(scheduled_us):
    """A request and an answer of each connection; the last two of them get none."""
    rows = []
    for number, t_us in enumerate(scheduled_us):
        times = [(t_us + 8_000, t_us + 12_000), (t_us + 12_000, t_us + 19_000)]
        if number == 198:
            times = [(None, None)] * 2
        elif number == 199:
            times[1] = (t_us + 12_000, None)
        rows += [(0, number, side, index, size, *unit) for index, (side, size, unit) in enumerate(
            zip("ia", (REQUEST_BYTES, ANSWER_BYTES), times))]
    return pd.DataFrame(rows, columns=["source", "conn", "side", "index", "bytes", "sent_us", "delivered_us"])


def socket_row(t_us, acked, unacked, **changes):
    """A sample of a socket that has so many bytes acknowledged, and as many full segments in flight."""
    return {"t_us": t_us, "state": "ESTAB", "cca": "cubic", "ca_state": 0, "cwnd": 10, "ssthresh": 2**31 - 1,
            "srtt_us": 181_160, "rto_us": 210_000, "min_rtt_us": 8100 if t_us else 2**32 - 1, "mss": 1448,
            "unacked": unacked, "lost": 0, "retrans": 0, "total_retrans": 0, "bytes_acked": acked,
            "bytes_received": 0, "bytes_sent": acked - 1 + unacked * 1448, "bytes_retrans": 0,
            "delivered": 1 - -(acked - 1) // 1448, "pacing_rate_bps": np.nan, "app_limited": 0, "busy_us": t_us // 2,
            "rwnd_limited_us": t_us // 1000, "sndbuf_limited_us": 0, **changes}


def _tables():
    scheduled_us = [number * 140_000 for number in range(200)]
    return {
        "connections": pd.DataFrame({
            "source": 0, "conn": range(200), "initiator": "n1", "acceptor": "n2",
            "iport": range(1024, 1224), "aport": 5000, "scheduled_us": scheduled_us, "start_us": scheduled_us,
            "connected_us": [None if number == 198 else t + 8000 for number, t in enumerate(scheduled_us)],
            "end_us": [t + 20_000 if number < 198 else None for number, t in enumerate(scheduled_us)],
            "status": ["finished"] * 198 + ["failed: ECONNRESET", "unfinished"],
            "init_bytes_asked": REQUEST_BYTES, "init_bytes_delivered": REQUEST_BYTES, "acc_bytes_asked": ANSWER_BYTES,
            "acc_bytes_delivered": [ANSWER_BYTES] * 198 + [0, 12], "adus_asked": 2,
            "adus_delivered": [2] * 198 + [0, 1]}),
        "adus": _units(scheduled_us),
        "queue": pd.concat([queue_rows(*one) for one in QUEUES], ignore_index=True),
        "sojourn": pd.concat([sojourn_rows(*one) for one in QUEUES], ignore_index=True),
        "sojourn_hist": pd.concat([spread_rows(*one) for one in QUEUES], ignore_index=True),
        "edge_queue": pd.concat([queue_rows(*one) for one in EDGES], ignore_index=True),
        "tcp_info": pd.DataFrame([
            {**socket_row(t, 500 + t // (10 if node == "n2" else 1000), 3 * (node == "n2")), "node": node, "src": src,
             "sport": sport, "dst": dst, "dport": dport, "app_limited": int(node == "n1")}
            for t in T_US for node, src, sport, dst, dport in (
                ("n1", "10.0.2.1", 1223, "10.0.3.1", 5000), ("n2", "10.0.3.1", 5000, "10.0.2.1", 1223))]),
    }


def write(folder, files, clock="virtual", variants=("cubic",), timing=None, probes=None, **more):
    """Evidence of a run folder with these files; variants: names of the kernel's congestion controls."""
    raw = folder / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for old in raw.iterdir():
        old.unlink()
    for name, content in files.items():
        if isinstance(content, pd.DataFrame):
            content.to_csv(raw / f"{name}.csv.gz", index=False)
        else:
            (raw / name).write_text(content if isinstance(content, str) else json.dumps(content, default=plain))
    scenario = Scenario({"hosts": HOSTS, "probes": probes or PROBES, "timing": timing or TIMING})
    return checks.Evidence(folder, scenario, clock, [Variant(variant(name)) for name in variants], **more)


def set_at(tree, path, value):
    """Change the value at a path such as links/0/name."""
    *sections, last = path.split("/")
    for section in sections:
        tree = tree[int(section) if section.isdigit() else section]
    tree[int(last) if last.isdigit() and isinstance(tree, list) else last] = value


def findings(folder, check, files, **evidence):
    """[(level, message)] of a check, the worst first."""
    module = importlib.import_module(f"testbed.checks.{check}")
    results = [(finding.level, finding.message) for finding in module.check(write(folder, files, **evidence))]
    return sorted(results, key=lambda finding: (finding[0] == checks.NOT_APPLICABLE,
                                                -(*checks.LEVELS, checks.NOT_APPLICABLE).index(finding[0])))
