# SPDX-License-Identifier: GPL-2.0-only
"""Constant bit rate over UDP as a component of the traffic (docs/cbr.md).

    kind: cbr
    rate: 2 Mbit/s              of each flow, as a link counts it: Ethernet header included
    packet: 1000 B              size of an IP packet
    paths: [n4->n1]             sender->receiver (default: the first path, in the direction of the acceptor's data)
    flows: 1                    flows on each of them
    start_within: 0 s           every start is later by a random time below this one, from the run's seed

Also the program of a node: `python3 -m traffic.cbr JOB.json`, with {"send": [{flow, address, port, start_us,
stop_us, gap_ns, payload_bytes}], "receive": [{flow, address, port, payload_bytes, packets_per_s}], "drained_us",
"output"}. Packet i leaves at start + i x gap; it begins with its number, by which the receiver knows what is missing.
"""
import ctypes
import dataclasses
import heapq
import json
import math
import pathlib
import socket
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from testbed import fields
from traffic import program, routes

if TYPE_CHECKING:
    from traffic.components import Component, Context, Flow, Prepared, Timing

IP_UDP_BYTES, ETHERNET_BYTES = 28, 14
FIRST_PORT = 7000
_NUMBER = struct.Struct("!Q")
#: packets are taken from the receiver's socket so often, which has room for as many
_DRAIN_NS = 100_000_000
_MOST_AT_ONCE = 512
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE, _SO_MEMINFO, _MEMINFO_DROPS = 32, 33, 55, 8
_MSG_DONTWAIT, _MSG_TRUNC, _CLOCK_MONOTONIC, _TIMER_ABSTIME = 0x40, 0x20, 1, 1
#: what a sender's own queue holds is for the queue to decide
_SEND_BUFFER_BYTES = 1 << 26
#: memory that a packet takes in a socket's buffer beside its payload, at most
_OVERHEAD_BYTES = 2048


@dataclasses.dataclass(frozen=True)
class Section:
    """The fields of a cbr component."""
    rate_bps: int = fields.rate()
    packet_bytes: int = fields.size(default=1000, least=IP_UDP_BYTES + _NUMBER.size, most=1500)
    paths: tuple[str, ...] = fields.listing(
        fields.word(pattern=routes.PATH_PATTERN, example=routes.PATH_EXAMPLE), default=(), single=True)
    flows: int = fields.count(default=1, least=1, most=10_000)
    start_within_us: int = fields.time(default=0)

    @property
    def gap_ns(self) -> int:
        """Time from packet to packet."""
        return round((self.packet_bytes + ETHERNET_BYTES) * 8e9 / self.rate_bps)

    def __post_init__(self) -> None:
        if not 100 <= self.gap_ns <= 10**15:
            raise fields.FieldError("rate", f"a packet of {self.packet_bytes} bytes every 100 ns to 11 days expected")


# -- the component -------------------------------------------------------------------------------

def validate(section: Section, _component: "Component", network: Mapping[str, Any], _timing: "Timing") -> None:
    total = section.flows * len(routes.find(network, section.paths))
    if total > 65536 - FIRST_PORT:
        raise fields.FieldError("flows", f"{total} flows need more ports than there are")


def flows(section: Section, component: "Component", context: "Context") -> "list[Flow]":
    """Path by path, each flow with its start."""
    import numpy as np

    from traffic.components import Flow
    chosen = [route for route in routes.find(context.network, section.paths) for _ in range(section.flows)]
    offsets_us = np.random.default_rng((component.seed, 1)).integers(
        0, max(section.start_within_us, 1), size=len(chosen)).tolist()
    found: list[Flow] = []
    for route, offset_us in zip(chosen, offsets_us):
        if component.start_us + offset_us >= component.stop_us:
            raise fields.FieldError("start_within", f"flow {len(found) + 1} would begin after the end")
        found.append(Flow(**dataclasses.asdict(route), start_us=component.start_us + offset_us,
                          stop_us=component.stop_us, transport="udp", rate_bps=section.rate_bps))
    return found


