# SPDX-License-Identifier: GPL-2.0-only
"""The UDP flows of a node, or of many: a packet whenever one is due, and counts of what arrives.

    python3 -m traffic.datagrams.program JOB.json
    python3 -m traffic.datagrams.program NODE DESCRIPTOR JOB.json NODE DESCRIPTOR JOB.json ...

job: {"send": [{flow, address, port, payload_bytes, ecn (a codepoint, if not 0), and when packets leave
(departures.py)}], "receive": [{flow, address, port, payload_bytes, packets_per_s}], "drained_us", "output"}. A packet
begins with its number, by which the receiver knows what is missing, and with the instant at which it was due, from
which its delay is counted.
"""
from __future__ import annotations

import heapq
import json
import math
import operator
import socket
import sys
import time
from collections.abc import Callable, Iterator

from testbed.core import ip
from traffic import program
from traffic.datagrams import convoy
from traffic.datagrams.arrivals import Arrivals, socket_drops
from traffic.datagrams.batch import HEADER, MOST_AT_ONCE, Batch, note_arrivals
from traffic.datagrams.departures import departures_ns
from traffic.io.sockets import raise_descriptor_limit

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import TypedDict, TypeVar

    from traffic.datagrams.departures import Order

    class Expected(TypedDict):
        """What it is told of a flow that it receives."""
        flow: int
        address: str
        port: int
        payload_bytes: int
        packets_per_s: float

    _OneOrder = TypeVar("_OneOrder", Order, Expected)
    _End = TypeVar("_End", "_Sender", "_Receiver")
    _More = TypeVar("_More", int, Batch)

#: packets are taken from the receiver's socket so often, which has room for as many
_DRAIN_NS = 100_000_000
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
#: what a sender's own queue holds is for the queue to decide
_SEND_BUFFER_BYTES = 1 << 26
#: memory that a packet takes in a socket's buffer beside its payload, at most
_OVERHEAD_BYTES = 2048


def _set_buffer(of: socket.socket, forced: int, usual: int, size: int) -> None:
    """Give a socket room; who is not root gets what everybody may have."""
    size = min(size, 1 << 29)
    try:
        of.setsockopt(socket.SOL_SOCKET, forced, size)
    except PermissionError:
        of.setsockopt(socket.SOL_SOCKET, usual, size)


class _Host:
    """What a node sends and receives. Sockets stay in the namespace in which they are made."""

    def __init__(self, host: program.Host, batch: Batch) -> None:
        self.host, self.senders = host, list[_Sender]()
        self.receivers = [self._made("receiver", order, _Receiver, batch) for order in host.job["receive"]]

    def begin(self, t0_ns: int) -> None:
        """Make the senders."""
        self.senders = [self._made("sender", order, _Sender, t0_ns) for order in self.host.job["send"]]

    def _made(self, role: str, order: _OneOrder, end: Callable[[_OneOrder, _More], _End], more: _More) -> _End:
        """A sender or receiver; its socket is in the namespace of its host."""
        try:
            self.host.enter()
            return end(order, more)
        except OSError as problem:
            what = self.host.name(f"flow {order['flow']}, {role}")
            sys.exit(f"{what}: {type(problem).__name__}: {problem}")

    def account(self) -> dict[str, object]:
        """What was counted, also in a file of the node's."""
        counts: dict[str, dict[str, float]] = {sender.flow: sender.counts() for sender in self.senders}
        for receiver in self.receivers:
            counts.setdefault(receiver.flow, {}).update(receiver.counts())
        with open(self.host.job["output"], "w") as f:
            json.dump(counts, f)
        return {"packets": counts}


