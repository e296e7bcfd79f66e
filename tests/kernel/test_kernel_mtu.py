# SPDX-License-Identifier: GPL-2.0-only
"""Runs over links of another MTU: jumbo frames, small packets, and a narrow link in the middle of the path."""
import io

import dpkt
import pytest

from testbed import engines
from testbed.core import pcap_files

CENTRAL = {"rate": "10 Mbit/s", "delay": "5 ms", "queue": {"kind": "pfifo", "limit": 40}}


def run_over(run_scenario, probes=None, **topology):
    return run_scenario({
        "name": "mtu", "timing": {"prefill": "0 s", "warmup": "1 s", "test": "3 s"},
        "topology": {"kind": "dumbbell", "central": CENTRAL, "edge": {"rate": "100 Mbit/s"}, "left_delays": ["0 ms"],
                     "right_delays": ["1 ms"], **topology},
        "traffic": [{"name": "flow", "kind": "greedy", "tool": "sockets", "paths": ["n2->n1"]},
                    {"name": "udp", "kind": "cbr", "rate": "1 Mbit/s", "packet": "500 B", "paths": ["n2->n1"]}],
        "probes": {"queue": {"interval": "10 ms"}, "tcp_info": {"interval": "100 ms"}, "tcp_probe": {},
                   **(probes or {})}})


def sizes(run):
    """How many bytes the sender's segments have, and by how much acknowledgements of them advance."""
    samples, probe = run.table("tcp_info"), run.table("tcp_probe")
    flow, = (flow for flow in run.json("raw/workload.json")["flows"] if flow["transport"] == "tcp")
    sender = samples[(samples["node"] == flow["sender"]) & (samples["bytes_acked"] > 0)]
    mine = probe[probe["src"].str.startswith(flow["src"] + ":") & (probe["snd_una"] > 0)]
    steps = mine["snd_una"].diff().dropna()
    return set(sender["mss"]), steps[(steps > 0) & (mine["t_us"] > 1_000_000)]


@pytest.mark.parametrize("mtu", [9000, 576])
def test_every_segment_is_as_large_as_the_mtu_allows(run_scenario, mtu):
    """Of IPv4: 52 bytes less, for the headers of IP and TCP and the time stamp."""
    run = run_over(run_scenario, {"pcap": {"nodes": ["n2"], "snap": f"{mtu + 14} B"}}, mtu=f"{mtu} B")
    assert run.json("verdict.json")["verdict"] == "valid", run.json("verdict.json")["reasons"]
    packets = dpkt.pcap.Reader(io.BytesIO(pcap_files.as_pcap(run.folder / "raw/capture-n2-eth0.pcap.gz")))
    assert max(len(data) for _, data in packets) == mtu + 14
    assert run.json("raw/guest.json")["probes"]["pcap"] == {"lost_packets": 0}
    mss, steps = sizes(run)
    assert mss == {mtu - 52} and len(steps) > 100 and not (steps % (mtu - 52)).any()
    measured, = (one for one in run.json("raw/checks.json")["bottlenecks"] if one["link"] == "right_to_left")
    assert measured["longest_queue_packets"] == 40 and measured["longest_queue_bytes"] == 40 * (mtu + 14)


@pytest.mark.parametrize("version, header, counter", [(4, 52, "IpFragFails"), (6, 72, "Ip6FragFails")])
def test_senders_find_out_about_a_narrow_link_in_the_middle(run_with, version, header, counter):
    """The router in front of it refuses what does not fit and tells the sender (path MTU discovery), once or a few
    times; from then on all segments fit."""
    engine = engines.load("uml")
    engine.require(["ipv6"] if version == 6 else [])
    engine.prepare(print)
    run = run_over(run_with(engine), ip=version, mtu="9000 B", central={**CENTRAL, "mtu": "1500 B"})
    assert run.json("verdict.json")["verdict"] == "valid", run.json("verdict.json")["reasons"]
    mss, steps = sizes(run)
    assert mss == {1500 - header} and not (steps % (1500 - header)).any()
    refused = {node: counts[counter][-1] for node, counts in run.json("raw/snmp.json")["nodes"].items()
               if counter in counts}
    assert refused.keys() == {"r2"} and 1 <= refused["r2"] <= 10
