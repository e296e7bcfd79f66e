# SPDX-License-Identifier: GPL-2.0-only
"""Drives flows over plain sockets, all ends of a node by one io_uring.

A read or write of the ring completes when all of it is done. What wakes a receiver for a share of its window, and a
sender for room in its buffer, is taken up inside the kernel: the program runs once for many packets, and has one thread
for all flows. threads.py does the same with a thread for each end, which runs for every share.
"""
from __future__ import annotations

import ctypes
import os
import socket
from heapq import heapify, heappop

from topologies import ip
from traffic.clock import now_ns
from traffic.greedy import ends
from traffic.payload import LONGEST_BYTES, Pattern, phase
from traffic.uring import Ring

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import Any

_LEAST_ENTRIES, _MOST_ENTRIES = 64, 4096
#: a window that was found unchanged so many times (after each window, or each 4 MB of a larger one) is taken for steady
_STEADY_LOOKS = 2
# what a completion is about: number of the end << 3 | kind
_TIMER, _IGNORED, _ACCEPT, _READ, _CONNECT, _WRITE, _WAIT_FOR_CLOSE = range(7)
_KIND_BITS = 3
_START, _STOP, _END = range(3)


def make_ring(flow_ends: int) -> Ring:
    """A ring for so many ends. Raises OSError if there can be none."""
    entries = max(_LEAST_ENTRIES, min(_MOST_ENTRIES, 1 << (2 * flow_ends - 1).bit_length()))
    return Ring(entries)


class RingFlows:
    """All flows that begin or end on a node."""

    def __init__(self, ring: Ring, all_ends: list[ends.End], listeners: list[socket.socket], counts: ends.Counts,
                 pattern: Pattern) -> None:
        """listeners: those of the receivers, in their order."""
        self.ring, self.counts, self.pattern = ring, counts, pattern
        ring.send_from(pattern.address, pattern.size)
        self.under_way = 0      # operations of ends
        receivers = sum(end.role == "receive" for end in all_ends)
        self.most_bytes = ends.buffer_bytes(receivers)
        self._memory = ends.buffers(receivers, self.most_bytes)
        first = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        waiting = iter(enumerate(listeners))
        self._ends: list[_Sender | _Receiver] = []
        self._receivers: dict[int, _Receiver] = {}          # by number
        for number, end in enumerate(all_ends):
            if end.role == "send":
                self._ends.append(_Sender(self, number, end))
            else:
                place, listener = next(waiting)
                self._receivers[number] = _Receiver(self, number, end, listener, first + place * self.most_bytes)
                self._ends.append(self._receivers[number])

    def run(self, t0_ns: int, end_ns: int) -> None:
        """From t0 until the end."""
        instants = [(end_ns, _END, 0)]
        for end in self._ends:
            if isinstance(end, _Receiver):
                end.accept()
            else:
                flow = end.end.flow
                instants += [(t0_ns + flow["start_us"] * 1000, _START, end.number),
                             (t0_ns + flow["stop_us"] * 1000, _STOP, end.number)]
        heapify(instants)
        self.ring.at(instants[0][0], 0, _TIMER)
        while True:
            if not self._take_completions():
                continue
            while instants[0][0] <= now_ns():
                _, what, of = heappop(instants)
                if what == _END:
                    self._end()
                    return
                end = self._ends[of]
                assert isinstance(end, _Sender)
                end.start() if what == _START else end.stop()
            self.ring.make_room()
            self.ring.at(instants[0][0], 0, _TIMER)

    def _take_completions(self) -> bool:
        """Wait for some; whether an instant has come."""
        timer = False
        for number, result in self.ring.submit_and_wait():
            kind = number & (1 << _KIND_BITS) - 1
            if kind == _READ and self._receivers[number >> _KIND_BITS].went_on(result):
                continue
            if kind == _TIMER:
                timer = True
            elif kind != _IGNORED:
                self.under_way -= 1
                self._ends[number >> _KIND_BITS].completed(kind, result)
        return timer

    def submit(self, operation: Any, *arguments: Any, number: int) -> None:
        """Hand over an operation of an end."""
        self.ring.make_room()
        operation(*arguments, number)
        self.under_way += 1

    def _end(self) -> None:
        """Reads and writes that are under way say how far they came; then receivers take what was less than they wait
        for, so that it is compared."""
        for end in self._ends:
            end.ending = True
        self.ring.make_room()
        self.ring.cancel_everything(_IGNORED)
        self._finish()
        for end in self._ends:
            if isinstance(end, _Receiver):
                end.take_rest()         # until there is nothing: each read that found some is followed by another
        self._finish()

    def _finish(self) -> None:
        """Until nothing is under way."""
        while self.under_way:
            self._take_completions()


