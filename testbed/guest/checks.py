# SPDX-License-Identifier: GPL-2.0-only
"""Measurements of the idle network, before any traffic: is it what the scenario says?

Only measuring is done here; judging is left to testbed/checks.
"""
import os
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from testbed.core import ip
from testbed.guest import departures, devices, overload
from testbed.guest.blast import blast
from testbed.guest.urgent import urgent
from testbed.probes._netlink import Qdisc
from topologies import queues
from topologies.links import wires
from topologies.links.records import Link, Network as Description, Path
from topologies.linux.network import Network

PING_PAYLOAD_BYTES = 56
_ICMP_BYTES = 8
_BLAST_PORT = 9
_SO_SNDBUFFORCE = 32
#: its step is a tick of the kernel's timer
_CLOCK_MONOTONIC_COARSE = 6
#: round trips of a path that are measured, and on a wall clock, where some wait for a CPU
_ECHOES, _ECHOES_REAL = 3, 10
#: after the echo before, the air is idle, and nobody backs off
_AIR_PAUSE_S = 0.05
#: of a queue that is overloaded
_READINGS = 50
#: of more paths than this, those are measured that cover every link
_MOST_PATHS = 100


def measure(network: Network, description: Description, work_dir: str) \
        -> tuple[dict[str, object], devices.Found]:
    """All measurements, as `raw/checks.json` holds them, and what devices have of it.

    Bottlenecks are measured one after the other.

    Whatever an AQM has learnt of the packets of the test is forgotten before anything else is read.
    """
    paths = [_round_trip(network, path, description) for path in covering(description.paths)]
    bottlenecks = [link for link in description.links if link.bottleneck]
    saturated = [_saturate(network, link, description, work_dir) for link in bottlenecks]
    for link in bottlenecks:
        if not queues.traits(link).tail_drop:
            network.make_queue_anew(link)
    measured = {
        "paths": paths,
        "bottlenecks": saturated,
        "offloads": network.offloads,
        "sysctls": network.observed_sysctls,
        "jiffy_us": round(1e6 * time.clock_getres(_CLOCK_MONOTONIC_COARSE)),
    }
    found = devices.read(network)
    return {**measured, **found._asdict(), **_thresholds(network, description)}, found


def _thresholds(network: Network, description: Description) -> dict[str, object]:
    """Read only where it is needed: what a guest does before traffic moves the draws of all that comes after."""
    if all(node.initial_ssthresh is None for node in description.nodes):
        return {}
    from testbed.guest import thresholds
    return thresholds.make_known(network, description)


def echo_bytes(network: Description) -> int:
    """Size of the frame of an echo."""
    return ip.ETHERNET_BYTES + network.header_bytes() + _ICMP_BYTES + PING_PAYLOAD_BYTES


def covering(paths: Sequence[Path]) -> Sequence[Path]:
    """All paths, or of very many those that have a link which those before them have not."""
    if len(paths) <= _MOST_PATHS:
        return paths
    seen: set[str] = set()
    chosen = []
    for path in paths:
        links = {*path.hops, *path.hops_back}
        if not links <= seen:
            chosen.append(path)
            seen |= links
    return chosen


def _round_trip(network: Network, path: Path, description: Description) -> dict[str, object]:
    """Smallest of some idle round trips of an ICMP echo, and what it should be: up to jitter_us more than the rest."""
    links = _links_on(path, description)
    serialisation_us = sum(wires.frame_us(link, echo_bytes(description)) for link in links)
    hosts_us = sum(link.coalescing_us + link.packet_cost_us for link in links)
    jitter_us = sum(link.jitter_us + (link.jitter.spread_us if link.jitter else 0) for link in links)
    late_us = sum(wires.late_us(link) for link in links)
    of_air: dict[str, float] = {}
    echoes = _ECHOES_REAL if network.timer_period_us else _ECHOES
    if path.air:
        from topologies.wireless import airways
        cells = {cell.name: cell for cell in description.cells}
        way = airways.round_trip(cells, path, echo_bytes(description) - ip.ETHERNET_BYTES)
        echoes = max(echoes, airways.round_trips_for_a_clean_one(cells, path))
        of_air, late_us = {"air_us": way.least_us}, late_us + way.more_us
    with network.in_namespace(path.initiator):
        family = ip.family(path.acceptor_address)
        sock = socket.socket(family, socket.SOCK_RAW, _ECHO[family].protocol)
    with sock, urgent(network.timer_period_us > 0):
        sock.settimeout(1 + 2 * (path.base_rtt_us + serialisation_us + hosts_us + jitter_us + late_us
                                 + of_air.get("air_us", 0)) / 1e6)
        measured_ns = _shortest_echo(sock, path.acceptor_address, echoes, _AIR_PAUSE_S if of_air else 0)
    return {"initiator": path.initiator, "acceptor": path.acceptor, "base_rtt_us": path.base_rtt_us,
            "serialisation_us": serialisation_us, "hosts_us": hosts_us, "jitter_us": jitter_us,
            "early_us": sum(wires.early_us(link) for link in links), "late_us": late_us, **of_air,
            "measured_rtt_us": None if measured_ns is None else measured_ns / 1000}


