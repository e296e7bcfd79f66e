# SPDX-License-Identifier: GPL-2.0-only
"""Captures in virtual time: they change nothing else, and agree with tcp_probe and with tcptrace."""
import io
import json
import re
import shutil
import subprocess
from collections import Counter

import dpkt
import pytest
import yaml

from analysis import packets
from analysis.packets import captures, conversations, tcptrace, xplot
from testbed import PROJECT_DIR, cli
from testbed.core import pcap_files
from tests.kernel import documented


@pytest.fixture(scope="module")
def captured(run_scenario):
    return run_scenario(documented.exact("howto/captures.md"))


@pytest.fixture(scope="module")
def sent(captured):
    """(what left the sender and arrived there, in order of time, its flow)"""
    flow, = captured.json("raw/workload.json")["flows"]
    return list(captures.segments(captured.folder / f"raw/capture-{flow['sender']}-eth0.pcapng.gz")), flow


def test_captures_change_no_other_table(captured, run_scenario):
    without = run_scenario(re.sub(r", pcap: \{.*?\}", "", documented.exact("howto/captures.md")))
    hashes, others = (run.json("run.json")["raw_files_sha256"] for run in (captured, without))
    assert {name for name in hashes if name not in others} == {
        "capture-n1-eth0.pcapng.gz", "capture-n2-eth0.pcapng.gz"}
    # guest.json names the probes
    assert {name for name in others if others[name] != hashes[name]} == {"guest.json"}
    assert len(others) > 10 and captured.json("raw/guest.json")["probes"]["pcap"] == {"lost_packets": 0}


def test_sequence_numbers_add_up(captured, sent):
    segments, flow = sent
    (way, one), (back, acks) = captures.sequences(segments).items()
    assert way == back[::-1] and way[1] == f"{flow['dst']}:{flow['dport']}"
    assert one.new_bytes == 3_000_000 and one.gap_bytes == 0 and acks.new_bytes == 0
    assert one.sent_again == len(captured.table("retransmissions")) > 0
    arrived = captures.sequences(captures.segments(captured.folder / "raw/capture-n1-eth0.pcapng.gz"))[way]
    lost = captured.json("raw/counters.json")["drained"]["right_to_left"]["dropped_packets"]
    assert one.segments - arrived.segments == lost > 0


def test_captures_and_tcp_probe_agree_on_every_sequence_number(captured, sent):
    segments, flow = sent
    local = f"{flow['src']}:{segments[0].src.rpartition(':')[2]}"
    events = captured.table("tcp_probe")
    events = events[events["src"] == local]
    out = [one for one in segments if one.src == local]
    # in experiment time of the same microsecond: each event is a segment that arrived
    arrivals = [one for one in segments if one.dst == local and not one.syn][:len(events)]
    assert len(arrivals) == len(events) > 500
    assert all(abs(a.t_us - b) <= 1 for a, b in zip(arrivals, events["t_us"]))
    ends = {one.end for one in out}
    assert set(events["snd_nxt"]) <= ends
    # the state is that before the segment: acknowledged is what those before it did
    acknowledged, expected = (out[0].seq + 1) % 2**32, []
    for one in arrivals:
        expected.append(acknowledged)
        if 0 < (one.ack - acknowledged) % 2**32 < 2**31:
            acknowledged = one.ack
    assert events["snd_una"].tolist() == expected


def test_tcptrace_agrees_with_iperf3(run_scenario):
    """Throughput within 2 %; what waits in the queue when iperf3 stops is 0.3 % of it."""
    tree = yaml.safe_load(documented.exact("howto/captures.md"))
    run = run_scenario({**tree, "traffic": {"kind": "greedy"}, "probes": {"queue": {}, "pcap": {"nodes": ["n2"]}},
                        "timing": {"warmup": "1 s", "test": "9 s"}})
    said = json.loads((run.folder / "raw/iperf3-flow1.json").read_text())["end"]["sum_received"]
    rates = re.findall(r"throughput: +(\d+) Bps", tcptrace.text(run.folder / "raw/capture-n2-eth0.pcap.gz"))
    assert 8 * max(map(int, rates)) == pytest.approx(said["bits_per_second"], rel=0.02) and said["bytes"] > 10**7


