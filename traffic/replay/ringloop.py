# SPDX-License-Identifier: GPL-2.0-only
"""Drives all connections of a node by one io_uring; does what `eventloop` does.

Where a system call is dear, as in a guest kernel on ptrace, this takes less than half the time:
one call per wake-up submits everything and sleeps. Waits are timeouts inside the ring, with
the write linked behind them, and a read completes when the whole ADU has come; so there is a
wake-up only where an instant has to be noted that is not known beforehand. The instant at which
a write begins after a wait is known: it is the deadline that the kernel keeps. Where the clock can be
read from a file, the ring notes instants itself (`notes`), and wakes somebody only where something is to be decided.

core/loop.c and core/over.c do the same in C: who changes this changes them (docs/replay.md, "In C").
"""

from __future__ import annotations

import ctypes
import os
from errno import ECANCELED, ECONNABORTED, ETIME
from heapq import heapify, heappop, heappush, heapreplace

from traffic.io.clock import DEVICE, OFFSET_NS, now_ns, sleep_ns
from traffic.io.payload import Pattern
from traffic.io.sockets import (IPPROTO_TCP, SEND_BUFFER_BYTES, SO_REUSEADDR, SOCKADDR_IN6, SOL_SOCKET, TCP_CONGESTION,
                                close, family_of, set_option, tcp_socket)
from traffic.io.uring import LINK, QUIET, Ring, may_ask
from traffic.replay.buffers import Buffers
from traffic.replay.chained import ChainedFlow
from traffic.replay.endpoint import End, listener
from traffic.replay.flow import (ACCEPT, AHEAD_OVER, CLOSED, CONNECT, CONNECTING, CUT, IGNORED, KIND_BITS, KIND_MASK,
                                 RECEIVE, SEND, SHUTDOWN, SOCKET, Flow)
from traffic.replay.notes import Notes
from traffic.replay.records import NEVER, NOT_STARTED, UNFINISHED

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import Any, Final

    from traffic.replay.options import Option

RING_ENTRIES: Final = 4096
# So many connections are handed to the ring ahead of their time, and so many sockets are kept for
# the next ones: a chain can use only a descriptor that is known when it is submitted
AHEAD: Final = 16
# A chain that ends a connection is taken for successful if it has not failed so long after the
# instant of its close
CLOSED_NS: Final = 1_000_000_000
# Flows that end without anybody being woken are looked at in turn, so many whenever a connection comes
LOOKS: Final = 4
# An option that is for the time between SYN and SYN-ACK is set so long after the SYN; no network answers as fast
AFTER_SYN_NS: Final = 1000


