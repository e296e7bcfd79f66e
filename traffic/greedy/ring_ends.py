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

    def ask_window(self, flows: RingFlows, number: int, fd: int) -> None:
        """Have a socket's receive window noted."""
        at = number * self._BYTES + sockets.TCP_CA_NAME_MAX
        if self.asks:
            flows.ring.option(fd, socket.IPPROTO_TCP, socket.TCP_INFO, self._at + at, ends.STATE_AND_WINDOW.size,
                              QUIET, IGNORED)
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


class Receiver:
    """A receiver."""

    def __init__(self, flows: RingFlows, number: int, end: ends.End, listener: socket.socket, buffer_at: int) -> None:
        self.end, self.number, self.ending, self._taking = end, number, False, False
        self._flows, self._listener, self._buffer_at = flows, listener, buffer_at
        self._fd = -1
        self._reader = ends.Reader(end, flows.pattern, flows.counts)
        self._left = end.flow.get("bytes")
        self._reads = self._window = self._looks = self._since_ns = 0
        self._looks_after = 1                       # how many reads
        self._low_water = ctypes.c_int(1)
        self._asked: int | None = None
        self._operation = b""                       # the read that is to follow, if it is the same as the last one

    def accept(self) -> None:
        """Wait for the connection."""
        self._flows.ring.make_room()
        self._submit(self._flows.ring.accept, self._listener.fileno(), 0, 0, kind=ACCEPT)

    def went_on(self, size: int) -> bool:
        """If a read of so many bytes is over and the same follows, as most do: take them and ask for it."""
        if size != self._asked or self._reads + 1 >= self._looks_after:
            return False
        self._took(size)
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
            self._fd, self._since_ns = result, self._flows.now_ns
            self._flows.connected_ns = max(self._flows.connected_ns, self._flows.now_ns)
            self._flows.answers.ask_cca(self._flows, self.number, result)
        elif not self._got(result):
            return
        if not self.ending:
            self._read()
        elif self._taking:
            self.take_rest()        # the end of the stream may come next

    def _took(self, size: int) -> None:
        now_ns = self._flows.now_ns
        self._flows.pace.took(now_ns - self._since_ns)
        self._since_ns = now_ns
        self._reads += 1
        self._reader.got(self._buffer_at, size)

    def _got(self, size: int) -> bool:
        """So much was read, 0 at the end of the stream. Whether there is more to come."""
        if self._reads == 0:
            self._clamp()
        if size:
            self._took(size)
            if self._left is not None:
                self._left -= size
            if self._left != 0:
                return True
        elif self._was_reset():
            raise ConnectionResetError(f"flow {self.end.flow['flow']}: its connection was reset")
        self._flows.counts.delivered(self.end)
        self._flows.ring.close_socket(self._fd, QUIET, IGNORED)
        self._fd = -1
        return False

    def _clamp(self) -> None:
        if "window_bytes" in self.end.flow:
            with socket.socket(fileno=os.dup(self._fd)) as connection:
                ends.clamp_window(connection, self.end.flow)

    def _was_reset(self) -> bool:
        with socket.socket(fileno=os.dup(self._fd)) as connection:
            return ends.was_reset(connection)

    def _read(self) -> None:
        flows, most = self._flows, self._flows.most_bytes
        low_water, size = 1, _FIRST_READ_BYTES
        if self._reads:
            if self._reads >= self._looks_after:
                self._look()
            low_water = min(most, ends.share(self._window, ends.STEADY if self._steady else ends.GROWING))
            size = min(self._window, most)
        if self._left is not None:
            # of the last byte the instant matters: less than the low-water mark would wait for more
            size = min(size, self._left - low_water)
            if size < low_water:
                size = low_water = min(low_water, self._left)
        flows.answers.ask_window(flows, self.number, self._fd)
        if low_water != self._low_water.value:
            self._low_water.value = low_water
            flows.ring.set_option(self._fd, socket.SOL_SOCKET, socket.SO_RCVLOWAT, self._low_water, LINK | QUIET,
                                  self.number << KIND_BITS | READ)
        self._submit(flows.ring.receive, self._fd, self._buffer_at, size, 0, kind=READ)
        alike = self._reads and self._left is None and self._window > most      # until the window is looked at again
        self._asked, self._operation = (size, flows.ring.last()) if alike else (None, b"")

    @property
    def _steady(self) -> bool:
        return self._looks >= _STEADY_LOOKS

    def _look(self) -> None:
        """At the window, as it was one look before: it grows in slow start."""
        window = max(1, self._flows.answers.window(self.number))
        self._looks = self._looks + 1 if window == self._window and self._reads > 2 else 0
        self._window = window
        in_reads = max(1, window // self._flows.most_bytes)
        self._looks_after = self._reads + (ends.READS_BETWEEN if self._steady else min(ends.READS_BETWEEN, in_reads))

    def take_rest(self) -> None:
        """Read what there is."""
        self._taking = True
        if self._fd >= 0:
            self._flows.ring.make_room()
            self._submit(self._flows.ring.receive_now, self._fd, self._buffer_at, self._flows.most_bytes, 0, kind=READ)

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
