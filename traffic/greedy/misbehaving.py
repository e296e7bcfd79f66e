# SPDX-License-Identifier: GPL-2.0-only
"""Receivers that misbehave: a small TCP of our own in place of the kernel's at the receiving end of a flow.

S. Savage, N. Cardwell, D. Wetherall, T. Anderson, TCP congestion control with a misbehaving receiver, ACM SIGCOMM CCR
29(5), 1999:

* divided: each segment is acknowledged in several parts (ACK division);
* optimistic: what has not arrived is acknowledged, too (optimistic ACKing). Holes are concealed, so that the sender
  hears of no loss.

Both answer every segment at once. The divided one is complete otherwise: it takes segments in any order and reports
them (SACK). Neither knows ECN, and neither limits its window unless the flow says so.

The kernel has a socket that listens at the port and hears nothing, so that it does not reset the connection; segments
come and go through a raw socket.
"""
from __future__ import annotations

import ctypes
import socket
import struct

from testbed.core import ip
from traffic.greedy import ends
from traffic.io.clock import now_ns
from traffic.io.payload import PERIOD, Pattern, differs, phase

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from collections.abc import Iterator

_FIN, _SYN, _RST, _ACK = 1, 2, 4, 16
_HEADER = struct.Struct("!HHIIBBHHH")
#: options: the end, nothing, the largest segment, the scale of the window, SACK permitted, SACK, time stamps
_END, _NOTHING, _LARGEST, _SCALE, _MAY_SACK, _SACK, _STAMPS = 0, 1, 2, 3, 4, 5, 8
#: no packet is larger: the sender's own link limits its segments
_LARGEST_SEGMENT = 65495
_WINDOW_SCALE, _MOST_WINDOW = 8, 65535
#: blocks that fit into an acknowledgement beside a time stamp
_BLOCKS = 3
_PACKET_BYTES = 1 << 16
#: segments that come at one instant wait there
_BUFFER_BYTES = 1 << 25
# include/uapi/asm-generic/socket.h
_SO_ATTACH_FILTER, _SO_RCVBUFFORCE = 26, 33
#: a classic BPF program of one instruction: return 0 bytes of each packet
_HEAR_NOTHING = struct.pack("=HBBI", 6, 0, 0, 0)


class Listener(socket.socket):
    """What keeps the port, with the raw socket that segments come through."""
    raw: socket.socket


def listen(listener: socket.socket, flow: ends.Order) -> Listener:
    """Take over what comes to a socket that listens; in its namespace. OSError if the kernel refuses it."""
    program = ctypes.create_string_buffer(_HEAR_NOTHING)
    listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HxxxxxxP", 1, ctypes.addressof(program)))
    made = Listener(fileno=listener.detach())
    made.raw = socket.socket(ip.family(flow["address"]), socket.SOCK_RAW, socket.IPPROTO_TCP)
    made.raw.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    made.raw.bind((flow["address"], 0))
    made.raw.connect((flow["peer"], 0))
    return made


def receive(listener: Listener, end: ends.End, counts: ends.Counts, pattern: Pattern, _buffer: memoryview) -> None:
    """Be the receiver of a flow until the program ends."""
    end.note_birth(listener)
    counts.read(end)
    one = _Receiver(listener.raw, end, counts, pattern)
    memory = bytearray(_PACKET_BYTES)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    with_header = listener.raw.family == socket.AF_INET
    while True:
        size = listener.raw.recv_into(memory)
        at = (memory[0] & 15) * 4 if with_header else 0
        one.take(memory, at, size, address)


