# SPDX-License-Identifier: GPL-2.0-only
"""One end of one connection: its program of ops, driven by a `RingLoop`.

The meaning of an op is that of `connection`. Here a wait and the write behind it are one chain in
the ring, and a read is under way as long as something is to come, so a flow hears of what
happens only where it has to note an instant or to decide. Where the ring can note instants itself, that
is little (`chained`). core/flow.c does the same in C.
"""

from __future__ import annotations

from errno import EPIPE, EPROTO

from traffic.io.payload import PERIOD, STEP
from traffic.io.sockets import SEND_BUFFER_BYTES, set_option
from traffic.io.uring import LINK, QUIET
from traffic.replay.buffers import KEPT_BYTES
from traffic.replay.chain import NOWHERE
from traffic.replay.records import FINISHED, NEVER, UNFINISHED

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import Final

    from traffic.replay.endpoint import End
    from traffic.replay.ringloop import RingLoop

# What completes, in the low bits of an operation's number; above them is the flow's number
CONNECT: Final = 0
RECEIVE: Final = 1
SEND: Final = 2
SHUTDOWN: Final = 3
ACCEPT: Final = 4
SOCKET: Final = 5
AHEAD_OVER: Final = 6
CUT: Final = 7
IGNORED: Final = 8
KIND_BITS: Final = 4
KIND_MASK: Final = (1 << KIND_BITS) - 1

# What a flow is waiting for
CONNECTING: Final = 0
DATA: Final = 1
WRITTEN: Final = 2
LAST_DATA: Final = 3
EOF: Final = 4
CLOSED: Final = 5


