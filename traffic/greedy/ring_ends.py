# SPDX-License-Identifier: GPL-2.0-only
"""The ends of flows that an io_uring drives (ring.py), each with the operation of it that is under way.

In a guest a system call is dear. So sockets are plain descriptors, and what they are told and asked goes into the ring
together with the read or write that follows.
"""
from __future__ import annotations

import ctypes
import mmap
import os
import socket

from topologies import ip
from traffic import sockets
from traffic.greedy import ends
from traffic.payload import LONGEST_BYTES, phase
from traffic.shared import words
from traffic.uring import LINK, QUIET

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import Any

    from traffic.greedy.ring import RingFlows

#: what a completion is about: number of the end << KIND_BITS | kind
TIMER, IGNORED, ACCEPT, READ, CONNECT, WRITE, WAIT_FOR_CLOSE = range(7)
KIND_BITS = 3
#: a window that was found unchanged so many times, each time after a window (or 8 reads of a larger one), is steady;
#: what is found is the window as it was one look before
_STEADY_LOOKS = 3
#: a full segment; the window is known only after it
_FIRST_READ_BYTES = 1448


class Answers:
    """Memory in which the ring writes what sockets say of themselves; without `asks` they are asked by system calls."""

    _BYTES = sockets.TCP_CA_NAME_MAX + ends.STATE_AND_WINDOW.size

    def __init__(self, all_ends: int, asks: bool) -> None:
        self.asks = asks
        self._memory = mmap.mmap(-1, all_ends * self._BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._at = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))

    def ask_cca(self, flows: RingFlows, number: int, fd: int) -> None:
        """Have the name of a connected socket's congestion control noted."""
        if self.asks:
            flows.ring.option(fd, socket.IPPROTO_TCP, sockets.TCP_CONGESTION, self._at + number * self._BYTES,
                              sockets.TCP_CA_NAME_MAX, QUIET, IGNORED)
        else:
            at, name = number * self._BYTES, sockets.cca_of(fd)
            self._memory[at:at + len(name)] = name

    def of_window(self, number: int) -> int:
        """The address at which a socket's state and receive window are noted."""
        return self._at + number * self._BYTES + sockets.TCP_CA_NAME_MAX

    def ask_window(self, flows: RingFlows, number: int, fd: int) -> None:
        """Have a socket's receive window noted."""
        at = number * self._BYTES + sockets.TCP_CA_NAME_MAX
        if self.asks:
            flows.ring.option(fd, socket.IPPROTO_TCP, socket.TCP_INFO, self.of_window(number),
                              ends.STATE_AND_WINDOW.size, QUIET, IGNORED)
        else:
            with socket.socket(fileno=os.dup(fd)) as connection:
                ends.STATE_AND_WINDOW.pack_into(self._memory, at, 0, ends.receive_window(connection))

    def cca(self, number: int) -> bytes:
        """The name, with zeros behind it; zeros alone of an end that was never connected."""
        return self._memory[number * self._BYTES:number * self._BYTES + sockets.TCP_CA_NAME_MAX]

    def window(self, number: int) -> int:
        """The most that a receiver announced when it was asked last."""
        _, window = ends.STATE_AND_WINDOW.unpack_from(self._memory, number * self._BYTES + sockets.TCP_CA_NAME_MAX)
        assert isinstance(window, int)
        return window


class Reads(ctypes.Structure):
    """What a receiver reads; struct shared_receiver of reads.c.

    own: the library, where it is, may decide what follows the connection and reads; asked: bytes of a read that the
    same one follows, or 0; window: what was announced; a look at it is due after so many reads (looks_after), and it
    was found unchanged `looks` times; told: address of what the socket says of itself. From `place` on, what the
    library has found.
    """
    _fields_ = words("own", "fd", "asked", "reads", "looks", "looks_after", "since_ns", "window", "low_water", "buffer",
                     "told", "place", "checked_bytes", "wrong_pieces", "first_wrong")