class RingLoop:
    """Replays the `End`s of a node. Instants are ns since t0 on CLOCK_MONOTONIC."""

    def __init__(self, ends: list[End], clock: str = DEVICE, wakeup_cost_us: int = 0) -> None:
        """Set up the ring and the listeners. Raises OSError, also without such an io_uring.

        clock: a file that, read, has the clock's reading.
        """
        self.stopping = False       # set by a signal handler
        self.strays = 0             # incoming connections that no plan knows
        self.wakeup_cost_ns = 1000 * wakeup_cost_us
        self.ring = Ring(RING_ENTRIES)
        self.pattern, self.buffers = Pattern(SEND_BUFFER_BYTES), Buffers()
        self._clock = clock
        self.notes: Notes | None = None     # where the ring can note instants
        self.asks = False           # the ring can ask sockets for their congestion control
        self.chains = 0             # so many were handed over
        self.silent: list[int] = []     # numbers of flows that may end without a word
        self._looked_at = 0         # place in it
        self.t0_ns = self._end_ns = 0
        self._flows: dict[int, Flow] = {}
        self._count = 0             # number of the next flow
        self._sockets: list[int] = []           # for the next connects
        self._socket_errno = 0      # why there are none
        self._closing: list[tuple[int, int]] = []       # (instant, number): flows whose close waits in the ring
        self._ends = ends
        self._starts: list[tuple[int, int]] = []        # (instant, end's number): the next start of each
        self._next = [0] * len(ends)
        self._one = ctypes.c_int(1)
        self._values: dict[int, ctypes.c_int] = {}      # of socket options: value -> one that stays
        self._ccas = {number: ctypes.create_string_buffer(end.cca.encode())
                      for number, end in enumerate(ends) if end.cca}
        # end's number -> (descriptor, address of the peer, its size)
        self._listeners = {number: (listener(end, nonblocking=False),
                                    ctypes.create_string_buffer(SOCKADDR_IN6.size),
                                    ctypes.c_int(SOCKADDR_IN6.size))
                           for number, end in enumerate(ends) if not end.initiates}

    def run(self, t0_ns: int, duration_ns: int) -> None:
        """Replay until t0 + duration or `stopping`."""
        self.t0_ns, self._end_ns = t0_ns, t0_ns + duration_ns
        if not self.wakeup_cost_ns and self.ring.use_clock(self._clock):
            self.notes, self.asks = Notes(), self._may_ask()
        self._starts = [(1000 * end.start_us[0], of) for of, end in enumerate(self._ends)
                        if end.initiates and len(end.start_us)]
        heapify(self._starts)
        for of in self._listeners:
            self._accept(of)
        if self._starts:
            self._sockets = [tcp_socket(family_of(self._ends[0].local_ip), nonblocking=False) for _ in range(AHEAD)]
            self._hand_over_starts(0)
        self.ring.at(self._end_ns, 0, IGNORED)
        wait, flows = self.ring.submit_and_wait, self._flows
        now = 0
        number: int
        result: int
        while not self.stopping:
            completed = wait()
            if not completed:       # a timeout inside a chain wakes us up, too
                continue
            if self.wakeup_cost_ns:
                sleep_ns(self.wakeup_cost_ns)
            now = now_ns() - t0_ns
            if now >= duration_ns:
                self._note_reads(completed)
                break
            for number, result in completed:
                kind = number & KIND_MASK
                if kind > SHUTDOWN:
                    self._own(kind, number >> KIND_BITS, result, now)
                    continue
                flow = flows.get(number >> KIND_BITS)
                if flow is None or result == -ECANCELED:
                    continue        # failed before, or will by what broke the chain
                flow.settle()
                if result < 0 and result != -ETIME:
                    if kind == RECEIVE:
                        flow.read_failed()
                    flow.fail(-result, now)
                elif kind == RECEIVE:
                    flow.received(result, now)
                elif kind == CONNECT:
                    flow.end.records.connected_us[flow.index] = now // 1000
                    flow.established(now)
                elif kind == SEND:
                    flow.written(result, now)
                else:
                    flow.fin_sent(result, now)
        self._cut(min(now_ns() - t0_ns, duration_ns))

    def _own(self, kind: int, number: int, result: int, now: int) -> None:
        """A completion that is no flow's."""
        if kind == ACCEPT:
            self._accepted(number, result, now)
        elif kind == AHEAD_OVER:
            self._hand_over_starts(now)
        elif kind == SOCKET:
            if result >= 0:
                self._sockets.append(result)
            else:
                self._socket_errno = -result

    def at_end(self) -> bool:
        """Whether the replay is to stop now."""
        return self.stopping or now_ns() >= self._end_ns

    def _may_ask(self) -> bool:
        fd = tcp_socket(family_of(self._ends[0].local_ip), nonblocking=False)
        asks = may_ask(self.ring, fd, IGNORED)
        close(fd)
        return asks

    def since_t0(self, noted: int) -> int:
        """The instant of which the clock said this."""
        return max(0, noted + OFFSET_NS - self.t0_ns)

    def is_over(self, now: int) -> bool:
        """Whether the replay had ended by then."""
        return now + self.t0_ns >= self._end_ns

    def forget(self, number: int) -> None:
        """A flow is over."""
        self._flows.pop(number).leave()

    def closes_at(self, due: int, number: int) -> None:
        """A flow is over at `due` unless it fails."""
        heappush(self._closing, (due + CLOSED_NS, number))

    def _forget_closed(self, now: int, looks: int = LOOKS) -> None:
        flows, silent = self._flows, self.silent
        while self._closing and self._closing[0][0] < now:
            number = heappop(self._closing)[1]
            if number in flows:
                self.forget(number)
        for _ in range(min(looks, len(silent))):
            place = self._looked_at if self._looked_at < len(silent) else 0
            flow = flows.get(silent[place])
            if flow is not None:
                flow.settle()
                if flow.state != CLOSED or flow.due + CLOSED_NS >= now:
                    self._looked_at = place + 1
                    continue
                self.forget(silent[place])
            last = silent.pop()
            if place < len(silent):
                silent[place] = last
            self._looked_at = place

    def _new(self, end: End, index: int, fd: int) -> Flow:
        number = self._count
        self._count = number + 1
        end.records.status[index] = UNFINISHED
        block = -1 if self.notes is None or end.options.limit_windows else self.notes.take()
        flow = Flow(self, end, index, number, fd) if self.notes is None or block < 0 else ChainedFlow(
            self, end, index, number, fd, self.notes, block)
        self._flows[number] = flow
        return flow

    # --- initiators ---------------------------------------------------------------------------

    def _hand_over_starts(self, now: int) -> None:
        """Submit the next AHEAD connects, each behind a timeout; the first one tells us."""
        self._forget_closed(now, AHEAD * LOOKS)
        starts, sockets = self._starts, self._sockets
        for i in range(AHEAD):
            if not starts:
                break
            instant, number = starts[0]
            end, index = self._ends[number], self._next[number]
            self._next[number] = index + 1
            if index + 1 < len(end.start_us):
                heapreplace(starts, (1000 * end.start_us[index + 1], number))
            else:
                heappop(starts)
            self.ring.make_room()
            self.ring.at(self.t0_ns + instant, LINK | QUIET if i and sockets else
                         LINK if sockets else 0, IGNORED if i else AHEAD_OVER)
            if sockets:
                self._connect(number, index, instant, sockets.pop())
            else:
                end.records.start_us[index] = end.records.end_us[index] = instant // 1000
                end.records.status[index] = -self._socket_errno
        if starts:
            self.ring.make_room(AHEAD)
            for _ in range(AHEAD):
                self.ring.socket(self._ends[0].local_ip, 0, SOCKET)

    def _connect(self, of: int, index: int, instant: int, fd: int) -> None:
        """The rest of a chain that connects; `of`: the end's number."""
        end = self._ends[of]
        ring, flow = self.ring, self._new(end, index, fd)
        end.records.start_us[index] = instant // 1000
        flow.due = instant
        number = flow.number | CONNECT
        for option in end.options.at_first(index):
            self._set_option(fd, option, LINK | QUIET, number)
        if end.cca:
            ring.set_option(fd, IPPROTO_TCP, TCP_CONGESTION, self._ccas[of], LINK | QUIET, number)
        if end.shares_ports:
            ring.set_option(fd, SOL_SOCKET, SO_REUSEADDR, self._one, LINK | QUIET, number)
        ring.bind(fd, end.local_ip, end.port_of(index), LINK | QUIET, number)
        flow.connect()
        late = end.options.after_syn(index)
        if late:
            ring.make_room()
            ring.at(self.t0_ns + instant + AFTER_SYN_NS, LINK | QUIET, IGNORED)
            self._set_option(fd, late, QUIET, IGNORED)

    def _set_option(self, fd: int, option: Option, flags: int, number: int) -> None:
        level, name, value = option
        self.ring.set_option(fd, level, name, self._values.setdefault(value, ctypes.c_int(value)), flags, number)

    # --- acceptors ----------------------------------------------------------------------------

    def _accept(self, number: int) -> None:
        fd, address, size = self._listeners[number]
        self.ring.make_room()
        self.ring.accept(fd, ctypes.addressof(address), ctypes.addressof(size),
                         number << KIND_BITS | ACCEPT)

    def _accepted(self, number: int, fd: int, now: int) -> None:
        end = self._ends[number]
        port = int.from_bytes(self._listeners[number][1].raw[2:4], "big")
        self._accept(number)
        if fd < 0:
            if fd != -ECONNABORTED:     # that one broke in the queue
                raise OSError(-fd, f"accept at {end.local} port {end.port}: {os.strerror(-fd)}")
            return
        index = end.index_of(port, now // 1000)
        if index is None or end.records.status[index] != NOT_STARTED:
            self.strays += 1
            self.ring.close_socket(fd, QUIET, IGNORED)
            return
        flow = self._new(end, index, fd)
        for option in end.options.at_first(index):
            error = set_option(fd, *option)
            if error:
                return flow.fail(-error, now)
        flow.established(now)
        self._forget_closed(now)

    # --- the end ------------------------------------------------------------------------------

    def _note_reads(self, completed: list[tuple[Any, ...]]) -> None:
        """What was read until the end; a partial read counts."""
        for number, result in completed:
            flow = self._flows.get(number >> KIND_BITS)
            if flow is None or number & KIND_MASK != RECEIVE:
                continue
            flow.settle()
            if flow.asked and result > 0:
                flow.take(result)

    def _cut(self, now: int) -> None:
        """Note how far the unfinished connections came by `now`."""
        # Until nothing is left to cancel: what is still under way when a ring goes away is
        # cancelled by a kernel thread that waits for this process without sleeping, and where
        # computing takes no time it waits for ever.
        left = 1
        while left:
            self.ring.cancel_everything(CUT)
            left = -1
            while left < 0:
                completed = self.ring.submit_and_wait()
                self._note_reads(completed)
                for number, result in completed:
                    if number == CUT:
                        left = result
        for flow in self._flows.values():
            flow.settle()
            if flow.state == CONNECTING and flow.due > now:
                records, index = flow.end.records, flow.index
                records.start_us[index], records.status[index] = NEVER, NOT_STARTED
            else:
                flow.cut(now)
            flow.leave()
        self.strays += self.ring.unexpected()

    def close(self) -> None:
        """Close everything."""
        self.ring.close()
        for fd in [*self._sockets, *(fd for fd, _, _ in self._listeners.values()),
                   *(flow.fd for flow in self._flows.values())]:
            close(fd)
        self._flows.clear()
