# SPDX-License-Identifier: GPL-2.0-only
"""The ends of flows that an io_uring drives (ring.py), each with what it has under way: one operation, or a chain of
which one completes.

In a guest a system call is dear. So sockets are plain descriptors, and what they are told and asked goes into the ring
together with the read or write that follows.
"""
from __future__ import annotations

import ctypes
import mmap
import os
import socket

from testbed.core import ip
from traffic.greedy import ends
from traffic.io import sockets
from traffic.io.payload import LONGEST_BYTES, phase
from traffic.io.uring import LINK, QUIET

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from collections.abc import Callable

    from traffic.greedy.ring import RingFlows

#: what a completion is about: number of the end << KIND_BITS | kind
TIMER, IGNORED, ACCEPT, READ, CONNECT, WRITE, WAIT_FOR_CLOSE = range(7)
KIND_BITS = 3
#: operations of a sender's start: connection, question, write
CHAIN = 3
#: of a flow with a window of its own, which is set again after it
_FIRST_READ_BYTES = 1


class Answers:
    """Memory in which the ring writes what sockets say of themselves; without `asks` they are asked by system calls."""

    _BYTES = sockets.TCP_CA_NAME_MAX

    def __init__(self, all_ends: int, asks: bool) -> None:
        self.asks = asks
        self._memory = mmap.mmap(-1, all_ends * self._BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._at = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))

    def ask_cca(self, flows: RingFlows, number: int, fd: int, flags: int = QUIET, failure: int = IGNORED) -> None:
        """Have the name of a connected socket's congestion control noted; failure: number of a completion that says it
        could not be."""
        if self.asks:
            flows.ring.option(fd, socket.IPPROTO_TCP, sockets.TCP_CONGESTION, self._at + number * self._BYTES,
                              sockets.TCP_CA_NAME_MAX, flags, failure)
        else:
            at, name = number * self._BYTES, sockets.cca_of(fd)
            self._memory[at:at + len(name)] = name

    def cca(self, number: int) -> bytes:
        """The name, with zeros behind it; zeros alone of an end that was never connected."""
        return self._memory[number * self._BYTES:(number + 1) * self._BYTES]


class Receiver:
    """A receiver."""

    def __init__(self, flows: RingFlows, number: int, end: ends.End, listener: socket.socket, buffer_at: int) -> None:
        self.end, self.number, self.ending, self._taking = end, number, False, False
        self._flows, self._listener = flows, listener
        self._fd, self._buffer_at = -1, buffer_at
        self.reader = ends.Reader(end, flows.pattern, flows.counts)
        self._left = end.flow.get("bytes")
        self._to_clamp = "window_bytes" in end.flow

    def accept(self) -> None:
        """Wait for the connection."""
        self.end.note_birth(self._listener)
        self._flows.ring.make_room()
        self._submit(self._flows.ring.accept, self._listener.fileno(), 0, 0, kind=ACCEPT)

    def completed(self, kind: int, result: int) -> None:
        """The operation is over."""
        if result < 0:
            if self.ending:
                return
            raise OSError(-result, f"flow {self.end.flow['flow']}: {os.strerror(-result)}")
        self._flows.ring.make_room()
        if kind == ACCEPT:
            self._fd = result
            self._flows.answers.ask_cca(self._flows, self.number, result)
        elif not self._got(result):
            return
        if not self.ending:
            self._read()
        elif self._taking:
            self.take_rest()        # the end of the stream may come next

    def _got(self, size: int) -> bool:
        """So much was read, 0 at the end of the stream. Whether there is more to come."""
        if self._to_clamp:
            self._to_clamp = False
            with socket.socket(fileno=os.dup(self._fd)) as connection:
                ends.clamp_window(connection, self.end.flow)
        if size:
            self.reader.got(self._buffer_at, size)
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

    def _was_reset(self) -> bool:
        with socket.socket(fileno=os.dup(self._fd)) as connection:
            return ends.was_reset(connection)

    def _read(self) -> None:
        """The kernel reads whatever comes as soon as it comes, as an application does that reads all the time (an
        acknowledgement may depend on that), and few of these reads are over in a second."""
        size = _FIRST_READ_BYTES if self._to_clamp else self._flows.most_bytes
        self._submit(self._flows.ring.receive, self._fd, self._buffer_at,
                     size if self._left is None else min(size, self._left), 0, kind=READ)

    def take_rest(self) -> None:
        """Read what there is."""
        self._taking = True
        if self._fd >= 0:
            self._flows.ring.make_room()
            self._submit(self._flows.ring.receive_now, self._fd, self._buffer_at, self._flows.most_bytes, 0, kind=READ)

    def _submit(self, operation: Callable[..., None], *arguments: int | bytes, kind: int) -> None:
        self._flows.submit(operation, *arguments, number=self.number << KIND_BITS | kind)


class Sender:
    """A sender."""

    def __init__(self, flows: RingFlows, number: int, end: ends.End) -> None:
        self.end, self.number, self.ending = end, number, False
        self._flows = flows
        self._connection: socket.socket | None = None
        self._to_cancel: tuple[int, ...] = ()       # kinds of operations that a stop finds under way
        self._place = phase(end.flow["flow"])
        self._left = end.flow.get("bytes")

    def start(self) -> None:
        """Connect."""
        flow = self.end.flow
        self._connection = connection = ends.sender(flow)
        self.end.note_birth(connection)
        fd, flows, connect = connection.fileno(), self._flows, self.number << KIND_BITS | CONNECT
        address = socket.inet_pton(ip.family(flow["address"]), flow["address"])
        flows.ring.make_room()
        if not flows.answers.asks:
            self._submit(flows.ring.connect, fd, address, flow["port"], 0, kind=CONNECT)
            return
        # one chain, with one completion: nobody has to be woken for the connection. What fails before the write says so
        # instead of it. That the question may wait in a chain is due to kernel/patches/speed/0008, too
        flows.ring.connect(fd, address, flow["port"], LINK | QUIET, connect)
        flows.answers.ask_cca(flows, self.number, fd, LINK | QUIET, connect)
        self._write()
        self._to_cancel = CONNECT, WRITE            # whichever the chain has come to

    def stop(self) -> None:
        """Write nothing more. What is written is still sent: that takes closing, once the write is over."""
        self.ending = True
        if self._connection:
            self._flows.ring.make_room()
            for kind in self._to_cancel:
                self._flows.ring.cancel(self.number << KIND_BITS | kind, IGNORED)

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
            self._write()

    def _write(self) -> None:
        assert self._connection
        size = LONGEST_BYTES if self._left is None else min(self._left, LONGEST_BYTES)
        self._submit(self._flows.ring.send, self._connection.fileno(), self._flows.pattern.address + self._place, size,
                     0, kind=WRITE)

    def _submit(self, operation: Callable[..., None], *arguments: int | bytes, kind: int) -> None:
        self._to_cancel = (kind,)
        self._flows.submit(operation, *arguments, number=self.number << KIND_BITS | kind)