def test_tcptrace_agrees(captured, sent):
    _, flow = sent
    path = captured.folder / f"raw/capture-{flow['sender']}-eth0.pcapng.gz"
    said = tcptrace.text(path)
    assert re.search(r"unique bytes sent: +(\d+)", said).group(1) == "3000000"
    rate = int(re.search(r"throughput: +(\d+) Bps", said).group(1))
    delivered_us, = (one["delivered_us"] for one in captured.json("raw/guest.json")["accounts"] if one["delivered_us"])
    assert rate == pytest.approx(3_000_000 / (delivered_us[str(flow["flow"])] / 1e6), rel=0.02)


def test_exported(captured, tmp_path):
    """docs/howto/exports.md: flent opens its file, and all packets of both devices are in one pcapng file."""
    page = (PROJECT_DIR / "docs/howto/exports.md").read_text()
    command = re.search(r"bin/testbed export captured (--format \S+)", page)[1]
    assert cli.main(["export", str(captured.folder), *command.split(), "--output", str(tmp_path)]) == 0
    name = captured.folder.name
    stats = subprocess.run(["flent", tmp_path / f"{name}.flent.gz", "-f", "stats"], capture_output=True, text=True,
                           check=True).stdout
    # 3 MB and the SYN, which the kernel counts
    assert float(re.search(r"TCP download::1:.*?Total: +([\d.]+) Mbits", stats, re.DOTALL)[1]) == pytest.approx(24)
    assert float(re.search(r"Ping \(ms\) ICMP:.*?Min: +([\d.]+) ms", stats, re.DOTALL)[1]) == pytest.approx(20, abs=2)
    with open(tmp_path / f"{name}.pcapng", "rb") as file:
        times = [time_s for time_s, _ in dpkt.pcapng.Reader(file)]
    single = sum(1 for path in captures.files(captured.folder)
                 for _ in dpkt.pcap.Reader(io.BytesIO(pcap_files.as_pcap(path))))
    assert times == sorted(times) and len(times) == single > 1000
    content = (tmp_path / f"{name}.pcapng").read_bytes()
    assert content.count(b"n1-eth0") == content.count(b"n2-eth0") == 1
    graphs = [xplot.read(path) for path in sorted(tmp_path.glob("*-time-sequence.xpl"))]
    assert len(graphs) == 2 and all(graph.elements for graph in graphs)


def test_the_transfer_as_a_connection_vector(captured, sent):
    """docs/howto/tmix.md: the unit that was sent, and each repetition, off the capture at either end."""
    for node in ("n1", "n2"):
        counts = Counter()
        found, = conversations.vectors(packets.tcp_packets(
            captured.folder / f"raw/capture-{node}-eth0.pcapng.gz", counts), counts)
        assert [(adu.side, adu.size_bytes) for adu in found.adus if adu.size_bytes] == [(0, 3_000_000)]
        assert counts["data segments sent again"] == len(captured.table("retransmissions")) > 0
        assert counts["bytes that the capture lacks"] == counts["data segments out of order"] == 0
        assert 20_000 <= found.min_rtt_us <= 20_200 and found.loss[0] > 0 == found.loss[1]


@pytest.mark.skipif(not shutil.which("tcpdump"), reason="tcpdump is not installed")
def test_tcpdump_sees_the_same_packets(run_scenario):
    """What leaves at the same nanoseconds, what arrives before the delay of its link."""
    tree = yaml.safe_load(documented.exact("howto/captures.md"))
    ours, theirs = (run_scenario({**tree, "probes": {"queue": {}, "pcap": {"tool": tool, "nodes": ["n1", "n2"]}}})
                    for tool in ("ring", "tcpdump"))
    assert theirs.json("raw/guest.json")["probes"]["pcap"] == {"lost_packets": 0}
    delay_us = {"n1": 0, "n2": 5000}
    for node in ("n1", "n2"):
        mine, other = (list(captures.segments(run.folder / f"raw/capture-{node}-eth0.pcap.gz"))
                       for run in (ours, theirs))
        assert len(mine) == len(other) > 1000
        host = ours.json("raw/workload.json")["flows"][0]["src" if node == "n2" else "dst"]
        first_out, first_in = (next(one for one in mine if (one.src.rpartition(":")[0] == host) is leaves)
                               for leaves in (True, False))
        again_out, again_in = (next(one for one in other if (one.src.rpartition(":")[0] == host) is leaves)
                               for leaves in (True, False))
        assert first_out.t_us == again_out.t_us
        assert delay_us[node] <= first_in.t_us - again_in.t_us <= delay_us[node] + 1
    text = tcptrace.text(theirs.folder / "raw/capture-n2-eth0.pcap.gz")
    assert re.search(r"unique bytes sent: +(\d+)", text).group(1) == "3000000"
