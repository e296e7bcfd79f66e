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

from topologies import ip
from traffic import sockets
from traffic.compiled import words
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

    def ask_cca(self, flows: RingFlows, number: int, fd: int, flags: int = QUIET, failure: int = IGNORED) -> None:
        """Have the name of a connected socket's congestion control noted; failure: number of a completion that says it
        could not be."""
        if self.asks:
            flows.ring.option(fd, socket.IPPROTO_TCP, sockets.TCP_CONGESTION, self._at + number * self._BYTES,
                              sockets.TCP_CA_NAME_MAX, flags, failure)
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


def usual(flow: ends.Order) -> bool:
    """Whether reads of a flow are all alike."""
    return "bytes" not in flow and "window_bytes" not in flow


class SharedReceiver(ctypes.Structure):
    """Where a receiver is; struct shared_receiver of reads.c.

    own: the library, where it is, may decide what follows the connection and reads; asked: bytes of a read that the
    same one follows, or 0; n_reads: how many are over, the last at since_ns; window: bytes that were announced; a look
    at it is due after so many reads (looks_after), and it was found unchanged `looks` times; low_water: bytes for which
    it is woken, the lower half is an int for setsockopt; buffer, told: addresses of what is read, and of what the
    socket says of itself. The library only: place of the next byte in the pattern, and what a Tally has.
    """
    _fields_ = words("own", "fd", "asked", "n_reads", "looks", "looks_after", "since_ns", "window", "low_water",
                     "buffer", "told", "place", "checked_bytes", "wrong_pieces", "first_wrong")


class Receiver:
    """A receiver."""

    def __init__(self, flows: RingFlows, number: int, end: ends.End, listener: socket.socket, buffer_at: int) -> None:
        self.end, self.number, self.ending, self._taking = end, number, False, False
        self._flows, self._listener = flows, listener
        self.shared = flows.receivers[number]
        self.shared.fd, self.shared.looks_after, self.shared.low_water = -1, 1, 1
        self.shared.buffer, self.shared.told = buffer_at, flows.answers.of_window(number)
        self.reader = ends.Reader(end, flows.pattern, flows.counts)
        self._left = end.flow.get("bytes")
        self._low_water = ctypes.c_int.from_buffer(self.shared, SharedReceiver.low_water.offset)
        self._operation = b""                       # the read that is to follow, if it is the same as the last one

    def accept(self) -> None:
        """Wait for the connection."""
        self._flows.ring.make_room()
        self._submit(self._flows.ring.accept, self._listener.fileno(), 0, 0, kind=ACCEPT)
        # it knows no more than the usual: of these the last byte, or the first read, is something else
        self.shared.own = self._flows.answers.asks and usual(self.end.flow)

    def went_on(self, size: int) -> bool:
        """If a read of so many bytes is over and the same follows, as most do: take them and ask for it."""
        if size <= 0 or size != self.shared.asked or self.shared.n_reads + 1 >= self.shared.looks_after:
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
            self.shared.fd, self.shared.since_ns = result, self._flows.now_ns
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
        if self.shared.n_reads == 0:
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
        self._flows.ring.close_socket(self.shared.fd, QUIET, IGNORED)
        self.shared.fd = -1
        return False

    def _clamp(self) -> None:
        if "window_bytes" in self.end.flow:
            with socket.socket(fileno=os.dup(self.shared.fd)) as connection:
                ends.clamp_window(connection, self.end.flow)

    def _was_reset(self) -> bool:
        with socket.socket(fileno=os.dup(self.shared.fd)) as connection:
            return ends.was_reset(connection)

    def _read(self) -> None:
        flows, shared, most = self._flows, self.shared, self._flows.most_bytes
        low_water, size = 1, _FIRST_READ_BYTES
        if shared.n_reads:
            if shared.n_reads >= shared.looks_after:
                self._look()
            low_water = min(most, ends.share(shared.window, ends.STEADY if self._steady else ends.GROWING))
            size = min(shared.window, most)
        if self._left is not None:
            # of the last byte the instant matters: less than the low-water mark would wait for more
            size = min(size, self._left - low_water)
            if size < low_water:
                size = low_water = min(low_water, self._left)
        flows.answers.ask_window(flows, self.number, shared.fd)
        if low_water != shared.low_water:
            shared.low_water = low_water
            flows.ring.set_option(shared.fd, socket.SOL_SOCKET, socket.SO_RCVLOWAT, self._low_water, LINK | QUIET,
                                  self.number << KIND_BITS | READ)
        self._submit(flows.ring.receive, shared.fd, shared.buffer, size, 0, kind=READ)
        # until the window is looked at again
        alike = shared.n_reads and self._left is None and shared.window > most
        shared.asked, self._operation = (size, flows.ring.last()) if alike else (0, b"")

    @property
    def _steady(self) -> bool:
        return bool(self.shared.looks >= _STEADY_LOOKS)

    def _look(self) -> None:
        """At the window, as it was one look before: it grows in slow start."""
        shared, window = self.shared, max(1, self._flows.answers.window(self.number))
        shared.looks = shared.looks + 1 if window == shared.window and shared.n_reads > 2 else 0
        shared.window = window
        in_reads = max(1, window // self._flows.most_bytes)
        between = ends.READS_BETWEEN if self._steady else min(ends.READS_BETWEEN, in_reads)
        shared.looks_after = shared.n_reads + between

    def take_rest(self) -> None:
        """Read what there is."""
        self._taking = True
        if self.shared.fd >= 0:
            self._flows.ring.make_room()
            self._submit(self._flows.ring.receive_now, self.shared.fd, self.shared.buffer, self._flows.most_bytes, 0,
                         kind=READ)

    def _submit(self, operation: Any, *arguments: Any, kind: int) -> None:
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

    def _submit(self, operation: Any, *arguments: Any, kind: int) -> None:
        self._to_cancel = (kind,)
        self._flows.submit(operation, *arguments, number=self.number << KIND_BITS | kind)
