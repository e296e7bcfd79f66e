# SPDX-License-Identifier: GPL-2.0-only
"""Drives all connections of a node by one io_uring; does what `eventloop` does.

Where a system call is dear, as in a guest kernel on ptrace, this takes less than half the time:
one call per wake-up submits everything and sleeps. Waits are timeouts inside the ring, with
the write linked behind them, and a read completes when the whole ADU has come; so there is a
wake-up only where an instant has to be noted that is not known beforehand. The instant at which
a write begins after a wait is known: it is the deadline that the kernel keeps.
"""

import ctypes
import os
import time
from errno import ECANCELED, ECONNABORTED, EPIPE, EPROTO, ETIME
from heapq import heapify, heappop, heappush, heapreplace

from .endpoint import listener
from .records import FINISHED, NEVER, NOT_STARTED, UNFINISHED
from .sockets import (IPPROTO_TCP, SEND_BUFFER_BYTES, SO_REUSEADDR, SOL_SOCKET, TCP_MAXSEG, close,
                      tcp_socket)
from .uring import LINK, QUIET, Ring

RING_ENTRIES = 4096
# So many connections are handed to the ring ahead of their time, and so many sockets are kept for
# the next ones: a chain can use only a descriptor that is known when it is submitted
AHEAD = 16
NOWHERE = 1 << 62

# A chain that ends a connection is taken for successful if it has not failed so long after the
# instant of its close
CLOSED_NS = 1_000_000_000

# What completes, in the low bits of an operation's number; above them is the flow's number
(CONNECT, RECEIVE, SEND, SHUTDOWN, ACCEPT, SOCKET, AHEAD_OVER, END,
 IGNORED) = range(9)
TIMELESS = ACCEPT, SOCKET, AHEAD_OVER, IGNORED
KIND_BITS = 4
KIND_MASK = (1 << KIND_BITS) - 1

# What a flow is waiting for
CONNECTING, DATA, WRITTEN, FIN_SENT, EOF, CLOSED = range(6)


class Flow:
    """State of one end of one connection. Instants are ns since t0."""

    __fds__ = ("end", "index", "number", "fd", "state", "op", "last_op", "left", "due",
                 "peer_op", "peer_last", "mark", "read", "expected", "closes", "asked")

    def __init__(self, end, index, number, fd):
        self.end = end
        self.index = index      # row of the plan
        self.number = number << KIND_BITS
        self.fd = fd
        self.state = CONNECTING
        self.op, self.last_op = end.own_first[index], end.own_first[index + 1]
        self.left = 0           # bytes of the current op not yet submitted
        self.due = 0            # when what was submitted last begins
        self.peer_op, self.peer_last = end.peer_first[index], end.peer_first[index + 1]
        self.read = 0           # bytes
        self.expected = sum(end.peer_bytes[self.peer_op:self.peer_last])
        # bytes read at which the peer's current ADU is complete
        self.mark = end.peer_bytes[self.peer_op] if self.expected else NOWHERE
        # May close when all is over: has a FIN of its own, or has seen the peer's
        self.closes = self.op < self.last_op and not end.own_bytes[self.last_op - 1]
        self.asked = 0          # bytes of the read under way

    def eof_is_last(self):
        """Whether the peer's FIN can come only after it has read all that this side writes."""
        end, last = self.end, self.peer_last - 1
        own = end.own_bytes[end.own_first[self.index]:self.last_op]
        return (last >= end.peer_first[self.index] and not end.peer_bytes[last]
                and end.peer_need[last] >= sum(own))