def prepare(section: Section, component: "Component", flows: "list[Flow]", context: "Context") -> "Prepared":
    """One job file per host that sends or receives."""
    from traffic.components import Prepared, Program
    payload_bytes = section.packet_bytes - IP_UDP_BYTES
    jobs: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for flow in flows:
        order = {"flow": flow.flow, "address": flow.dst, "port": flow.dport, "payload_bytes": payload_bytes}
        jobs.setdefault(flow.sender, {"send": [], "receive": []})["send"].append(
            {**order, "start_us": flow.start_us, "stop_us": flow.stop_us, "gap_ns": section.gap_ns})
        jobs.setdefault(flow.receiver, {"send": [], "receive": []})["receive"].append(
            {**order, "packets_per_s": 1e9 / section.gap_ns})
    programs = []
    for node, job in sorted(jobs.items()):
        name = f"{component.name}-{node}.json"
        (context.work_dir / name).write_text(json.dumps({
            **job, "drained_us": context.duration_us + _drain_us(flows, context.network),
            "output": f"{context.guest_dir}/{_output_name(component.name, node)}"}))
        programs.append(Program(node, "traffic.cbr", [f"{context.guest_dir}/{name}"]))
    return Prepared(programs, {"rate_bps": section.rate_bps, "packet_bytes": section.packet_bytes})


def _drain_us(flows: "list[Flow]", network: Mapping[str, Any]) -> int:
    """The longest time that a packet may still be under way when the experiment ends."""
    queues_us = {link["name"]: link.get("capacity_us") or 0 for link in network["links"]}
    return 1_000_000 + max(flow.base_rtt_us + sum(queues_us[name] for name in flow.hops) for flow in flows)


def _output_name(component: str, node: str) -> str:
    return f"{component}-{node}.counts.json"


def collect(component: Mapping[str, Any], workload: Mapping[str, Any], context: "Context", raw_dir: pathlib.Path) \
        -> dict[str, Any]:
    """{"flows": [counts of each]}: sent_*, received_* and, by their numbers, lost, reordered, duplicate packets.

    Lost ones include those that arrived and found no room in the receiver's socket (socket_dropped_packets).
    """
    mine = [flow for flow in workload["flows"] if flow["component"] == component["name"]]
    nodes = {flow[end] for flow in mine for end in ("sender", "receiver")}
    counts: dict[str, dict[str, Any]] = {}
    for node in sorted(nodes):
        for flow, found in json.loads((context.work_dir / _output_name(component["name"], node)).read_text()).items():
            counts.setdefault(flow, {}).update(found)
    return {"flows": [{"flow": flow["flow"], **counts[str(flow["flow"])],
                       "lost_packets": counts[str(flow["flow"])]["sent_packets"]
                       - counts[str(flow["flow"])]["received_packets"]} for flow in mine]}


# -- the program ---------------------------------------------------------------------------------

class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


_libc = ctypes.CDLL(None, use_errno=True)


def _sleep_until(instant_ns: int) -> None:
    """Sleep until an instant of CLOCK_MONOTONIC: one system call, and none to ask for the time."""
    wanted = _Timespec(*divmod(instant_ns, 1_000_000_000))
    _libc.clock_nanosleep(_CLOCK_MONOTONIC, _TIMER_ABSTIME, ctypes.byref(wanted), None)


class _Message(ctypes.Structure):
    """struct mmsghdr"""
    _fields_ = [("name", ctypes.c_void_p), ("name_size", ctypes.c_int), ("parts", ctypes.c_void_p),
                ("part_count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_size", ctypes.c_size_t),
                ("flags", ctypes.c_int), ("padding", ctypes.c_int), ("size", ctypes.c_uint)]


class _Part(ctypes.Structure):
    """struct iovec"""
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class _Batch:
    """Takes many packets for one system call; of each only the number it begins with."""

    def __init__(self) -> None:
        self._numbers = bytearray(_NUMBER.size * _MOST_AT_ONCE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._numbers))
        self._parts = (_Part * _MOST_AT_ONCE)(
            *(_Part(base + i * _NUMBER.size, _NUMBER.size) for i in range(_MOST_AT_ONCE)))
        parts = ctypes.addressof(self._parts)
        self._messages = (_Message * _MOST_AT_ONCE)(
            *(_Message(None, 0, parts + i * ctypes.sizeof(_Part), 1, None, 0, 0, 0, 0) for i in range(_MOST_AT_ONCE)))

    def receive(self, fd: int) -> list[tuple[int, int]]:
        """(payload's size, number) of the packets that are there."""
        count = _libc.recvmmsg(fd, self._messages, _MOST_AT_ONCE, _MSG_DONTWAIT | _MSG_TRUNC, None)
        numbers = struct.iter_unpack(_NUMBER.format, memoryview(self._numbers)[:max(count, 0) * _NUMBER.size])
        return [(message.size, number) for message, (number,) in zip(self._messages, numbers)]


