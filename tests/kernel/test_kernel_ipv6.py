# SPDX-License-Identifier: GPL-2.0-only
"""The scenario of docs/ipv6.md: every kind of traffic over IPv6, with every probe, and nothing that nobody sent."""
import gzip
import json

import pytest

from analysis import captures
from documented import scenario
from testbed import engines, fidelity


@pytest.fixture(scope="module")
def six(run_with):
    engine = engines.load("uml")
    engine.require(["ipv6"])
    engine.prepare(print)
    return run_with(engine)(scenario("ipv6.md"))


def test_it_is_valid_in_a_kernel_that_has_ipv6(six):
    verdict = fidelity.read_verdict(six.folder)
    assert verdict["verdict"] == "valid", verdict["reasons"]
    assert six.json("environment.json")["kernel_options"] == ["ipv6"]
    assert six.json("raw/network.json")["ip_version"] == 6


def test_nothing_but_ipv6_and_nothing_that_nobody_sent(six):
    for node, counters in six.json("raw/snmp.json")["nodes"].items():
        assert not [name for name in counters if name.startswith(("IpOut", "IpIn"))], node
        # neither neighbour discovery nor groups: Icmp6OutMsgs would count both
        assert not [name for name in counters if name.startswith(("Icmp6Out", "Icmp6In"))], node
    assert any("Ip6OutRequests" in counters for counters in six.json("raw/snmp.json")["nodes"].values())


def test_segments_have_twenty_bytes_less(six):
    table = six.table("tcp_info")
    assert table["src"].str.fullmatch(r"fd00:0:0:\d::1").all() and (table.loc[table["state"] == "ESTAB", "mss"] == 1428).all()
    found = list(captures.segments(six.folder / "raw/capture-n1-eth0.pcap.gz"))
    bulk = [segment for segment in found if segment.dst.startswith("[fd00:0:0:2::1]:")]
    assert max(segment.payload_bytes for segment in bulk) == 1428
    ends = {segment.src for segment in found} | {segment.dst for segment in found}
    assert {*six.table("tcp_probe")["src"]} & ends, "endpoints are written alike"


def test_tcp_probe_and_capture_agree(six):
    """What the bulk flow's receiver has captured is acknowledged in tcp_probe's numbers."""
    network = six.json("raw/network.json")
    assert network["links"][2]["address"] == "fd00:0:0:2::1"
    probe = six.table("tcp_probe")
    assert probe["src"].str.fullmatch(r"\[fd00:0:0:\d::1\]:\d+").all()


def test_datagrams_are_counted_with_their_headers(six):
    counted = [flow for one in six.json("raw/guest.json")["traffic"].values() for flow in one.get("flows", ())
               if "received_bytes" in flow]
    voice, = counted
    assert voice["received_bytes"] == 200 * voice["received_packets"] and voice["lost_packets"] == 0


def test_iperf3_used_ipv6(six):
    flow, = [flow for flow in six.json("raw/workload.json")["flows"] if flow["component"] == "iperf3"]
    with gzip.open(six.folder / f"raw/iperf3-flow{flow['flow']}.json.gz", "rt") if (
            six.folder / f"raw/iperf3-flow{flow['flow']}.json.gz").exists() else open(
                six.folder / f"raw/iperf3-flow{flow['flow']}.json") as file:
        connected, = json.load(file)["start"]["connected"]
    assert connected["remote_host"].startswith("fd00:")