class _Sender:
    """A flow that sends: a packet whenever it is due."""

    def __init__(self, order: Order, t0_ns: int) -> None:
        self.flow = str(order["flow"])
        self._t0_ns = t0_ns
        self._departures = departures_ns(order)
        self._packets = 0
        self.payload_bytes = int(order["payload_bytes"])
        self._header_bytes = ip.udp_header_bytes(order["address"])
        self._socket = socket.socket(ip.family(order["address"]), socket.SOCK_DGRAM)
        _set_buffer(self._socket, _SO_SNDBUFFORCE, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        if codepoint := order.get("ecn"):
            if self._socket.family == socket.AF_INET6:
                self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, codepoint)
            else:
                self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, codepoint)
        self._socket.connect((order["address"], order["port"]))

    def packets(self) -> Iterator[convoy.Leaving]:
        """All packets, in their order. One that is taken counts as sent."""
        fd, size = self._socket.fileno(), self.payload_bytes
        for due_ns in self._departures:
            header = HEADER.pack(self._packets, due_ns)
            self._packets += 1
            yield self._t0_ns + due_ns, fd, size, header

    def counts(self) -> dict[str, float]:
        return {"sent_packets": self._packets, "sent_bytes": self._packets * (self.payload_bytes + self._header_bytes)}


class _Receiver:
    """A flow that arrives. What is in a packet behind its header is not looked at."""

    def __init__(self, order: Expected, batch: Batch) -> None:
        self.flow = str(order["flow"])
        self._batch = batch
        self._arrivals = Arrivals(ip.udp_header_bytes(order["address"]))
        self._socket = socket.socket(ip.family(order["address"]), socket.SOCK_DGRAM)
        packets = math.ceil(order["packets_per_s"] * _DRAIN_NS / 1e9 * 4 + 100)
        _set_buffer(self._socket, _SO_RCVBUFFORCE, socket.SO_RCVBUF,
                    packets * (order["payload_bytes"] + _OVERHEAD_BYTES))
        note_arrivals(self._socket)
        self._socket.bind((order["address"], order["port"]))

    def drain(self, t0_ns: int) -> None:
        """Take all packets that are there. t0_ns: the wall clock's beginning of the experiment."""
        while taken := self._batch.receive(self._socket.fileno()):
            for size, number, due_ns, arrival_ns in taken:
                self._arrivals.count(size, number, arrival_ns - t0_ns - due_ns)
            if len(taken) < MOST_AT_ONCE:
                return

    def counts(self) -> dict[str, float]:
        return {**self._arrivals.counts(), "socket_dropped_packets": socket_drops(self._socket)}


def main() -> None:
    raise_descriptor_limit()
    batch = Batch()
    hosts = [_Host(host, batch) for host in program.read_hosts()]
    receivers = [receiver for host in hosts for receiver in host.receivers]
    t0_ns = program.wait_for_start()
    for host in hosts:
        host.begin(t0_ns)
    senders = [sender for host in hosts for sender in host.senders]
    end_ns = t0_ns + max(host.host.job["drained_us"] for host in hosts) * 1000
    look_ns = t0_ns + _DRAIN_NS if receivers else None      # at the receivers
    sends = convoy.make(max((sender.payload_bytes for sender in senders), default=0)) if senders else None
    packets = iter(heapq.merge(*(sender.packets() for sender in senders), key=operator.itemgetter(0)))
    packet = next(packets, None)
    while packet or look_ns:
        leaving: list[convoy.Leaving] = []
        while packet and (look_ns is None or packet[0] <= look_ns) and len(leaving) < convoy.MOST:
            leaving.append(packet)
            packet = next(packets, None)
        if sends and leaving:
            sends.send(leaving)
        elif look_ns:
            convoy.sleep_until(look_ns)
            # packets are stamped by the wall clock, which may be adjusted during a run
            ahead_ns = time.clock_gettime_ns(time.CLOCK_REALTIME) - time.monotonic_ns()
            for receiver in receivers:
                receiver.drain(t0_ns + ahead_ns)
            look_ns = look_ns + _DRAIN_NS if look_ns < end_ns else None
    accounts = {host.host.node: host.account() for host in hosts}
    if len(hosts) > 1:
        program.done(accounts)
    else:
        program.done(accounts[hosts[0].host.node])


if __name__ == "__main__":
    main()