_batch = _Batch()


def _set_buffer(of: socket.socket, forced: int, usual: int, size: int) -> None:
    """Give a socket room; who is not root gets what everybody may have."""
    size = min(size, 1 << 29)
    try:
        of.setsockopt(socket.SOL_SOCKET, forced, size)
    except PermissionError:
        of.setsockopt(socket.SOL_SOCKET, usual, size)


class _Sender:
    """A flow that sends: a packet whenever it is due."""

    def __init__(self, order: Mapping[str, Any], t0_ns: int) -> None:
        self.flow = str(order["flow"])
        self.start_ns = t0_ns + order["start_us"] * 1000
        self.gap_ns = order["gap_ns"]
        self.packets = 0
        self.most = -(-(order["stop_us"] - order["start_us"]) * 1000 // self.gap_ns)
        self._payload = bytearray(order["payload_bytes"])
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        _set_buffer(self._socket, _SO_SNDBUFFORCE, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        self._socket.connect((order["address"], order["port"]))

    def due_ns(self) -> int:
        return int(self.start_ns + self.packets * self.gap_ns)

    def send(self) -> bool:
        """Send the next packet; False if it was the last."""
        _NUMBER.pack_into(self._payload, 0, self.packets)
        self._socket.send(self._payload)
        self.packets += 1
        return bool(self.packets < self.most)

    def counts(self) -> dict[str, int]:
        return {"sent_packets": self.packets, "sent_bytes": self.packets * (len(self._payload) + IP_UDP_BYTES)}


class _Receiver:
    """A flow that arrives. What is in a packet behind its number is not looked at."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self.flow = str(order["flow"])
        self._packets = self._bytes = self._reordered = self._duplicates = 0
        self._next = 0                          # the number after the highest that came
        self._missing: set[int] = set()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        packets = math.ceil(order["packets_per_s"] * _DRAIN_NS / 1e9 * 4 + 100)
        _set_buffer(self._socket, _SO_RCVBUFFORCE, socket.SO_RCVBUF,
                    packets * (order["payload_bytes"] + _OVERHEAD_BYTES))
        self._socket.bind((order["address"], order["port"]))

    def drain(self) -> None:
        """Take all packets that are there."""
        while taken := _batch.receive(self._socket.fileno()):
            for size, number in taken:
                self._count(size, number)
            if len(taken) < _MOST_AT_ONCE:
                return

    def _count(self, size: int, number: int) -> None:
        if number >= self._next:
            self._missing.update(range(self._next, number))
            self._next = number + 1
        elif number in self._missing:
            self._missing.remove(number)
            self._reordered += 1
        else:
            self._duplicates += 1
            return
        self._packets += 1
        self._bytes += size + IP_UDP_BYTES

    def counts(self) -> dict[str, int]:
        memory = struct.unpack("=9I", self._socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 36))
        return {"received_packets": self._packets, "received_bytes": self._bytes,
                "reordered_packets": self._reordered, "duplicate_packets": self._duplicates,
                "socket_dropped_packets": memory[_MEMINFO_DROPS]}


def main() -> None:
    job = program.read_job()
    receivers = [_Receiver(order) for order in job["receive"]]
    t0_ns = program.wait_for_start()
    senders = [_Sender(order, t0_ns) for order in job["send"]]
    # (instant, order among those of an instant): a sender's next packet, or a look at the receivers
    waiting = [(sender.due_ns(), number) for number, sender in enumerate(senders)]
    end_ns = t0_ns + job["drained_us"] * 1000
    if receivers:
        waiting.append((t0_ns + _DRAIN_NS, len(senders)))
    heapq.heapify(waiting)
    while waiting:
        due_ns, number = waiting[0]
        _sleep_until(due_ns)
        if number < len(senders):
            if senders[number].send():
                heapq.heapreplace(waiting, (senders[number].due_ns(), number))
            else:
                heapq.heappop(waiting)
            continue
        for receiver in receivers:
            receiver.drain()
        if due_ns >= end_ns:
            heapq.heappop(waiting)
        else:
            heapq.heapreplace(waiting, (due_ns + _DRAIN_NS, number))
    counts = {sender.flow: sender.counts() for sender in senders}
    for receiver in receivers:
        counts.setdefault(receiver.flow, {}).update(receiver.counts())
    with open(job["output"], "w") as f:
        json.dump(counts, f)
    program.done({"packets": counts})


if __name__ == "__main__":
    main()
