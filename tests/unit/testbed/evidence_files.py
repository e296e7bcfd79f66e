# SPDX-License-Identifier: GPL-2.0-only
"""The raw files of a run in which everything is as it should be, to be spoilt by tests."""
import copy
import json

import pandas as pd

from testbed import fidelity
from testbed.guest.tuning import node_sysctls

HOSTS = {"ecn": 0, "sack": 1, "sysctls": {"net.ipv4.tcp_rmem": "4096  87380 6291456"}}


def variant(kernel_cca, **sysctls):
    """A variant's record; sysctls without their net.ipv4 prefix."""
    return {"name": kernel_cca, "kernel_cca": kernel_cca, "parameters": {}, "module_sha256": None,
            "sysctls": {f"net.ipv4.{name}": value for name, value in sysctls.items()}}


def _link(name, source, target, rate_bps=100_000_000, bottleneck=False, limit=None):
    return {"name": name, "from": source, "to": target, "rate_bps": rate_bps, "bottleneck": bottleneck,
            "queue": "pfifo", "limit_packets": limit}


NETWORK = {
    "nodes": [{"name": n, "role": "router" if n[0] == "r" else "host"} for n in ("r1", "r2", "n1", "n2")],
    "links": [_link("left_to_right", "r1", "r2", bottleneck=True, limit=850), _link("right_to_left", "r2", "r1", bottleneck=True, limit=850),
              _link("n1_to_r1", "n1", "r1"), _link("r1_to_n1", "r1", "n1"), _link("n2_to_r2", "n2", "r2"), _link("r2_to_n2", "r2", "n2")],
    "paths": [{"source": 0, "initiator": "n1", "acceptor": "n2", "base_rtt_us": 8000}],
}


def _counters(source, target, into, dropped=0, queued=0):
    sent = into - dropped - queued
    return {"from": source, "to": target, "sent_packets": sent, "sent_bytes": sent * 1514, "dropped_packets": dropped,
            "queued_packets": queued, "device_tx_packets": sent, "device_rx_packets": sent, "wire_delivered_packets": sent,
            "wire_dropped_packets": 0, "wire_queued_packets": 0}


def good_files():
    """{file name: content} of good evidence: JSON values and pandas tables."""
    drained = {"n2_to_r2": _counters("n2", "r2", 10_000), "right_to_left": _counters("r2", "r1", 10_000, dropped=100),
               "r1_to_n1": _counters("r1", "n1", 9_900), "n1_to_r1": _counters("n1", "r1", 5_000),
               "left_to_right": _counters("r1", "r2", 5_000), "r2_to_n2": _counters("r2", "n2", 5_000)}
    sysctls = {node: {k: " ".join(str(v).split()) for k, v in settings.items()}
               for node, settings in node_sysctls(NETWORK, HOSTS, [variant("cubic")]).items()}
    t_us = range(0, 30_000_001, 1_000_000)
    return {
        "network.json": copy.deepcopy(NETWORK),
        "counters.json": {"at_end": drained, "drained": copy.deepcopy(drained)},
        "checks.json": {
            "paths": [{"initiator": "n1", "acceptor": "n2", "base_rtt_us": 8000, "serialisation_us": 47.0, "measured_rtt_us": 8047.4}],
            "bottlenecks": [{"link": name, "rate_bps": 100_000_000, "measured_bps": 100_004_000.0, "window_packets": 4000,
                             "limit_packets": 850, "longest_queue_packets": 850, "dropped_packets": 9000, "overloaded": True}
                            for name in ("left_to_right", "right_to_left")],
            "offloads": {f"{node}/{node}-eth0": {"tso": False, "gso": False, "gro": False} for node in ("n1", "r1")},
            "sysctls": sysctls},
        "workload.json": {
            "target_link": "right_to_left", "target_load": 0.6, "offered_bps": {"right_to_left": 61e6, "left_to_right": 9e6},
            "thirds_bps": {"right_to_left": [50e6, 60e6, 62e6], "left_to_right": [9e6, 9e6, 9e6]},
            "prefill_us": 5_000_000, "warmup_us": 5_000_000, "test_us": 20_000_000, "duration_us": 30_000_000},
        "guest.json": {"sampler_lateness_us": {"queue": 0, "tcp_info": 12}, "probes": {"queue": {}, "sojourn": {"lost_events": 0}}},
        "connections": pd.DataFrame({
            "source": 0, "conn": range(200), "status": ["finished"] * 198 + ["failed: ECONNRESET", "unfinished"],
            "init_bytes_asked": 500, "init_bytes_delivered": 500, "acc_bytes_asked": 9000, "acc_bytes_delivered": [9000] * 198 + [0, 12],
            "adus_asked": 2, "adus_delivered": [2] * 198 + [0, 1]}),
        "queue": pd.concat([pd.DataFrame({
            "t_us": t_us, "link": link, "sent_bytes": [t * rate // 8_000_000 for t in t_us], "backlog_packets": backlog})
            for link, rate, backlog in (("right_to_left", 60_000_000, 850), ("left_to_right", 9_000_000, 3))], ignore_index=True),
        "tcp_info": pd.DataFrame([
            {"t_us": t, "node": node, "src": src, "sport": 1, "dst": dst, "dport": 2, "state": "ESTAB", "cca": "cubic",
             "busy_us": t // 2, "rwnd_limited_us": t // 1000, "sndbuf_limited_us": 0}
            for t in t_us for node, src, dst in (("n1", "10.0.2.1", "10.0.3.1"), ("n2", "10.0.3.1", "10.0.2.1"))]),
    }


def write(folder, files, clock="virtual", variants=("cubic",)):
    """Evidence of a run folder with these files; variants: names of the kernel's congestion controls."""
    raw = folder / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if isinstance(content, pd.DataFrame):
            content.to_csv(raw / f"{name}.csv.gz", index=False)
        else:
            (raw / name).write_text(json.dumps(content))
    return fidelity.Evidence(folder, {"hosts": HOSTS, "traffic": {"kind": "tmix"}}, clock, [variant(name) for name in variants])
