# SPDX-License-Identifier: GPL-2.0-only
"""Measurements of the idle network, before any traffic: is it what the scenario says?

Only measuring is done here; judging is left to testbed/fidelity.
"""
import os
import socket
import struct
import threading
import time

from testbed.probes._netlink import Qdisc

_PING_PAYLOAD_BYTES = 56
_FRAME_OVERHEAD_BYTES = 14 + 20 + 8
_UDP_PAYLOAD_BYTES = 1472
_BLAST_PORT = 9


def measure(network, description):
    """All measurements, as `raw/checks.json` holds them."""
    return {
        "paths": [_round_trip(network, path, description) for path in description["paths"]],
        "bottlenecks": [_saturate(network, link, description)
                        for link in description["links"] if link["bottleneck"]],
        "offloads": network.offloads,
        "sysctls": network.observed_sysctls,
    }


def _round_trip(network, path, description):
    """Smallest of three idle round trips of an ICMP echo, and what it should be."""
    rates = [link["rate_bps"] for link in _links_on(path, description)]
    bits = (_PING_PAYLOAD_BYTES + _FRAME_OVERHEAD_BYTES) * 8
    with network.in_namespace(path["initiator"]):
        sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    with sock:
        sock.settimeout(1 + 2 * path["base_rtt_us"] / 1e6)
        measured_ns = _shortest_echo(sock, path["acceptor_address"])
    return {"initiator": path["initiator"], "acceptor": path["acceptor"], "base_rtt_us": path["base_rtt_us"],
            "serialisation_us": sum(bits * 1e6 / rate for rate in rates), "measured_rtt_us": None if measured_ns is None else measured_ns / 1000}


def _shortest_echo(sock, address):
    """Shortest of three round trips in ns; None if 30 tries do not give three (links may be lossy)."""
    times_ns = []
    for number in range(30):
        try:
            times_ns.append(_echo(sock, address, number))
        except TimeoutError:
            continue
        if len(times_ns) == 3:
            return min(times_ns)
    return None


def _links_on(path, description):
    """Links of the path there and back."""
    return [link for link in description["links"] if link["name"] in path["hops"] + path["hops_back"]]


def _echo(sock, address, sequence):
    """Send one echo request and wait for its reply; returns nanoseconds."""
    identifier = os.getpid() & 0xFFFF
    message = struct.pack("!BBHHH", 8, 0, 0, identifier, sequence) + bytes(_PING_PAYLOAD_BYTES)
    total = sum(struct.unpack(f"!{len(message) // 2}H", message))
    total = (total >> 16) + (total & 0xFFFF)
    checksum = ~(total + (total >> 16)) & 0xFFFF
    message = message[:2] + struct.pack("!H", checksum) + message[4:]
    start_ns = time.monotonic_ns()
    sock.sendto(message, (address, 0))
    while True:
        reply = sock.recv(2048)
        kind, _, _, got_identifier, got_sequence = struct.unpack_from("!BBHHH", reply, 20)
        if (kind, got_identifier, got_sequence) == (0, identifier, sequence):
            return time.monotonic_ns() - start_ns


def _saturate(network, link, description):
    """Overload a link with UDP from every host behind it: its rate, its largest queue, its drops."""
    paths = [p for p in description["paths"] if link["name"] in p["hops"] + p["hops_back"]]
    senders = {}
    for path in paths:
        forward = link["name"] in path["hops"]
        source, target = ("initiator", "acceptor") if forward else ("acceptor", "initiator")
        senders.setdefault(path[source], (path[target], path[f"{target}_address"]))
    edge_bps = 0
    for host in list(senders):
        if edge_bps > 1.5 * link["rate_bps"]:       # the others would only cost time
            del senders[host]
            continue
        edge_bps += next(l["rate_bps"] for l in description["links"] if l["from"] == host)
    fill_s = 2 * (link["limit_packets"] or 1000) * 12112 / link["rate_bps"]
    window_s = 4000 * 12112 / link["rate_bps"]
    stop = threading.Event()
    sinks, threads = [], []
    for host, (target, address) in senders.items():
        with network.in_namespace(target):
            sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sink.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sink.bind((address, _BLAST_PORT))
            sinks.append(sink)
        with network.in_namespace(host):
            source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        threads.append(threading.Thread(target=_blast, args=(source, (address, _BLAST_PORT), stop)))
    with network.in_namespace(link["from"]):
        qdisc = Qdisc(link["ifindex"])
    drops_before = qdisc.read()[2]
    for thread in threads:
        thread.start()
    time.sleep(fill_s)
    start_ns, start = time.monotonic_ns(), qdisc.read()
    longest = start[4]
    for _ in range(50):
        time.sleep(window_s / 50)
        now = qdisc.read()
        longest = max(longest, now[4])
    end_ns = time.monotonic_ns()
    stop.set()
    for thread in threads:
        thread.join()
    time.sleep(fill_s + max(p["base_rtt_us"] for p in paths) / 1e6)
    drops = qdisc.read()[2] - drops_before
    qdisc.close()
    for sink in sinks:
        sink.close()
    return {"link": link["name"], "rate_bps": link["rate_bps"],
            "measured_bps": (now[0] - start[0]) * 8e9 / (end_ns - start_ns), "window_packets": now[1] - start[1],
            "limit_packets": link["limit_packets"], "longest_queue_packets": longest,
            "dropped_packets": drops, "overloaded": edge_bps > link["rate_bps"]}


def _blast(sock, target, stop):
    payload = bytes(_UDP_PAYLOAD_BYTES)
    with sock:
        while not stop.is_set():
            sock.sendto(payload, target)