def _shortest_echo(sock: socket.socket, address: str, wanted: int, pause_s: float) -> int | None:
    """Shortest of the wanted round trips in ns; None if ten times as many tries do not give them: links may lose."""
    times_ns: list[int] = []
    for number in range(10 * wanted):
        if pause_s:
            time.sleep(pause_s)
        try:
            times_ns.append(_echo(sock, address, number))
        except TimeoutError:
            continue
        if len(times_ns) == wanted:
            return min(times_ns)
    return None


def _links_on(path: Path, description: Description) -> list[Link]:
    """Links of the path there and back."""
    return [link for link in description.links if link.name in (*path.hops, *path.hops_back)]


class _Echo(NamedTuple):
    """The echo of a version of ICMP; header_bytes: what is in front of an answer that a raw socket gets."""
    protocol: int
    request: int
    reply: int
    header_bytes: int


_ECHO = {socket.AF_INET: _Echo(socket.IPPROTO_ICMP, 8, 0, 20),
         socket.AF_INET6: _Echo(socket.IPPROTO_ICMPV6, 128, 129, 0)}


def _echo(sock: socket.socket, address: str, sequence: int) -> int:
    """Send one echo request and wait for its reply; returns nanoseconds."""
    identifier, echo = os.getpid() & 0xFFFF, _ECHO[sock.family]
    message = struct.pack("!BBHHH", echo.request, 0, 0, identifier, sequence) + bytes(PING_PAYLOAD_BYTES)
    # of ICMPv6 the kernel puts another one there, for it covers addresses
    total = sum(struct.unpack(f"!{len(message) // 2}H", message))
    total = (total >> 16) + (total & 0xFFFF)
    checksum = ~(total + (total >> 16)) & 0xFFFF
    message = message[:2] + struct.pack("!H", checksum) + message[4:]
    start_ns = time.monotonic_ns()
    sock.sendto(message, (address, 0))
    while True:
        reply = sock.recv(2048)
        kind, _, _, got_identifier, got_sequence = struct.unpack_from("!BBHHH", reply, echo.header_bytes)
        if (kind, got_identifier, got_sequence) == (echo.reply, identifier, sequence):
            return time.monotonic_ns() - start_ns


def _saturate(network: Network, link: Link, description: Description, work_dir: str) -> dict[str, object]:
    """Overload a link with UDP from hosts behind it: its largest queue as readings see it, its drops; its rate follows
    (departures.complete)."""
    plan = overload.plan(link, description, network.timer_period_us > 0)
    if not plan.overloaded and _behind_air(link, description):
        # a channel that is slower than the link would carry it all for nothing
        return {"link": link.name, "rate_bps": link.rate_bps, "overloaded": False, "filled": False}
    stop = threading.Event()
    sinks, threads = [], []
    for sender in plan.senders:
        with network.in_namespace(sender.target):
            sink = socket.socket(ip.family(sender.address), socket.SOCK_DGRAM)
            sink.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sink.bind((sender.address, _BLAST_PORT))
            sinks.append(sink)
        with network.in_namespace(sender.host):
            source = socket.socket(ip.family(sender.address), socket.SOCK_DGRAM)
        if sender.local:
            source.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, 1 << 30)
        threads.append(threading.Thread(target=blast, args=(
            source, (sender.address, _BLAST_PORT), bytes(description.datagram_bytes()), stop, plan.interval_s,
            plan.at_once)))
    with network.in_namespace(link.from_node):
        qdisc = Qdisc(link.ifindex)
    drops_before = qdisc.read()[2]
    for thread in threads:
        thread.start()
    time.sleep(plan.fill_s)
    log = departures.Log(link, work_dir)
    readings = []
    for _ in range(_READINGS):
        readings.append(qdisc.read())
        time.sleep(plan.window_s / _READINGS)
    stop.set()
    for thread in threads:
        thread.join()
    time.sleep(plan.drain_s)
    if description.cells:
        from testbed.guest import air
        air.settled(network)
    noted = log.close()
    drops = qdisc.read()[2] - drops_before
    qdisc.close()
    for sink in sinks:
        sink.close()
    return {"link": link.name, "rate_bps": link.rate_bps,
            "limit_packets": link.limit_packets, "longest_queue_packets": max(reading[4] for reading in readings),
            "limit_bytes": link.limit_bytes, "longest_queue_bytes": max(reading[3] for reading in readings),
            "dropped_packets": drops, "overloaded": plan.overloaded, "filled": plan.fills, **noted}


def _behind_air(link: Link, description: Description) -> bool:
    """Whether all that reaches a link comes over the air."""
    if not description.cells:
        return False
    from topologies.wireless import airways
    links = {other.name: other for other in description.links}
    cells = {cell.name for cell in description.cells}
    both = [airways.way(path, links, back) for path in description.paths for back in (False, True)]
    ways = [way for way in both if link.name in way]
    return bool(ways) and all(cells.intersection(way[:way.index(link.name)]) for way in ways)
