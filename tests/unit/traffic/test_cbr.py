# SPDX-License-Identifier: GPL-2.0-only
"""Constant bit rate: sections, jobs, and the program over loopback."""
import json
import socket
import subprocess
import sys
import time

import pytest

import traffic
from testbed import PROJECT_DIR
from testbed.fields import FieldError
from traffic import cbr
from traffic_setup import TIMING, variant

CBR = {"kind": "cbr", "rate_bps": 2_000_000}


@pytest.mark.parametrize("field, changes, words", [
    ("rate", {"rate_bps": 0}, "at least"), ("rate", {"rate_bps": 10**12}, "every 100 ns to 11 days"),
    ("rate", {"rate": 5}, "a value with a unit"),
    ("packet", {"packet_bytes": 35}, "at least 36 B"), ("packet", {"packet_bytes": 1501}, "at most 1500 B"),
    ("paths", {"paths": ["n1->n2"]}, "no path"), ("flows", {"flows": 10_000, "paths": ["n3->n1"] * 6},
                                                  "60000 flows need more ports")])
def test_refused_sections(network, field, changes, words):
    with pytest.raises(FieldError, match=words) as problem:
        traffic.validate([{**CBR, **changes}], network, TIMING)
    assert problem.value.field == field


def test_jobs(context, jobs):
    workload = traffic.prepare([{**CBR, "start_us": 1_000_000, "paths": ["n3->n1", "n1->n3"]}], [variant("cubic")],
                               context)
    flow, other = workload["flows"]
    assert (flow["transport"], flow["variant"], flow["cca"], flow["rate_bps"], flow["bytes"]) == ("udp", None, None,
                                                                                                  2_000_000, None)
    (n1, module, receiving), (n3, _, sending) = jobs(workload)
    assert (n1, n3, module) == ("n1", "n3", "traffic.cbr")
    # 1014 bytes on the link every 4.056 ms are 2 Mbit/s
    assert sending["send"] == [{"flow": 1, "address": "10.0.2.1", "port": 7000, "payload_bytes": 972,
                                "start_us": 1_000_000,
                                "stop_us": 10_000_000, "gap_ns": 4_056_000}]
    assert receiving["receive"] == [{"flow": 1, "address": "10.0.2.1", "port": 7000, "payload_bytes": 972,
                                     "packets_per_s": pytest.approx(246.548, abs=0.001)}]
    queues_us = {link["name"]: link["capacity_us"] for link in context.network["links"]}
    assert receiving["drained_us"] == 10_000_000 + 1_000_000 + 4000 + sum(queues_us[name] for name in flow["hops"])


def test_random_starts(context):
    starts = [flow["start_us"] for flow in traffic.prepare(
        [{**CBR, "flows": 50, "start_within_us": 1_000_000}], [variant("cubic")], context)["flows"]]
    assert len(set(starts)) > 45 and max(starts) < 1_000_000
    with pytest.raises(FieldError, match="begin after the end"):
        traffic.prepare([{**CBR, "flows": 50, "start_within_us": 100_000_000}], [variant("cubic")], context)


def run(folder, job, between=lambda: None):
    (folder / "job.json").write_text(json.dumps({**job, "output": str(folder / "out.json")}))
    started = subprocess.Popen([sys.executable, "-S", "-m", "traffic.cbr", str(folder / "job.json")], cwd=PROJECT_DIR,
                               text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert started.stdout.readline() == "ready\n"
    started.stdin.write(f"start {time.monotonic_ns()}\n")
    started.stdin.flush()
    between()
    output, words = started.communicate(timeout=30)
    assert started.returncode == 0, words
    assert json.loads(output.removeprefix("done "))["packets"] == json.loads((folder / "out.json").read_text())
    return json.loads((folder / "out.json").read_text())


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


def test_packets_are_sent_at_their_time_and_counted(tmp_path):
    flow = {"flow": 7, "address": "127.0.0.1", "port": free_port(), "payload_bytes": 972}
    counts = run(tmp_path, {"send": [{**flow, "start_us": 100_000, "stop_us": 600_000, "gap_ns": 1_000_001}],
                            "receive": [{**flow, "packets_per_s": 1000}], "drained_us": 700_000})
    assert counts == {"7": {"sent_packets": 500, "sent_bytes": 500_000, "received_packets": 500,
                            "received_bytes": 500_000,
                            "reordered_packets": 0, "duplicate_packets": 0, "socket_dropped_packets": 0}}


def test_losses_duplicates_and_late_packets_are_told_apart(tmp_path):
    port = free_port()

    def send():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for number in (0, 1, 1, 4, 3, 3, 700):
                sender.sendto(number.to_bytes(8, "big") + bytes(92), ("127.0.0.1", port))
    flow = {"flow": 1, "address": "127.0.0.1", "port": port, "payload_bytes": 100, "packets_per_s": 1000}
    counts = run(tmp_path, {"send": [], "receive": [flow], "drained_us": 300_000}, send)
    assert counts == {"1": {"received_packets": 5, "received_bytes": 5 * 128, "reordered_packets": 1,
                            "duplicate_packets": 2, "socket_dropped_packets": 0}}


def test_packets_that_find_no_room_are_counted(tmp_path):
    port = free_port()

    def send():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for number in range(2000):
                sender.sendto(number.to_bytes(8, "big") + bytes(992), ("127.0.0.1", port))
    flow = {"flow": 1, "address": "127.0.0.1", "port": port, "payload_bytes": 1000, "packets_per_s": 1}
    counts = run(tmp_path, {"send": [], "receive": [flow], "drained_us": 300_000}, send)["1"]
    assert counts["socket_dropped_packets"] > 0
    assert counts["received_packets"] + counts["socket_dropped_packets"] == 2000


def test_account(context, tmp_path):
    workload = traffic.prepare([CBR], [variant("cubic")], context)
    (context.work_dir / "cbr-n3.counts.json").write_text('{"1": {"sent_packets": 9, "sent_bytes": 90}}')
    (context.work_dir / "cbr-n1.counts.json").write_text('{"1": {"received_packets": 7, "received_bytes": 70}}')
    assert cbr.collect(workload["components"][0], workload, context, tmp_path) == {"flows": [
        {"flow": 1, "sent_packets": 9, "sent_bytes": 90, "received_packets": 7, "received_bytes": 70,
         "lost_packets": 2}]}