class _Receiver:
    """The receiving end of a connection.

    Positions are those in the stream: 0 is the first byte. next: all before it has arrived, or the optimistic receiver
    does as if it had; islands: [begin, end] of what arrived out of order, the latest first.
    """

    def __init__(self, raw: socket.socket, end: ends.End, counts: ends.Counts, pattern: Pattern) -> None:
        self._raw, self._pattern_at, self._tally = raw, pattern.address, end.tally
        self._end, self._counts = end, counts
        self._phase, self._port = phase(end.flow["flow"]), end.flow["port"]
        how = end.flow["receiver"]
        self._parts, self._ahead = how.get("parts", 1), how.get("ahead")
        window = end.flow.get("window_bytes", _MOST_WINDOW << _WINDOW_SCALE)
        self._window = min(_MOST_WINDOW, window), min(_MOST_WINDOW, window >> _WINDOW_SCALE)
        addresses = b"".join(socket.inet_pton(raw.family, one) for one in (end.flow["address"], end.flow["peer"]))
        self._pseudo = _sum(addresses) + socket.IPPROTO_TCP
        self._peer_port = 0                     # until it connects
        self._first = 0                         # sequence number of position 0
        self._next = 0
        self._islands: list[list[int]] = []
        self._sack = self._stamps = False
        self._echo = self._largest = 0
        self._ended = False

    def take(self, memory: bytearray, at: int, size: int, address: int) -> None:
        """Take what came, from the TCP header at `at` on, if it is of the flow; address: of the memory."""
        sport, dport, number, _, words, flags, *_ = _HEADER.unpack_from(memory, at)
        if dport != self._port or flags & _RST or self._peer_port and sport != self._peer_port:
            return
        data = at + (words >> 4) * 4
        options = dict(_options(memory[at + _HEADER.size:data]))
        if flags & _SYN:
            self._connect(sport, number, options)
        if flags & _SYN or not self._peer_port:
            return
        begin = self._next + (number - self._first - self._next + (1 << 31)) % (1 << 32) - (1 << 31)
        end = begin + size - data
        if _STAMPS in options and (begin <= self._next or self._ahead is not None):
            self._echo, = struct.unpack_from("!I", options[_STAMPS])
        if end > begin:
            self._largest = max(self._largest, end - begin)
            if differs(address + data, self._pattern_at + (self._phase + begin) % PERIOD, end - begin):
                self._tally.note_wrong(0, begin)
            (self._optimistic if self._ahead is not None else self._divided)(begin, end)
        if flags & _FIN and (self._ahead is not None or self._next == end):
            self._acknowledge(end + 1, _FIN)
            if not self._ended:
                self._counts.delivered(self._end)
            self._ended = True

    def _connect(self, port: int, number: int, options: dict[int, bytes]) -> None:
        """Answer a request, also one that comes again."""
        self._peer_port, self._first = port, (number + 1) % (1 << 32)
        self._sack, self._stamps = _MAY_SACK in options, _STAMPS in options
        if self._stamps:
            self._echo, = struct.unpack_from("!I", options[_STAMPS])
        said = struct.pack("!BBHBBBB", _LARGEST, 4, _LARGEST_SEGMENT, _NOTHING, _SCALE, 3, _WINDOW_SCALE)
        said += bytes([_NOTHING, _NOTHING, _MAY_SACK, 2]) * self._sack
        self._send(0, _SYN, said, self._window[0])

    def _divided(self, begin: int, end: int) -> None:
        before = self._next
        self._note(begin, end)
        for part in range(1, self._parts + 1) if self._next > before else [1]:
            self._acknowledge(before + (self._next - before) * part // self._parts)

    def _note(self, begin: int, end: int) -> None:
        """A segment has come: what of it is new counts."""
        if end <= self._next:
            return
        begin = max(begin, self._next)
        apart, merged, known = [], [begin, end], 0
        for island in self._islands:
            if island[1] < begin or island[0] > end:
                apart.append(island)
                continue
            known += max(0, min(end, island[1]) - max(begin, island[0]))
            merged = [min(merged[0], island[0]), max(merged[1], island[1])]
        self._tally.checked_bytes += end - begin - known
        if merged[0] == self._next:
            self._next, self._islands = merged[1], apart
        else:
            self._islands = [merged, *apart]

    def _optimistic(self, begin: int, end: int) -> None:
        """What the sender has not sent yet it does not take as acknowledged: so what has come is acknowledged first."""
        self._tally.checked_bytes += max(0, end - max(begin, self._next))
        self._next = max(self._next, end)
        self._acknowledge(self._next)
        if self._ahead:
            self._acknowledge(self._next + self._ahead * self._largest)

    def _acknowledge(self, position: int, flags: int = 0) -> None:
        said = b""
        if self._sack and self._islands:
            blocks = self._islands[:_BLOCKS]
            said = struct.pack(f"!BBBB{2 * len(blocks)}I", _NOTHING, _NOTHING, _SACK, 2 + 8 * len(blocks), *(
                (self._first + edge) % (1 << 32) for block in blocks for edge in block))
        self._send(position, flags, said, self._window[1])

    def _send(self, position: int, flags: int, said: bytes, window: int) -> None:
        if self._stamps:
            said += struct.pack("!BBBBII", _NOTHING, _NOTHING, _STAMPS, 10, now_ns() // 10**6 % (1 << 32), self._echo)
        size = _HEADER.size + len(said)
        fields = (self._port, self._peer_port, 0 if flags & _SYN else 1, (self._first + position) % (1 << 32),
                  size // 4 << 4, flags | _ACK, window)
        total = _sum(_HEADER.pack(*fields, 0, 0) + said) + self._pseudo + size
        total = (total & 0xffff) + (total >> 16)
        total = (total & 0xffff) + (total >> 16)
        self._raw.send(_HEADER.pack(*fields, total ^ 0xffff, 0) + said)


def _sum(data: bytes) -> int:
    return sum(struct.unpack(f"!{len(data) // 2}H", data))


def _options(data: bytearray) -> Iterator[tuple[int, bytes]]:
    """(number, content) of the options of a segment."""
    at = 0
    while at < len(data) and data[at] != _END:
        if data[at] == _NOTHING:
            at += 1
            continue
        yield data[at], bytes(data[at + 2:at + data[at + 1]])
        at += data[at + 1]
