# SPDX-License-Identifier: GPL-2.0-only
"""Drives flows over plain sockets, all ends of a node by one io_uring.

A read or write of the ring completes when all of it is done. What wakes a receiver for a packet, and a sender for room
in its buffer, is taken up inside the kernel: the program runs once for many packets, and has one thread for all flows.
threads.py does the same with a thread for each end.
"""
from __future__ import annotations

import ctypes
import socket
import time
from heapq import heapify, heappop

from traffic.greedy import ends
from traffic.greedy.ring_ends import CHAIN, IGNORED, KIND_BITS, TIMER, Answers, Receiver, Sender
from traffic.io.clock import now_ns
from traffic.io.payload import Pattern
from traffic.io.uring import Ring, may_ask

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from collections.abc import Callable

_LEAST_ENTRIES, _MOST_ENTRIES = 64, 4096
_START, _STOP, _END = range(3)
#: of a read: fewer segments, if they have 536 bytes or more, than those after which the kernel has a thread of its own
#: go on with it (io_uring/poll.c, APOLL_MAX_RETRY)
_MOST_READ_BYTES = 1 << 16


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
        with socket.socket() as unconnected:
            self.answers = Answers(len(all_ends), may_ask(ring, unconnected.fileno(), IGNORED))
        self.under_way = 0      # completions of ends that are to come; a chain has one
        receivers = sum(end.role == "receive" for end in all_ends)
        self.most_bytes = min(ends.buffer_bytes(receivers), _MOST_READ_BYTES)
        self._memory = ends.buffers(receivers, self.most_bytes)
        first = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        waiting = iter(enumerate(listeners))
        self._ends: list[Sender | Receiver] = []
        for number, end in enumerate(all_ends):
            if end.role == "send":
                self._ends.append(Sender(self, number, end))
            else:
                place, listener = next(waiting)
                self._ends.append(Receiver(self, number, end, listener, first + place * self.most_bytes))

    def run(self, t0_ns: int, end_ns: int) -> None:
        """From t0 until the end."""
        instants = [(end_ns, _END, 0)]
        for end in self._ends:
            if isinstance(end, Receiver):
                end.accept()
            else:
                flow = end.end.flow
                instants += [(t0_ns + flow["start_us"] * 1000, _START, end.number),
                             (t0_ns + flow["stop_us"] * 1000, _STOP, end.number)]
        heapify(instants)
        self.ring.at(instants[0][0], 0, TIMER)
        while True:
            if not self._take_completions():
                continue
            begun: set[int] = set()         # numbers of senders
            while instants[0][0] <= now_ns():
                _, what, of = heappop(instants)
                if what == _END:
                    self._end()
                    return
                end = self._ends[of]
                assert isinstance(end, Sender)
                if what == _START:
                    begun.add(of)
                    end.start()
                    continue
                if of in begun:
                    # Both are due, as of a program that is late. Of a connection that is made at once, question and
                    # write are left for later, and a stop handed over together with them finds neither
                    for _ in range(CHAIN):
                        self.ring.go_on()
                    begun.clear()
                end.stop()
            self.ring.make_room()
            self.ring.at(instants[0][0], 0, TIMER)

    def _take_completions(self) -> bool:
        """Wait for some; whether an instant has come."""
        timer = False
        for number, result in self.ring.submit_and_wait():
            kind = number & (1 << KIND_BITS) - 1
            timer |= kind == TIMER
            if kind != TIMER and kind != IGNORED:
                self.under_way -= 1
                self._ends[number >> KIND_BITS].completed(kind, result)
        return timer

    def submit(self, operation: Callable[..., None], *arguments: int | bytes, number: int) -> None:
        """Hand over an operation of an end; there has to be room."""
        operation(*arguments, number)
        self.under_way += 1

    def _end(self) -> None:
        """Reads and writes that are under way say how far they came; then receivers take what was less than they wait
        for, so that it is compared."""
        for end in self._ends:
            end.ending = True
        while self.under_way:       # what has only just begun is not found the first time
            self.ring.submit()
            self.ring.cancel_everything(IGNORED)
            self._take_completions()
            if self.under_way:      # by a thread of the kernel, which has to run: its read has taken too many segments
                time.sleep(1e-6)
        for end in self._ends:
            if isinstance(end, Receiver):
                end.take_rest()         # until there is nothing: each read that found some is followed by another
        while self.under_way:
            self._take_completions()
        self.ring.submit()
        for end in self._ends:
            told = self.answers.cca(end.number)
            if told[0]:
                end.end.note_name(told)
