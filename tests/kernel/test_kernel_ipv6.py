# SPDX-License-Identifier: GPL-2.0-only
"""The scenario of docs/howto/ipv6.md: kinds of traffic over IPv6, with probes, and nothing that nobody sent."""
import json

import pytest

from analysis.packets import captures
from testbed import checks, engines
from tests.kernel.documented import scenario
from tests.kernel.small_runs import small_scenario


@pytest.fixture(scope="module")
def six(run_with):
    engine = engines.load("uml")
    engine.require(["ipv6"])
    engine.prepare(print)
    return run_with(engine)(scenario("howto/ipv6.md"))


def flow_of(run, component):
    flow, *_ = [flow for flow in run.json("raw/workload.json")["flows"] if flow["component"] == component]
    return flow


def test_it_is_valid_in_a_kernel_that_has_ipv6(six):
    verdict = checks.read_verdict(six.folder)
    assert verdict["verdict"] == "valid", verdict["reasons"]
    assert six.json("environment.json")["kernel_options"] == ["ipv6"]
    assert six.json("raw/network.json")["ip_version"] == 6


def test_nothing_but_ipv6_and_nothing_that_nobody_sent(six):
    nodes = six.json("raw/snmp.json")["nodes"]
    assert all("Ip6InReceives" in counters for counters in nodes.values())
    # neither IPv4, nor neighbour discovery, nor reports of groups
    assert not {name for counters in nodes.values() for name in counters
                if name.startswith(("IpOut", "IpIn", "Icmp6Out", "Icmp6In"))}


def test_segments_have_twenty_bytes_less(six):
    samples = six.table("tcp_info")
    assert samples["src"].str.fullmatch(r"fd00:0:0:\d::1").all()
    assert samples["mss"].max() == 1428         # some vectors of Tmix ask for less
    segments = list(captures.segments(six.folder / "raw/capture-n1-eth0.pcap.gz"))
    assert max(segment.payload_bytes for segment in segments) == 1428


def test_capture_and_tcp_probe_agree(six):
    """The acknowledgements that the capture has are those that the bulk flow's sender received, by their numbers."""
    bulk, probe = flow_of(six, "bulk"), six.table("tcp_probe")
    sender = probe[(probe["src"].str.startswith(f"[{bulk['src']}]:"))
                   & (probe["dst"] == f"[{bulk['dst']}]:{bulk['dport']}")]
    sent = {segment.ack for segment in captures.segments(six.folder / "raw/capture-n1-eth0.pcap.gz")
            if segment.src == f"[{bulk['dst']}]:{bulk['dport']}"}
    known = {int(number) % (1 << 32) for number in sender["snd_una"]}
    assert len(known) > 300 and len(known - sent) <= 1         # the first one may be that of the SYN


def test_datagrams_are_counted_with_their_headers(six):
    voice, = six.json("raw/guest.json")["traffic"]["voice"]["flows"]
    assert voice["sent_bytes"] == 200 * voice["sent_packets"]
    assert voice["received_bytes"] == 200 * voice["received_packets"] > 0


def test_iperf3_used_ipv6(six):
    said = json.loads((six.folder / f"raw/iperf3-flow{flow_of(six, 'iperf3')['flow']}.json").read_text())
    assert {one["remote_host"] for one in said["start"]["connected"]} == {flow_of(six, "iperf3")["dst"]}


def test_routers_report_no_groups(run_with):
    """Where the idle tests take less than a second, the time within which a host tells that it has joined a group."""
    engine = engines.load("uml")
    engine.require(["ipv6"])
    engine.prepare(print)
    run = run_with(engine)(small_scenario(**{
        "topology": {"kind": "dumbbell", "ip": 6, "edge": {"rate": "100 Mbit/s"}, "left_delays": ["0 ms", "0 ms"],
                     "central": {"rate": "100 Mbit/s", "delay": "10 ms", "queue": {"limit": 500}},
                     "right_delays": ["0 ms", "0 ms"]},
        "traffic": {"kind": "cbr", "rate": "1 Mbit/s"}}))
    verdict = checks.read_verdict(run.folder)
    assert verdict["verdict"] == "valid", verdict["reasons"]
    for node, counters in run.json("raw/snmp.json")["nodes"].items():
        assert {name: values for name, values in counters.items() if "Mcast" in name} == {}, node
