# SPDX-License-Identifier: GPL-2.0-only
"""Drives all connections of a node by one epoll set and one heap of instants.

One wake-up is one epoll_pwait2 and one look at the clock; everything that is due or has
happened by then is done with that one reading of the time.
"""

from __future__ import annotations

import ctypes
from errno import EAGAIN, ECONNABORTED
from heapq import heappop, heappush, heapreplace

from traffic.io.clock import now_ns, sleep_ns
from traffic.io.payload import Pattern
from traffic.io.sockets import EPOLLIN, SEND_BUFFER_BYTES, Epoll, accept, close
from traffic.replay.connection import Connection
from traffic.replay.endpoint import End, listener
from traffic.replay.records import NOT_STARTED

# After so many events in one go the clock is read again before the next sleep is computed
MANY_EVENTS = 32
# accept() reports the errors of a connection that broke in the queue; the next is not affected
_PASSING = (-EAGAIN, -ECONNABORTED)
# epoll may end a wait late by 1/1000 of it, 1/200 in a nice process (select_estimate_accuracy in fs/select.c), if
# nothing else happens in the machine: of a long one the last part is waited for apart
_LONG_NS, _LAST_PART = 20_000_000, 128


class EventLoop:
    """Replays the `End`s of a node. Instants are ns since t0 on CLOCK_MONOTONIC."""

    def __init__(self, ends: list[End], wakeup_cost_us: int = 0) -> None:
        """Set up the listeners. Raises OSError."""
        self.epoll = Epoll()
        self.pattern = Pattern(SEND_BUFFER_BYTES)
        # of all connections: what is read is looked at at once
        self._buffer = ctypes.create_string_buffer(SEND_BUFFER_BYTES)
        self.buffer_at = ctypes.addressof(self._buffer)
        self.connections: dict[int, Connection] = {}
        self.stopping = False       # set by a signal handler
        self.chains = 0             # there are none
        self.strays = 0             # incoming connections that no plan knows
        self.wakeup_cost_ns = 1000 * wakeup_cost_us
        self._ends = ends
        self._heap: list[tuple[int, int]] = []      # (instant, number): a connection, or an end's next start
        self._listeners: dict[int, tuple[int, End]] = {}        # number -> (descriptor, End)
        self._next = [0] * len(ends)
        # numbers: ends first, then connections in the order they come up
        self._count = len(ends)
        self._end_ns = 0
        for number, end in enumerate(ends):
            if not end.initiates:
                self._listeners[number] = listener(end, nonblocking=True), end
                self.epoll.add(self._listeners[number][0], EPOLLIN, number)

    def call_at(self, instant: int, number: int) -> None:
        """Call `timer` of a connection at an instant; one call can be pending for each."""
        heappush(self._heap, (instant, number))

    def at_end(self) -> bool:
        """Whether the replay is to stop now."""
        return self.stopping or now_ns() >= self._end_ns

    def run(self, t0_ns: int, duration_ns: int) -> None:
        """Replay until t0 + duration or `stopping`."""
        self._end_ns = t0_ns + duration_ns
        for number, end in enumerate(self._ends):
            if end.initiates and len(end.start_us):
                heappush(self._heap, (1000 * end.start_us[0], number))
        heappush(self._heap, (duration_ns, -1))
        heap, connections, listeners = self._heap, self.connections, self._listeners
        wait, clock = self.epoll.wait, now_ns
        now = clock() - t0_ns
        handled = 0
        while now < duration_ns and not self.stopping:
            while heap[0][0] <= now:
                number = heap[0][1]
                if number < len(self._ends):
                    self._start_next(number, now)
                else:
                    heappop(heap)
                    connection = connections.get(number)
                    if connection:
                        connection.timer(now)
            gap = heap[0][0] - now
            happened = wait(gap if gap < _LONG_NS else gap - gap // _LAST_PART)
            if gap >= _LONG_NS and not happened:        # too early for anything
                now = clock() - t0_ns
                continue
            if self.wakeup_cost_ns:
                sleep_ns(self.wakeup_cost_ns)
            now = clock() - t0_ns
            if now >= duration_ns:
                break
            for handled, (events, number) in enumerate(happened):
                connection = connections.get(number)
                if connection:
                    connection.handle(events, now)
                elif number in listeners:
                    self._accept(number, now)
            if happened and handled > MANY_EVENTS:
                now = clock() - t0_ns

    def _start_next(self, number: int, now: int) -> None:
        """Connect the next of an end's plan and put the one after it into the heap."""
        end, index = self._ends[number], self._next[number]
        self._next[number] = index = index + 1
        if index < len(end.start_us):
            heapreplace(self._heap, (1000 * end.start_us[index], number))
        else:
            heappop(self._heap)
        self._new(end, index - 1).connect(now)

    def _accept(self, number: int, now: int) -> None:
        """Take one connection; epoll reports again if there are more."""
        listening, end = self._listeners[number]
        fd, port = accept(listening)
        if fd < 0:
            if fd not in _PASSING:
                raise OSError(-fd, f"accept at {end.local} port {end.port}")
            return
        index = end.index_of(port, now // 1000)
        if index is None or end.records.status[index] != NOT_STARTED:
            self.strays += 1
            close(fd)
            return
        self._new(end, index).accepted(fd, now)

    def _new(self, end: End, index: int) -> Connection:
        number = self._count
        self._count = number + 1
        connection = self.connections[number] = Connection(self, end, index, number)
        return connection

    def close(self) -> None:
        """Note how far the unfinished connections came and close everything."""
        for connection in self.connections.values():
            connection.end.records.read_bytes[connection.index] = connection.read
            close(connection.fd)
        self.connections.clear()
        for listening, _ in self._listeners.values():
            close(listening)
        self.epoll.close()
