# SPDX-License-Identifier: GPL-2.0-only
"""Ends of flows over plain sockets: their options, and what an end finds out. Who drives them: ring.py, threads.py."""
from __future__ import annotations

import mmap
import socket
import struct

from testbed.core import ip
from traffic.io import sockets
from traffic.io.clock import now_ns
from traffic.io.payload import PERIOD, Pattern, Tally, differs, phase

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import NotRequired, TypedDict

    class Pace(TypedDict):
        """So much at a time, at instants so far apart."""
        bytes: int
        gap_ns: int

    class Misbehaviour(TypedDict):
        """What the receiver does (misbehaving.py)."""
        kind: str
        parts: NotRequired[int]
        ahead: NotRequired[int]

    class Numbered(TypedDict):
        """What every end of a flow knows."""
        flow: int

    class Order(Numbered, total=False):
        """What a program is told of an end of a flow; what each key means: flows.py."""
        address: str
        port: int
        cca: str | None
        options: list[tuple[str, int, int, int]]
        start_us: int
        stop_us: int
        peer: str
        bytes: int
        maxseg: int
        window_bytes: int
        sequence_start: int
        bursts_us: list[tuple[int, int]]
        pace: Pace
        phases: list[tuple[int, int, int | None, int]]
        receiver: Misbehaviour

    class Job(TypedDict):
        """The orders of a program."""
        send: list[Order]
        receive: list[Order]
        duration_us: int
        ring: bool
        wakeup_cost_us: NotRequired[int]

_TCP_CLOSE = 7
#: what the receivers of a node have to read into, all together; each at least, at most
_BUFFERS_BYTES, _LEAST_BUFFER_BYTES, _MOST_BUFFER_BYTES = 32 << 20, 1 << 15, 1 << 19
# a buffer of so many windows holds a window with what the kernel needs besides
_BUFFER_WINDOWS = 4
_END = {"send": "sender", "receive": "receiver"}
# include/uapi/linux/tcp.h
_TCP_CONGESTION = 13
_TCP_REPAIR, _TCP_REPAIR_QUEUE, _TCP_QUEUE_SEQ = 19, 20, 21
_TCP_SEND_QUEUE, _REPAIR_OFF_WITHOUT_PROBE = 2, -1


class End:
    """This node's end of a flow: what it found out about its connection."""

    def __init__(self, flow: Order, role: str) -> None:
        self.flow, self.role = flow, role
        self.tally = Tally()
        self._ccas: dict[str, int] = {}
        self._born: dict[str, int] = {}

    def note_birth(self, unconnected: socket.socket) -> None:
        """Note the congestion control of a socket before its SYN, or of the one that listens for it."""
        name = unconnected.getsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, 16).partition(b"\0")[0].decode()
        self._born[name] = 1

    def note_cca(self, connection: socket.socket) -> None:
        """Note the congestion control that a connected socket uses."""
        self.note_name(connection.getsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, 16))

    def note_name(self, answer: bytes) -> None:
        """Note what a connected socket has told of its congestion control: the name, a 0 and anything."""
        name = answer.partition(b"\0")[0].decode()
        self._ccas[name] = self._ccas.get(name, 0) + 1

    def account(self) -> dict[str, object]:
        """For the program's account."""
        return {"flow": self.flow["flow"], "end": _END[self.role], "ccas": self._ccas, "born": self._born,
                **self.tally.account()}


class Counts:
    """What flows have sent and received; delivered_us: when the receiver had read the last byte, of flows that came to
    an end."""

    def __init__(self, jobs: list[Job]) -> None:
        #: the beginning of the experiment
        self.t0_ns = 0
        self._sent_bytes = {flow["flow"]: 0 for job in jobs for flow in job["send"]}
        self._read = {flow["flow"]: Tally() for job in jobs for flow in job["receive"]}
        self._delivered_us: dict[int, int] = {}

    def account(self, job: Job) -> dict[str, dict[int, int]]:
        """Of the flows of one of the jobs."""
        received = {flow["flow"] for flow in job["receive"]}
        return {"sent_bytes": {flow["flow"]: self._sent_bytes[flow["flow"]] for flow in job["send"]},
                "received_bytes": {flow["flow"]: self._read[flow["flow"]].checked_bytes for flow in job["receive"]},
                "delivered_us": {flow: at_us for flow, at_us in self._delivered_us.items() if flow in received}}

    def sent(self, end: End, size: int) -> None:
        """So many bytes more were written."""
        self._sent_bytes[end.flow["flow"]] += size

    def read(self, end: End) -> None:
        """What a receiver reads is noted in its tally: all of it is compared."""
        self._read[end.flow["flow"]] = end.tally

    def delivered(self, end: End) -> None:
        """All has arrived, now."""
        self._delivered_us[end.flow["flow"]] = (now_ns() - self.t0_ns) // 1000