class Flow:
    """State of one end of one connection. Instants are ns since t0."""

    __slots__ = ("loop", "ring", "end", "index", "number", "fd", "state", "op", "last_op", "left",
                 "writing", "due", "peer_op", "peer_last", "mark", "read", "expected", "closes", "asked", "out_place",
                 "in_place", "buffer", "sent", "is_closed")

    def __init__(self, loop: RingLoop, end: End, index: int, number: int, fd: int) -> None:
        self.loop, self.ring = loop, loop.ring
        self.end = end
        self.index = index      # row of the plan
        self.number = number << KIND_BITS
        self.fd = fd
        self.state = CONNECTING
        self.op, self.last_op = end.own_first[index], end.own_first[index + 1]
        self.left = 0           # bytes of the current op not yet submitted
        self.writing = 0        # bytes of the write that is to report its end; 0: there is none
        self.due = 0            # when what was submitted last begins
        self.peer_op, self.peer_last = end.peer_first[index], end.peer_first[index + 1]
        self.read = 0           # bytes
        self.expected = sum(end.peer_bytes[self.peer_op:self.peer_last])
        # bytes read at which the peer's current ADU is complete
        self.mark = end.peer_bytes[self.peer_op] if self.expected else NOWHERE
        # May close when all is over: has a FIN of its own, or has seen the peer's
        self.closes = self.op < self.last_op and not end.own_bytes[self.last_op - 1]
        self.asked = 0          # bytes of the read under way; 0: it is for EOF
        self.buffer = 0         # where the last of them go
        # places in the payload's sequence: of the next byte to send, of the next to come
        phase = end.phase + index * STEP
        self.out_place, self.in_place = phase % PERIOD, (phase + end.backwards) % PERIOD
        self.sent = 0           # bytes handed over to be written
        self.is_closed = False  # the ring has closed the socket, or will whatever happens

    def connect(self) -> None:
        """Begin to connect, as the end of a chain; there has to be room."""
        self.ring.connect(self.fd, self.end.peer_ip, self.end.port, 0, self.number | CONNECT)

    def established(self, now: int) -> None:
        """Connected or accepted: begin the program, wait for data or EOF."""
        self.state = DATA
        self._note_cca()
        self._go_on(now)
        self._wait()

    def _note_cca(self) -> None:
        self.end.note_cca(self.fd)

    def settle(self) -> None:
        """Catch up with what the ring has done without telling."""

    def leave(self) -> None:
        """Nobody will look at this flow again: give back what it has."""

    # --- reading ------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Have read what comes next, if no read is under way."""
        if self.state == CLOSED or self.asked:
            return
        if self.read < self.expected:
            self._receive()
        elif not self.closes:
            self._await_eof()

    def _receive(self) -> None:
        rest = self.mark - self.read
        asked = rest if rest < SEND_BUFFER_BYTES else SEND_BUFFER_BYTES
        if self.end.options.limit_windows and rest == self.end.peer_bytes[self.peer_op]:
            asked = 1       # to set the window again
        self.asked = asked
        self.ring.make_room()
        self.buffer = self._submit_read(asked, 0)

    def _submit_read(self, asked: int, flags: int) -> int:
        """Where the last of its bytes will be. There has to be room: it may be a part of a chain."""
        buffer, ring = self.loop.buffers.take(), self.ring
        if asked <= KEPT_BYTES:
            ring.receive(self.fd, buffer, asked, flags, self.number | RECEIVE)
        else:
            ring.receive_last(self.fd, buffer, KEPT_BYTES, asked, flags, self.number | RECEIVE)
        return buffer

    def _await_eof(self) -> None:
        self.asked = 0
        self.ring.make_room()
        self.ring.receive(self.fd, 0, 1, 0, self.number | RECEIVE)

    def take(self, n: int) -> None:
        """Look at the last of the `n` bytes of the read that is over, and count them."""
        loop, tally = self.loop, self.end.tally
        before = max(0, self.asked - KEPT_BYTES)        # came first, and were not kept
        if n > before:
            if loop.pattern.wrong(self.buffer, n - before, (self.in_place + before) % PERIOD):
                tally.note_wrong(self.index, self.read + before)
            tally.checked_bytes += n - before
            tally.unchecked_bytes += before
        else:
            tally.unchecked_bytes += n
        loop.buffers.give(self.buffer)
        self.asked = 0
        self.in_place = (self.in_place + n) % PERIOD
        self.read += n

    def read_failed(self) -> None:
        """Of the read under way nothing will come."""
        if self.asked:
            self.loop.buffers.give(self.buffer)
            self.asked = 0

    def _delivered(self, now: int) -> None:
        """The peer's data unit is complete."""
        end, op = self.end, self.peer_op
        end.records.delivered_us[op] = now // 1000
        self.peer_op = op = op + 1
        more = end.peer_bytes[op] if op < self.peer_last else 0     # 0: only FIN is left
        self.mark = self.mark + more if more else NOWHERE

    def received(self, n: int, now: int) -> None:
        """A read is over, with `n` bytes."""
        asked = self.asked
        if not asked:
            if n:
                return self.fail(EPROTO, now)
            self.closes = True
            return self.close(now) if self.state == EOF else None
        self.take(n)
        if self.end.options.limit_windows:
            again = self.end.options.window_again(self.index)
            if again:
                set_option(self.fd, *again)
        if n < asked:       # closed before it had sent everything
            return self.fail(EPIPE, now)
        if self.read == self.mark:
            self._delivered(now)
        if self.read == self.expected and self.state == LAST_DATA:
            return self.close(now)
        if self.state == DATA:
            self._go_on(now)
        return self._wait()

    # --- writing ------------------------------------------------------------------------------

    def _go_on(self, now: int) -> None:
        """Submit the current op if the data it needs have come."""
        end, op = self.end, self.op
        if op == self.last_op:
            return self._program_over(now)
        if end.own_need[op] > self.read:
            self.state = DATA
            return None
        # The op before may still wait in the ring for its time
        self.due = due = max(now, self.due) + 1000 * end.own_wait_us[op]
        end.records.sent_us[op] = due // 1000
        ring = self.ring
        ring.make_room()
        if due > now:
            ring.at(self.loop.t0_ns + due, LINK | QUIET, self.number | SEND)
        size = end.own_bytes[op]
        if size:
            self._submit_write(size)
        elif self.read == self.expected:
            # close alone sends the FIN, and of the peer only its FIN can follow
            self._submit_close()
        else:
            ring.shutdown(self.fd, 0, self.number | SHUTDOWN)
            self.state = WRITTEN
        return None

    def _submit_write(self, size: int) -> None:
        """Write; ask to be told of the end only if the program could not go on otherwise."""
        ring, end, number = self.ring, self.end, self.number | SEND
        after = self.op + 1
        self.left = max(0, size - SEND_BUFFER_BYTES)
        size -= self.left
        self.sent += size
        address = self.loop.pattern.address + self.out_place
        self.out_place = (self.out_place + size) % PERIOD
        if self.left:
            pass                # the rest follows this part
        elif after == self.last_op:
            if not self.closes and self._eof_is_last():
                ring.send(self.fd, address, size, QUIET, number)
                self.op, self.state = after, EOF
                return
        elif end.own_need[after] > self.read:
            # what it waits for will come later than this write's end
            ring.send(self.fd, address, size, QUIET, number)
            self.op, self.state = after, DATA
            return
        elif not end.own_bytes[after] and self.read == self.expected:
            ring.send(self.fd, address, size, LINK | QUIET, number)
            ring.after(1000 * end.own_wait_us[after], LINK | QUIET, number)
            self.op = after
            self.due += 1000 * end.own_wait_us[after]
            self._submit_close()
            return
        ring.send(self.fd, address, size, 0, number)
        self.state, self.writing = WRITTEN, size

    def _eof_is_last(self) -> bool:
        """Whether the peer's FIN can come only after it has read all that this side writes."""
        end, last = self.end, self.peer_last - 1
        own = end.own_bytes[end.own_first[self.index]:self.last_op]
        return (last >= end.peer_first[self.index] and not end.peer_bytes[last]
                and end.peer_need[last] >= sum(own))

    def written(self, size: int, now: int) -> None:
        """A write is over, of which `size` bytes were sent: one that was to report its end, or one that broke."""
        asked, self.writing = self.writing, 0
        if size < asked or not asked:
            return self.fail(EPIPE, now)
        if self.left:
            self.ring.make_room()
            return self._submit_write(self.left)
        self.op += 1
        return self._go_on(now)

    def fin_sent(self, _result: int, now: int) -> None:
        """The sending side is shut down."""
        self.op += 1
        self._program_over(now)

    # --- the end ------------------------------------------------------------------------------

    def _program_over(self, now: int) -> None:
        """Everything is written; close when everything is read, without a FIN at EOF."""
        if self.read < self.expected:
            self.state = LAST_DATA if self.closes else EOF
        elif self.closes:
            self.close(now)
        else:
            self.state = EOF

    def close(self, now: int) -> None:
        """Close at once; everything was written and read."""
        self.ring.make_room()
        self.ring.close_socket(self.fd, QUIET, IGNORED)
        self._over(FINISHED, now)

    def _submit_close(self) -> None:
        """Close at the end of a chain, at `due`: the FIN op that ends the program.

        Nobody is told unless the chain fails, so the outcome is recorded now; `fail` or `cut`
        correct it. The FIN is later than `due` if the write before it has to wait for room.
        """
        self.ring.close_socket(self.fd, QUIET, self.number | SEND)
        self.state = CLOSED
        self.end.records.sent_us[self.op] = self.due // 1000
        self._note(FINISHED, self.due)
        self.loop.closes_at(self.due, self.number >> KIND_BITS)

    def fail(self, errno: int, now: int) -> None:
        """Close after an error, but not before what waits in the ring for its time has found the
        socket broken: the number of the descriptor may be another socket's next. An error that
        comes of the peer's stop at the end does not count."""
        if self.loop.at_end():
            return
        ring = self.ring
        if not self.is_closed:
            ring.make_room()
            if self.due >= now:
                ring.at(self.loop.t0_ns + self.due + 1, LINK | QUIET, IGNORED)
            ring.close_socket(self.fd, QUIET, IGNORED)
        self._over(-errno, now)

    def _over(self, status: int, now: int) -> None:
        self.state = CLOSED
        self._note(status, now)
        self.loop.forget(self.number >> KIND_BITS)

    def _note(self, status: int, now: int) -> None:
        records, index = self.end.records, self.index
        records.status[index] = status
        records.end_us[index] = now // 1000
        records.read_bytes[index] = self.read

    def cut(self, now: int) -> None:
        """Note that the replay ends at `now`, before the connection does."""
        records, index = self.end.records, self.index
        if self.state == CLOSED and self.due <= now:
            return
        records.status[index], records.end_us[index] = UNFINISHED, NEVER
        records.read_bytes[index] = self.read
        for op in range(self.end.own_first[index], self.last_op):
            if records.sent_us[op] > now // 1000:       # was waiting in the ring
                records.sent_us[op] = NEVER
