# SPDX-License-Identifier: GPL-2.0-only
"""Drives flows over plain sockets, all ends of a node by one io_uring.

A read or write of the ring completes when all of it is done. What wakes a receiver for a share of its window, and a
sender for room in its buffer, is taken up inside the kernel: the program runs once for many packets, and has one thread
for all flows. threads.py does the same with a thread for each end, which runs for every share.
"""
from __future__ import annotations

import ctypes
import socket
from heapq import heapify, heappop

from traffic.clock import now_ns
from traffic.compiled import words
from traffic.greedy import ends
from traffic.greedy.ring_ends import IGNORED, KIND_BITS, READ, TIMER, Answers, Receiver, Sender, SharedReceiver
from traffic.payload import Pattern
from traffic.uring import Ring, may_ask

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import Any

_LEAST_ENTRIES, _MOST_ENTRIES = 64, 4096
_START, _STOP, _END = range(3)
#: a receiver whose read is over waits at most for this part of the time that the quickest read of all took: at
#: unchanged rates no more than that part of a window lies unread meanwhile. Below the least it is not worth while
_PATIENCE, _LEAST_NS, _MOST_NS = 32, 1_000_000, 50_000_000
#: nobody waits until so long after the last start and the last connection: a window is small at first
_SETTLED_NS = 1_000_000_000


def make_ring(flow_ends: int) -> Ring:
    """A ring for so many ends. Raises OSError if there can be none."""
    entries = max(_LEAST_ENTRIES, min(_MOST_ENTRIES, 1 << (2 * flow_ends - 1).bit_length()))
    return Ring(entries, goes_on=True)


class Pace(ctypes.Structure):
    """How long reads take. Known is the quickest one of as many as a quarter of the receivers, and of those since.

    struct shared_pace of reads.c.
    """
    _fields_ = words("enough", "count", "before_ns", "least_ns")
    enough: int
    count: int
    before_ns: int
    least_ns: int

    def __init__(self, receivers: int) -> None:
        # so long as nothing is known nobody waits
        super().__init__(enough=1 + receivers // 4, least_ns=_PATIENCE * _MOST_NS)

    def took(self, ns: int) -> None:
        """A read took so long."""
        self.least_ns = min(self.least_ns, ns)
        self.count += 1
        if self.count == self.enough:
            self.before_ns, self.least_ns, self.count = self.least_ns, _PATIENCE * _MOST_NS, 0

    def patience_ns(self) -> int:
        """How long what has completed may wait for more."""
        ns = min(self.before_ns, self.least_ns) // _PATIENCE
        return min(ns, _MOST_NS) if ns >= _LEAST_NS else 0


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
        self.most_bytes = ends.buffer_bytes(receivers)
        self._memory = ends.buffers(receivers, self.most_bytes)
        first = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self.receivers = (SharedReceiver * len(all_ends))()         # by number; senders have none of what is in theirs
        waiting = iter(enumerate(listeners))
        self._ends: list[Sender | Receiver] = []
        self._reading: dict[int, Receiver] = {}             # by the number of their reads
        for number, end in enumerate(all_ends):
            if end.role == "send":
                self._ends.append(Sender(self, number, end))
            else:
                place, listener = next(waiting)
                receiver = Receiver(self, number, end, listener, first + place * self.most_bytes)
                self._ends.append(receiver)
                self._reading[number << KIND_BITS | READ] = receiver
        self.pace, self.now_ns, self.connected_ns = Pace(receivers), 0, 0

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
        may_wait = self.may_wait((end_ns - t0_ns) // 1000)
        self.connected_ns = t0_ns + 1000 * max(end.end.flow["start_us"] for end in self._ends)
        while True:
            if may_wait:
                self.ring.wait_for_more(self._patience_ns(instants[0][0]) // 1000)
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
                    # A program that is late: both are due. A connection that is made at once leaves its write for
                    # later, and a stop handed over together with them finds neither
                    self.ring.submit()
                    begun.clear()
                end.stop()
            self.ring.make_room()
            self.ring.at(instants[0][0], 0, TIMER)

    def may_wait(self, duration_us: int) -> bool:
        """Whether reads that are over may wait for others. What senders are told they have to answer at once, and of
        flows that end in the run the instant is noted."""
        flows = [end.end.flow for end in self._ends if isinstance(end, Receiver)]
        return len(flows) == len(self._ends) and all(
            "bytes" not in flow and flow["stop_us"] >= duration_us for flow in flows)

    def _patience_ns(self, next_ns: int) -> int:
        """How long they may wait now, with something else to do at an instant."""
        if self.now_ns <= self.connected_ns + _SETTLED_NS:
            return 0
        patience_ns = self.pace.patience_ns()
        return patience_ns if now_ns() + patience_ns < next_ns else 0

    def _take_completions(self) -> bool:
        """Wait for some; whether an instant has come."""
        timer, found = False, self.ring.submit_and_wait()
        self.now_ns = now_ns()
        for number, result in found:
            timer |= self._found(number, result)
        return timer

    def _found(self, number: int, result: int) -> bool:
        """An operation is over; whether it was that of an instant."""
        reader = self._reading.get(number)
        if reader and reader.went_on(result):
            return False
        kind = number & (1 << KIND_BITS) - 1
        if kind != TIMER and kind != IGNORED:
            self.under_way -= 1
            self._ends[number >> KIND_BITS].completed(kind, result)
        return kind == TIMER

    def took(self, receiver: Receiver, size: int) -> None:
        """The next so many bytes of a receiver are in its buffer."""
        shared = receiver.shared
        self.pace.took(self.now_ns - shared.since_ns)
        shared.since_ns = self.now_ns
        shared.n_reads += 1
        receiver.reader.got(shared.buffer, size)

    def submit(self, operation: Any, *arguments: Any, number: int) -> None:
        """Hand over an operation of an end; there has to be room."""
        operation(*arguments, number)
        self.under_way += 1

    def _end(self) -> None:
        """Reads and writes that are under way say how far they came; then receivers take what was less than they wait
        for, so that it is compared."""
        self.ring.wait_for_more(0)
        self._reading.clear()
        for shared in self.receivers:
            shared.own = 0
        for end in self._ends:
            end.ending = True
        while self.under_way:       # what has only just begun is not found the first time
            self.ring.submit()
            self.ring.cancel_everything(IGNORED)
            self._take_completions()
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