class Reader:
    """What a receiver compares with, and where in it the flow is."""

    def __init__(self, end: End, pattern: Pattern, counts: Counts) -> None:
        counts.read(end)
        self._tally, self._differs, self._pattern_at = end.tally, differs, pattern.address
        self._place = phase(end.flow["flow"])

    def got(self, address: int, size: int) -> None:
        """The next so many bytes of the flow are at an address."""
        tally, place = self._tally, self._place
        if self._differs(address, self._pattern_at + place, size):
            tally.note_wrong(0, tally.checked_bytes)
        tally.checked_bytes += size
        self._place = (place + size) % PERIOD


def name(flow: Order, role: str) -> str:
    """What an end is called in errors."""
    return f"flow {flow['flow']}, {_END[role]}"


def buffer_bytes(receivers: int) -> int:
    """How much each of so many receivers reads at a time at most."""
    return max(_LEAST_BUFFER_BYTES, min(_MOST_BUFFER_BYTES, _BUFFERS_BYTES // max(1, receivers)))


def buffers(receivers: int, size: int) -> mmap.mmap:
    """Memory for all of them: there at once, as page by page it is dear in a guest."""
    return mmap.mmap(-1, max(1, receivers) * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)


def buffers_mb(receivers: int) -> int:
    """How much memory that is."""
    return -(-receivers * buffer_bytes(receivers) >> 20)


def was_reset(connection: socket.socket) -> bool:
    """Whether what looks like the end of a stream was none."""
    state, = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    return state == _TCP_CLOSE


def listen(flow: Order) -> socket.socket:
    """A socket that waits for the connection of a flow."""
    listener = socket.socket(ip.family(flow["address"]))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _set_cca(listener, flow)
    _set_options(listener, flow)
    _set_segment(listener, flow)
    if "window_bytes" in flow:
        # a buffer that was set keeps the kernel from tuning it, and the window with it
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_WINDOWS * flow["window_bytes"])
        clamp_window(listener, flow)
    listener.bind((flow["address"], flow["port"]))
    listener.listen()
    return listener


def sender(flow: Order) -> socket.socket:
    """A socket of the sender, with its options, that is not connected."""
    connection = socket.socket(ip.family(flow["address"]))
    _set_cca(connection, flow)
    _set_options(connection, flow)
    _set_segment(connection, flow)
    if "sequence_start" in flow:
        _choose_sequence(connection, flow["sequence_start"])
    return connection


def _set_cca(connection: socket.socket, flow: Order) -> None:
    name = flow["cca"]
    if not name:
        return
    try:
        connection.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, name.encode())
    except OSError as problem:
        raise OSError(problem.errno,
                      f"congestion control {name!r} of flow {flow['flow']}: {problem.strerror}") from None


def _set_options(of: socket.socket, flow: Order) -> None:
    """The options of its variant; what a listener has, its connections have, too."""
    for name, level, number, value in flow.get("options", ()):
        try:
            of.setsockopt(level, number, struct.pack("=I", value % (1 << 32)))
        except OSError as problem:
            raise OSError(problem.errno, sockets.refused_option(
                name, value, f"flow {flow['flow']}", problem.errno)) from None


def _set_segment(of: socket.socket, flow: Order) -> None:
    if "maxseg" in flow:
        of.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, flow["maxseg"])


def clamp_window(of: socket.socket, flow: Order) -> None:
    """Let no more be in flight, where the flow says so. To be said again after the first read: the kernel puts another
    clamp in its place when it sees how much memory segments take."""
    if "window_bytes" in flow:
        of.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, flow["window_bytes"])


def _choose_sequence(connection: socket.socket, first: int) -> None:
    """Let the first byte of data have sequence number `first`: the SYN has the one before it.

    connect() keeps a number that was put there in repair mode, unless it is 0.
    """
    for option, value in ((_TCP_REPAIR, 1), (_TCP_REPAIR_QUEUE, _TCP_SEND_QUEUE),
                          (_TCP_QUEUE_SEQ, (first - 1) % (1 << 32)), (_TCP_REPAIR, _REPAIR_OFF_WITHOUT_PROBE)):
        connection.setsockopt(socket.IPPROTO_TCP, option, struct.pack("=I", value % (1 << 32)))