class _Receiver:
    """A receiver, and the operation of it that is under way."""

    def __init__(self, flows: RingFlows, number: int, end: ends.End, listener: socket.socket, buffer_at: int) -> None:
        self.end, self.number, self.ending, self._taking = end, number, False, False
        self._flows, self._listener, self._buffer_at = flows, listener, buffer_at
        self._connection: socket.socket | None = None
        self._reader = ends.Reader(end, flows.pattern, flows.counts)
        self._left = end.flow.get("bytes")
        self._reads = self._window = self._looks = self._low_water = self._asked = 0
        self._operation: bytes | None = None        # the read that is to follow, if it is the same as the last one

    def accept(self) -> None:
        """Wait for the connection."""
        self._submit(self._flows.ring.accept, self._listener.fileno(), 0, 0, kind=_ACCEPT)

    def went_on(self, size: int) -> bool:
        """If a read of so many bytes is over and the same follows, as most do: take them and ask for it."""
        if size != self._asked or not self._operation or self.ending or (self._reads + 1) % ends.READS_BETWEEN == 0:
            return False
        self._reads += 1
        self._reader.got(self._buffer_at, size)
        self._flows.ring.repeat(self._operation)
        return True

    def completed(self, kind: int, result: int) -> None:
        """The operation is over."""
        if result < 0:
            if self.ending:
                return
            raise OSError(-result, f"flow {self.end.flow['flow']}: {os.strerror(-result)}")
        if kind == _ACCEPT:
            # type and protocol are known: two system calls less
            self._connection = socket.socket(self._listener.family, socket.SOCK_STREAM, socket.IPPROTO_TCP, result)
            self.end.note_cca(self._connection)
        elif not self._got(result):
            return
        if not self.ending:
            self._read()
        elif self._taking:
            self.take_rest()

    def _got(self, size: int) -> bool:
        """So much was read, 0 at the end of the stream. Whether there is more to come."""
        connection = self._connection
        assert connection
        if self._reads == 0:
            ends.clamp_window(connection, self.end.flow)
        self._reads += 1
        if size:
            self._reader.got(self._buffer_at, size)
            if self._left is not None:
                self._left -= size
            if self._left != 0:
                return True
        elif ends.was_reset(connection):
            raise ConnectionResetError(f"flow {self.end.flow['flow']}: its connection was reset")
        self._flows.counts.delivered(self.end)
        self._close()
        return False

    def _read(self) -> None:
        connection = self._connection
        assert connection
        most = self._flows.most_bytes
        # once a window, which grows in slow start; now and then where a read is a small part of it
        if self._reads % ends.READS_BETWEEN == 0 or self._window <= most:
            window = ends.receive_window(connection)
            self._looks = self._looks + 1 if window == self._window and self._reads > 1 else 0
            self._window = window
        low_water = min(most, ends.share(self._window, ends.STEADY if self._looks >= _STEADY_LOOKS else ends.GROWING))
        size = min(self._window, most) if self._reads else low_water
        if self._left is not None:
            # of the last byte the instant matters: less than the low-water mark would wait for more
            size = min(size, self._left - low_water)
            if size < low_water:
                size = low_water = min(low_water, self._left)
        if low_water != self._low_water:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low_water)
            self._low_water = low_water
        self._submit(self._flows.ring.receive, connection.fileno(), self._buffer_at, size, 0, kind=_READ)
        alike = self._reads and self._left is None and self._window > most      # until the window is looked at again
        self._asked, self._operation = size, self._flows.ring.last() if alike else None

    def take_rest(self) -> None:
        """Read what there is."""
        self._taking = True
        if self._connection:
            self._submit(self._flows.ring.receive_now, self._connection.fileno(), self._buffer_at,
                         self._flows.most_bytes, 0, kind=_READ)

    def _close(self) -> None:
        assert self._connection
        self._connection.close()
        self._connection = None

    def _submit(self, operation: Any, *arguments: Any, kind: int) -> None:
        self._flows.submit(operation, *arguments, number=self.number << _KIND_BITS | kind)


class _Sender:
    """A sender, and the operation of it that is under way."""

    def __init__(self, flows: RingFlows, number: int, end: ends.End) -> None:
        self.end, self.number, self.ending = end, number, False
        self._flows = flows
        self._connection: socket.socket | None = None
        self._under_way = 0         # kind of the operation
        self._place = phase(end.flow["flow"])
        self._left = end.flow.get("bytes")

    def start(self) -> None:
        """Connect."""
        flow = self.end.flow
        self._connection = connection = ends.sender(flow)
        address = socket.inet_pton(ip.family(flow["address"]), flow["address"])
        self._submit(self._flows.ring.connect, connection.fileno(), address, flow["port"], 0, kind=_CONNECT)

    def stop(self) -> None:
        """Write nothing more. What is written is still sent: that takes closing, once the write is over."""
        self.ending = True
        if self._connection:
            self._flows.ring.make_room()
            self._flows.ring.cancel(self.number << _KIND_BITS | self._under_way, _IGNORED)

    def completed(self, kind: int, result: int) -> None:
        """The operation is over."""
        connection = self._connection
        assert connection
        if result < 0 and not self.ending:
            raise OSError(-result, f"flow {self.end.flow['flow']}: {os.strerror(-result)}")
        if kind == _CONNECT and result >= 0:
            self.end.note_cca(connection)
        elif kind == _WRITE and result > 0:
            self._place = self._flows.pattern.after(self._place, result)
            self._flows.counts.sent(self.end, result)
            if self._left is not None:
                self._left -= result
        if self.ending or kind == _WAIT_FOR_CLOSE:
            connection.close()
            self._connection = None
        elif self._left == 0:
            # the receiver closes when it has everything; until then the socket is there to be sampled
            self._submit(self._flows.ring.receive_end, connection.fileno(), 0, kind=_WAIT_FOR_CLOSE)
        else:
            size = LONGEST_BYTES if self._left is None else min(self._left, LONGEST_BYTES)
            self._submit(self._flows.ring.send, connection.fileno(), self._flows.pattern.address + self._place, size,
                         0, kind=_WRITE)

    def _submit(self, operation: Any, *arguments: Any, kind: int) -> None:
        self._under_way = kind
        self._flows.submit(operation, *arguments, number=self.number << _KIND_BITS | kind)