class RingLoop:
    """Replays the `End`s of a node. Instants are ns since t0 on CLOCK_MONOTONIC."""

    def __init__(self, ends):
        """Set up the ring and the listeners. Raises OSError, also without such an io_uring."""
        self.stopping = False       # set by a signal handler
        self.strays = 0             # incoming connections that no plan knows
        self._ring = Ring(RING_ENTRIES)
        self._flows = {}            # number -> Flow
        self._count = len(ends)     # number of the next flow; an acceptor's is its end's
        self._sockets = []          # for the next connects
        self._socket_errno = 0      # why there are none
        self._closing = []          # (instant, number): flows whose close waits in the ring
        self._ends = ends
        self._starts = []           # (instant, end's number): the next start of each
        self._next = [0] * len(ends)
        self._listeners = {}        # end's number -> its descriptor
        self._accepting = {}        # end's number -> (address, size of the address)
        self._one = ctypes.c_int(1)
        self._mss = {}              # value -> c_int that stays
        self._t0_ns = self._end_ns = 0
        self._last = 0              # the clock as read last
        for number, end in enumerate(ends):
            if not end.initiates:
                self._listeners[number] = listener(end, nonblocking=False)

    def run(self, t0_ns, duration_ns):
        """Replay until t0 + duration or `stopping`."""
        self._t0_ns, self._end_ns = t0_ns, t0_ns + duration_ns
        self._starts = [(1000 * end.start_us[0], number) for number, end in enumerate(self._ends)
                        if end.initiates and len(end.start_us)]
        heapify(self._starts)
        for number in self._listeners:
            self._accept(number)
        if self._starts:
            self._sockets = [tcp_socket(nonblocking=False) for _ in range(AHEAD)]
            self._hand_over_starts()
        ring, flows = self._ring, self._flows
        ring.at(t0_ns + duration_ns, 0, END)
        wait, clock, handlers = ring.submit_and_wait, time.monotonic_ns, self._handlers()
        now = 0
        while not self.stopping:
            completed = wait()
            if not completed:       # a timeout inside a chain wakes us up, too
                continue
            if len(completed) == 1 and completed[0][0] & KIND_MASK in TIMELESS:
                self._handle_timeless(*completed[0])
                continue
            now = self._last = clock() - t0_ns
            if now >= duration_ns:
                self._note_reads(completed)
                break
            for number, result in completed:
                kind = number & KIND_MASK
                flow = flows.get(number >> KIND_BITS)
                if flow is not None:
                    if result < 0 and result != -ETIME:
                        if result != -ECANCELED:
                            self._fail(flow, -result, now)
                    else:
                        handlers[kind](flow, result, now)
                elif kind in TIMELESS:
                    self._handle_timeless(number, result)
        self._cut(now)

    def _handlers(self):
        return {CONNECT: self._connected, RECEIVE: self._received, SEND: self._written,
                SHUTDOWN: self._fin_sent}

    def _handle_timeless(self, number, result):
        """A completion that needs no look at the clock, at least not always."""
        kind = number & KIND_MASK
        if kind == ACCEPT:
            self._accepted(number >> KIND_BITS, result)
        elif kind == SOCKET:
            self._socket_made(result)
        elif kind == AHEAD_OVER:
            self._hand_over_starts()

    def _now(self):
        return time.monotonic_ns() - self._t0_ns

    # --- beginnings ---------------------------------------------------------------------------

    def _order_sockets(self):
        for _ in range(AHEAD):
            self._ring.make_room()
            self._ring.socket(0, SOCKET)

    def _socket_made(self, result):
        if result >= 0:
            self._sockets.append(result)
        else:
            self._socket_errno = -result

    def _new(self, end, index, fd):
        number = self._count
        self._count = number + 1
        flow = self._flows[number] = Flow(end, index, number, fd)
        return flow

    def _hand_over_starts(self):
        """Submit the next AHEAD connects, each behind a timeout; the first one tells us."""
        self._order_sockets()
        self._forget_closed()
        starts = self._starts
        for i in range(AHEAD):
            if not starts:
                return
            instant, number = starts[0]
            end, index = self._ends[number], self._next[number]
            self._next[number] = index + 1
            if index + 1 < len(end.start_us):
                heapreplace(starts, (1000 * end.start_us[index + 1], number))
            else:
                heappop(starts)
            self._connect(end, index, instant, tells=i == 0)

    def _connect(self, end, index, instant, tells):
        ring = self._ring
        end.records.start_us[index] = instant // 1000
        ring.make_room()
        if not self._sockets:
            end.records.status[index] = -self._socket_errno
            end.records.end_us[index] = instant // 1000
            if tells:
                ring.at(self._t0_ns + instant, 0, AHEAD_OVER)
            return
        fd = self._sockets.pop()
        flow = self._new(end, index, fd)
        flow.due = instant
        number = flow.number | CONNECT
        if tells:
            ring.at(self._t0_ns + instant, LINK, AHEAD_OVER)
        else:
            ring.at(self._t0_ns + instant, LINK | QUIET, number)
        mss = end.mss_of(index)
        if mss:
            value = self._mss.get(mss)
            if value is None:
                value = self._mss[mss] = ctypes.c_int(mss)
            ring.set_option(fd, IPPROTO_TCP, TCP_MAXSEG, value, LINK | QUIET, number)
        if end.shares_ports:
            ring.set_option(fd, SOL_SOCKET, SO_REUSEADDR, self._one, LINK | QUIET, number)
        ring.bind(fd, end.local_ip, end.port_of(index), LINK | QUIET, number)
        ring.connect(fd, end.peer_ip, end.port, 0, number)

    def _connected(self, flow, _result, now):
        flow.end.records.connected_us[flow.index] = now // 1000
        self._begin(flow, now)

    def _begin(self, flow, now):
        """The connection is established: wait for data or EOF, begin the program."""
        flow.state = DATA
        if flow.expected:
            self._receive(flow)
        elif not flow.closes:
            self._await_eof(flow)
        self._go_on(flow, now)

    def _accept(self, number):
        if number not in self._accepting:
            self._accepting[number] = ctypes.create_string_buffer(16), ctypes.c_int(16)
        address, size = self._accepting[number]
        self._ring.make_room()
        self._ring.accept(self._listeners[number], ctypes.addressof(address),
                          ctypes.addressof(size), number << KIND_BITS | ACCEPT)

    def _accepted(self, number, fd):
        end = self._ends[number]
        port = int.from_bytes(self._accepting[number][0][2:4], "big")
        self._accept(number)
        if fd < 0:
            if fd != -ECONNABORTED:
                raise OSError(-fd, f"accept at {end.local} port {end.port}: {os.strerror(-fd)}")
            return
        now = self._now() if end.wraps else NOWHERE
        index = end.index_of(port, now // 1000)
        if index is None or end.records.status[index] != NOT_STARTED:
            self.strays += 1
            self._ring.close_socket(fd, QUIET, IGNORED)
            return
        end.records.status[index] = UNFINISHED
        flow = self._new(end, index, fd)
        if flow.op < flow.last_op and not end.own_need[flow.op]:
            now = self._now()
        self._begin(flow, now)
        self._forget_closed()

    # --- reading ------------------------------------------------------------------------------

    def _receive(self, flow):
        rest = flow.mark - flow.read
        flow.asked = rest if rest < SEND_BUFFER_BYTES else SEND_BUFFER_BYTES
        self._ring.make_room()
        self._ring.receive(flow.fd, flow.asked, 0, flow.number | RECEIVE)

    def _await_eof(self, flow):
        flow.asked = 0
        self._ring.make_room()
        self._ring.receive(flow.fd, 1, 0, flow.number | RECEIVE)

    def _received(self, flow, n, now):
        asked = flow.asked
        if not asked:       # end of file, and nothing else, was awaited
            if n:
                return self._fail(flow, EPROTO, now)
            flow.closes = True
            if flow.state == EOF:
                self._close(flow, now)
            return
        flow.asked = 0
        flow.read += n
        if n < asked:       # closed before it had sent everything
            return self._fail(flow, EPIPE, now)
        if flow.read == flow.mark:
            end, op = flow.end, flow.peer_op
            end.records.delivered_us[op] = now // 1000
            flow.peer_op = op = op + 1
            more = end.peer_bytes[op] if op < flow.peer_last else 0     # 0: only FIN is left
            flow.mark = flow.mark + more if more else NOWHERE
        if flow.read < flow.expected:
            self._receive(flow)
        elif flow.state == FIN_SENT:
            return self._close(flow, now)
        elif not flow.closes:
            self._await_eof(flow)
        if flow.state == DATA:
            self._go_on(flow, now)

    # --- writing ------------------------------------------------------------------------------

    def _go_on(self, flow, now):
        """Submit the current op if the data it needs have come. State on entry: DATA."""
        end, op = flow.end, flow.op
        if op == flow.last_op:
            return self._program_over(flow, now)
        if end.own_need[op] > flow.read:
            return
        # The op before may still wait in the ring for its time
        base = now if now > flow.due else flow.due
        flow.due = due = base + 1000 * end.own_wait_us[op]
        ring = self._ring
        ring.make_room()
        size = end.own_bytes[op]
        end.records.sent_us[op] = due // 1000
        if due > now:
            ring.at(self._t0_ns + due, LINK | QUIET, flow.number | SEND)
        if size:
            self._submit_write(flow, size)
        elif flow.read == flow.expected:
            # close alone sends the FIN, and of the peer only its FIN can follow
            self._submit_close(flow)
        else:
            ring.shutdown(flow.fd, 0, flow.number | SHUTDOWN)
            flow.state = WRITTEN

    def _submit_write(self, flow, size):
        """Write; ask to be told of the end only if the program could not go on otherwise."""
        ring, end, number, fd = self._ring, flow.end, flow.number | SEND, flow.fd
        if size > SEND_BUFFER_BYTES:
            flow.left = size - SEND_BUFFER_BYTES
            flow.state = WRITTEN
            return ring.send(fd, SEND_BUFFER_BYTES, 0, number)
        flow.left = 0
        after = flow.op + 1
        if after == flow.last_op:
            if not flow.closes and flow.eof_is_last():
                ring.send(fd, size, QUIET, number)
                flow.op, flow.state = after, EOF
                return None
        elif end.own_need[after] > flow.read:
            # what it waits for will come later than this write's end
            ring.send(fd, size, QUIET, number)
            flow.op, flow.state = after, DATA
            return None
        elif not end.own_bytes[after] and flow.read == flow.expected:
            ring.send(fd, size, LINK | QUIET, number)
            ring.after(1000 * end.own_wait_us[after], LINK | QUIET, number)
            flow.op = after
            flow.due += 1000 * end.own_wait_us[after]
            self._submit_close(flow)
            return None
        ring.send(fd, size, 0, number)
        flow.state = WRITTEN
        return None

    def _written(self, flow, _result, now):
        if flow.left:
            self._ring.make_room()
            return self._submit_write(flow, flow.left)
        flow.op += 1
        flow.state = DATA
        return self._go_on(flow, now)

    def _fin_sent(self, flow, _result, now):
        flow.op += 1
        flow.state = DATA
        self._program_over(flow, now)

    # --- ends ---------------------------------------------------------------------------------

    def _program_over(self, flow, now):
        """Everything is written; close when everything is read, without a FIN at EOF."""
        if flow.read < flow.expected:
            flow.state = FIN_SENT if flow.closes else EOF
        elif flow.closes:
            self._close(flow, now)
        else:
            flow.state = EOF

    def _close(self, flow, now):
        self._ring.make_room()
        self._ring.close_socket(flow.fd, QUIET, IGNORED)
        self._over(flow, FINISHED, now)

    def _submit_close(self, flow):
        """Close at the end of a chain, at `due`: the FIN op that ends the program.

        Nobody is told unless the chain fails, so the outcome is recorded now; `_fail` or `_cut`
        correct it. The FIN is later than `due` if the write before it had to wait for room.
        """
        self._ring.close_socket(flow.fd, QUIET, flow.number | SEND)
        flow.state = CLOSED
        records, index = flow.end.records, flow.index
        records.sent_us[flow.op] = flow.due // 1000
        self._note(flow, FINISHED, flow.due)
        heappush(self._closing, (flow.due + CLOSED_NS, flow.number))

    def _forget_closed(self):
        now = self._last
        while self._closing and self._closing[0][0] < now:
            self._flows.pop(heappop(self._closing)[1] >> KIND_BITS, None)

    def _fail(self, flow, errno, now):
        """Close after an error, but not before what waits in the ring for its time has found the
        socket broken: the number of the descriptor may be another socket's next. An error that
        comes of the peer's stop at the end does not count."""
        if time.monotonic_ns() >= self._end_ns:
            return
        ring = self._ring
        ring.make_room()
        if flow.due >= now:
            ring.at(self._t0_ns + flow.due + 1, LINK | QUIET, IGNORED)
        ring.close_socket(flow.fd, QUIET, IGNORED)
        self._over(flow, -errno, now)

    def _over(self, flow, status, now):
        self._note(flow, status, now)
        del self._flows[flow.number >> KIND_BITS]

    def _note(self, flow, status, now):
        records, index = flow.end.records, flow.index
        records.status[index] = status
        records.end_us[index] = now // 1000
        records.read_bytes[index] = flow.read

    def _note_reads(self, completed):
        """What was read until the end; a partial read counts."""
        for number, result in completed:
            flow = self._flows.get(number >> KIND_BITS)
            if flow is not None and number & KIND_MASK == RECEIVE and flow.asked and result > 0:
                flow.read += result

    def _cut(self, now):
        """Note how far the unfinished connections came by `now`."""
        # Until nothing is left to cancel: what is still under way when a ring goes away is
        # cancelled by a kernel thread that waits for this process without sleeping, and where
        # computing takes no time it waits for ever.
        left = True
        while left:
            self._ring.cancel_everything(END)
            answers = []
            while not answers:
                completed = self._ring.submit_and_wait()
                self._note_reads(completed)
                answers = [result for number, result in completed
                           if number == END and result != -ECANCELED]
            left = answers[-1] > 0
        for flow in self._flows.values():
            records, index = flow.end.records, flow.index
            if flow.state == CONNECTING and flow.due > now:
                records.start_us[index], records.status[index] = NEVER, NOT_STARTED
                continue
            if flow.state == CLOSED and flow.due <= now:
                continue
            records.status[index], records.end_us[index] = UNFINISHED, NEVER
            records.read_bytes[index] = flow.read
            if flow.due > now:      # only the latest op can wait in the ring
                for op in range(flow.end.own_first[index], flow.last_op):
                    if records.sent_us[op] > now // 1000:
                        records.sent_us[op] = NEVER
            close(flow.fd)
        self._flows.clear()

    def close(self):
        """Close everything."""
        self._ring.close()
        for fd in [*self._listeners.values(), *self._sockets]:
            close(fd)