class Receiver:
    """A receiver."""

    def __init__(self, flows: RingFlows, number: int, end: ends.End, listener: socket.socket, buffer_at: int) -> None:
        self.end, self.number, self.ending, self._taking = end, number, False, False
        self._flows, self._listener = flows, listener
        self.reads = flows.reads[number]
        self.reads.fd, self.reads.looks_after, self.reads.low_water = -1, 1, 1
        self.reads.buffer, self.reads.told = buffer_at, flows.answers.of_window(number)
        self.reader = ends.Reader(end, flows.pattern, flows.counts)
        self._left = end.flow.get("bytes")
        self._low_water = ctypes.c_int.from_buffer(self.reads, Reads.low_water.offset)
        self._operation = b""                       # the read that is to follow, if it is the same as the last one

    def accept(self) -> None:
        """Wait for the connection."""
        self._flows.ring.make_room()
        self._submit(self._flows.ring.accept, self._listener.fileno(), 0, 0, kind=ACCEPT)
        self.reads.own = self._flows.answers.asks and not {"bytes", "window_bytes"} & self.end.flow.keys()

    def went_on(self, size: int) -> bool:
        """If a read of so many bytes is over and the same follows, as most do: take them and ask for it."""
        if size != self.reads.asked or self.reads.reads + 1 >= self.reads.looks_after:
            return False
        self._flows.took(self, size)
        self._flows.ring.repeat(self._operation)
        return True

    def completed(self, kind: int, result: int) -> None:
        """The operation is over."""
        if result < 0:
            if self.ending:
                return
            raise OSError(-result, f"flow {self.end.flow['flow']}: {os.strerror(-result)}")
        self._flows.ring.make_room()
        if kind == ACCEPT:
            self.reads.fd, self.reads.since_ns = result, self._flows.now_ns
            self._flows.connected_ns = max(self._flows.connected_ns, self._flows.now_ns)
            self._flows.answers.ask_cca(self._flows, self.number, result)
        elif not self._got(result):
            return
        if not self.ending:
            self._read()
        elif self._taking:
            self.take_rest()        # the end of the stream may come next

    def _got(self, size: int) -> bool:
        """So much was read, 0 at the end of the stream. Whether there is more to come."""
        if self.reads.reads == 0:
            self._clamp()
        if size:
            self._flows.took(self, size)
            if self._left is not None:
                self._left -= size
            if self._left != 0:
                return True
        elif self._was_reset():
            raise ConnectionResetError(f"flow {self.end.flow['flow']}: its connection was reset")
        self._flows.counts.delivered(self.end)
        self._flows.ring.close_socket(self.reads.fd, QUIET, IGNORED)
        self.reads.fd = -1
        return False

    def _clamp(self) -> None:
        if "window_bytes" in self.end.flow:
            with socket.socket(fileno=os.dup(self.reads.fd)) as connection:
                ends.clamp_window(connection, self.end.flow)

    def _was_reset(self) -> bool:
        with socket.socket(fileno=os.dup(self.reads.fd)) as connection:
            return ends.was_reset(connection)

    def _read(self) -> None:
        flows, reads, most = self._flows, self.reads, self._flows.most_bytes
        low_water, size = 1, _FIRST_READ_BYTES
        if reads.reads:
            if reads.reads >= reads.looks_after:
                self._look()
            low_water = min(most, ends.share(reads.window, ends.STEADY if self._steady else ends.GROWING))
            size = min(reads.window, most)
        if self._left is not None:
            # of the last byte the instant matters: less than the low-water mark would wait for more
            size = min(size, self._left - low_water)
            if size < low_water:
                size = low_water = min(low_water, self._left)
        flows.answers.ask_window(flows, self.number, reads.fd)
        if low_water != reads.low_water:
            reads.low_water = low_water
            flows.ring.set_option(reads.fd, socket.SOL_SOCKET, socket.SO_RCVLOWAT, self._low_water, LINK | QUIET,
                                  self.number << KIND_BITS | READ)
        self._submit(flows.ring.receive, reads.fd, reads.buffer, size, 0, kind=READ)
        alike = reads.reads and self._left is None and reads.window > most      # until the window is looked at again
        reads.asked, self._operation = (size, flows.ring.last()) if alike else (0, b"")

    @property
    def _steady(self) -> bool:
        return bool(self.reads.looks >= _STEADY_LOOKS)

    def _look(self) -> None:
        """At the window, as it was one look before: it grows in slow start."""
        reads, window = self.reads, max(1, self._flows.answers.window(self.number))
        reads.looks = reads.looks + 1 if window == reads.window and reads.reads > 2 else 0
        reads.window = window
        in_reads = max(1, window // self._flows.most_bytes)
        reads.looks_after = reads.reads + (ends.READS_BETWEEN if self._steady else min(ends.READS_BETWEEN, in_reads))

    def take_rest(self) -> None:
        """Read what there is."""
        self._taking = True
        if self.reads.fd >= 0:
            self._flows.ring.make_room()
            self._submit(self._flows.ring.receive_now, self.reads.fd, self.reads.buffer, self._flows.most_bytes, 0,
                         kind=READ)

    def _submit(self, operation: Any, *arguments: Any, kind: int) -> None:
        self._flows.submit(operation, *arguments, number=self.number << KIND_BITS | kind)


class Sender:
    """A sender."""

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
        self._flows.ring.make_room()
        self._submit(self._flows.ring.connect, connection.fileno(), address, flow["port"], 0, kind=CONNECT)

    def stop(self) -> None:
        """Write nothing more. What is written is still sent: that takes closing, once the write is over."""
        self.ending = True
        if self._connection:
            self._flows.ring.make_room()
            self._flows.ring.cancel(self.number << KIND_BITS | self._under_way, IGNORED)

    def completed(self, kind: int, result: int) -> None:
        """The operation is over."""
        connection, flows = self._connection, self._flows
        assert connection
        if result < 0 and not self.ending:
            raise OSError(-result, f"flow {self.end.flow['flow']}: {os.strerror(-result)}")
        flows.ring.make_room()
        if kind == CONNECT and result >= 0:
            flows.answers.ask_cca(flows, self.number, connection.fileno())
        elif kind == WRITE and result > 0:
            self._place = flows.pattern.after(self._place, result)
            flows.counts.sent(self.end, result)
            if self._left is not None:
                self._left -= result
        if self.ending or kind == WAIT_FOR_CLOSE:
            flows.ring.close_socket(connection.detach(), QUIET, IGNORED)
            self._connection = None
        elif self._left == 0:
            # the receiver closes when it has everything; until then the socket is there to be sampled
            self._submit(flows.ring.receive_end, connection.fileno(), 0, kind=WAIT_FOR_CLOSE)
        else:
            size = LONGEST_BYTES if self._left is None else min(self._left, LONGEST_BYTES)
            self._submit(flows.ring.send, connection.fileno(), flows.pattern.address + self._place, size, 0, kind=WRITE)

    def _submit(self, operation: Any, *arguments: Any, kind: int) -> None:
        self._under_way = kind
        self._flows.submit(operation, *arguments, number=self.number << KIND_BITS | kind)
