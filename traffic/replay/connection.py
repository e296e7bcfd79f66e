# SPDX-License-Identifier: GPL-2.0-only
"""One end of one connection: its program of ops, driven by an `EventLoop`.

An op (need_bytes, wait_us, bytes) of the plan: wait until need_bytes in total have been read
from the peer, then wait_us from the later of the end of the previous op's writing and that
instant (the first op: from the establishment), then write `bytes`, or send FIN if 0.
"""

from __future__ import annotations

from errno import EAGAIN, EINPROGRESS, EPIPE

from traffic.io.payload import PERIOD, STEP
from traffic.io.sockets import (EPOLLERR, EPOLLET, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP, SEND_BUFFER_BYTES,
                                SO_REUSEADDR, SOL_SOCKET, bind, choose_cca, close, connect, family_of, receive, send,
                                set_option, shutdown, socket_error, tcp_socket)
from traffic.replay.records import FINISHED, UNFINISHED

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from traffic.replay.endpoint import End
    from traffic.replay.eventloop import EventLoop

# What a connection is waiting for
CONNECTING, DATA, TIMER, ROOM, CLOSE = range(5)

NOWHERE = 1 << 62
IN_EVENTS = EPOLLIN | EPOLLRDHUP | EPOLLET
BROKEN = EPOLLERR | EPOLLHUP


class Connection:
    """State of one end; `number` names it in the event loop. Instants are ns since t0."""

    __slots__ = ("loop", "end", "index", "number", "fd", "state", "op", "last_op", "left",
                 "peer_op", "peer_last", "mark", "read", "expected", "closes", "listens", "out_place",
                 "in_place")

    def __init__(self, loop: EventLoop, end: End, index: int, number: int) -> None:
        self.loop = loop
        self.end = end          # the End this connection belongs to
        self.index = index      # row of the plan
        self.number = number
        self.fd = -1
        self.state = CONNECTING
        self.op, self.last_op = end.own_first[index], end.own_first[index + 1]
        self.left = 0           # bytes of the current op not yet written
        self.peer_op, self.peer_last = end.peer_first[index], end.peer_first[index + 1]
        self.read = 0           # bytes
        self.expected = sum(end.peer_bytes[self.peer_op:self.peer_last])
        # bytes read at which the peer's current ADU is complete
        self.mark = end.peer_bytes[self.peer_op] if self.expected else NOWHERE
        # May close when all is over: has a FIN of its own, or has seen the peer's
        self.closes = self.op < self.last_op and not end.own_bytes[self.last_op - 1]
        self.listens = IN_EVENTS
        # places in the payload's sequence: of the next byte to send, of the next to come
        phase = end.phase + index * STEP
        self.out_place, self.in_place = phase % PERIOD, (phase + end.backwards) % PERIOD

    def connect(self, now: int) -> None:
        """Initiator: open a socket of the connection's own port and begin to connect."""
        end, index = self.end, self.index
        records = end.records
        records.start_us[index] = now // 1000
        records.status[index] = UNFINISHED
        fd = self.fd = tcp_socket(family_of(end.local_ip))
        if fd < 0:
            return self.fail(-fd, now)
        error = self.set_options()
        if not error and end.shares_ports:
            error = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1)
        if not error and end.cca:
            error = choose_cca(fd, end.cca)
        for _, level, number, value in end.socket_options:
            error = error or set_option(fd, level, number, value)
        error = error or bind(fd, end.local_ip, end.port_of(index))
        if not error:
            error = connect(fd, end.peer_ip, end.port)
            if error == -EINPROGRESS:
                error = 0
            late = end.options.after_syn(index)
            if late and not error:
                error = set_option(fd, *late)
        if error:
            return self.fail(-error, now)
        self.listens = IN_EVENTS | EPOLLOUT
        self.loop.epoll.add(fd, self.listens, self.number)

    def set_options(self) -> int:
        """Set what the vector asks for; 0 or a negative errno."""
        for option in self.end.options.at_first(self.index):
            error = set_option(self.fd, *option)
            if error:
                return error
        return 0

    def accepted(self, fd: int, now: int) -> None:
        """Acceptor: take over the socket of an established connection."""
        index, records = self.index, self.end.records
        self.fd = fd
        records.status[index] = UNFINISHED
        self.end.note_cca(fd)
        error = self.set_options()
        if error:
            return self.fail(-error, now)
        # Without EPOLLOUT: it would be reported at once, and most programs never need it
        self.loop.epoll.add(fd, IN_EVENTS, self.number)
        self.go_on(now)

    def handle(self, events: int, now: int) -> None:
        """Something happened on the socket."""
        state = self.state
        if state == CONNECTING:
            if events & BROKEN:
                return self.fail(socket_error(self.fd), now)
            self.end.records.connected_us[self.index] = now // 1000
            self.end.note_cca(self.fd)
            self.state = DATA
            self.go_on(now)
            if self.fd < 0 or not events & EPOLLIN:
                return
            state = self.state
        elif events & EPOLLERR:
            return self.fail(socket_error(self.fd) or EPIPE, now)
        if events & EPOLLIN and self.read < self.expected:
            self.take(now)
            if self.fd < 0:
                return
        if events & EPOLLRDHUP:
            if self.read < self.expected:
                return self.fail(EPIPE, now)    # closed before it had sent everything
            self.closes = True
        if self.state == CLOSE:
            self.close_if_done(now)
        elif state == ROOM and events & EPOLLOUT and self.write_on(now):
            self.go_on(now)

    def take(self, now: int) -> None:
        """Read all there is; note which ADUs are complete; go on if they were waited for."""
        if not self.receive_all(now):
            return
        if self.end.options.limit_windows:
            again = self.end.options.window_again(self.index)
            if again:
                set_option(self.fd, *again)
        read = self.read
        if read >= self.mark:
            end, op, mark = self.end, self.peer_op, self.mark
            delivered_us, peer_bytes, now_us = end.records.delivered_us, end.peer_bytes, now // 1000
            while read >= mark:
                delivered_us[op] = now_us
                op += 1
                more = peer_bytes[op] if op < self.peer_last else 0     # 0: only FIN is left
                mark = mark + more if more else NOWHERE
            self.peer_op, self.mark = op, mark
            if self.state == DATA:
                self.go_on(now)

    def receive_all(self, now: int) -> bool:
        """Read all there is of what is to come, and look at it. False if nothing came, or the connection failed."""
        loop, tally, before = self.loop, self.end.tally, self.read
        asked = n = 0
        while n == asked and self.read < self.expected:
            asked = min(self.expected - self.read, SEND_BUFFER_BYTES)
            n = receive(self.fd, loop.buffer_at, asked)
            if n <= 0:
                if n != -EAGAIN:
                    self.fail(-n or EPIPE, now)
                    return False
                break
            if loop.pattern.wrong(loop.buffer_at, n, self.in_place):
                tally.note_wrong(self.index, self.read)
            tally.checked_bytes += n
            self.in_place = (self.in_place + n) % PERIOD
            self.read += n
        return self.read > before

    def go_on(self, now: int) -> None:
        """The previous op is over or data came: execute what is due at `now`."""
        end = self.end
        while self.op < self.last_op:
            op = self.op
            if end.own_need[op] > self.read:
                self.state = DATA
                return
            wait_us = end.own_wait_us[op]
            if wait_us:
                self.state = TIMER
                self.loop.call_at(now + 1000 * wait_us, self.number)
                return
            if not self.begin(now):
                return
        self.state = CLOSE
        self.close_if_done(now)

    def timer(self, now: int) -> None:
        """The wait of the current op is over."""
        if self.begin(now):
            self.go_on(now)

    def begin(self, now: int) -> bool:
        """Begin the current op. True when it is over."""
        op, end = self.op, self.end
        end.records.sent_us[op] = now // 1000
        self.left = end.own_bytes[op]
        if self.left:
            return self.write_on(now)
        if self.read == self.expected:
            # close() alone sends the FIN, and of the peer only its FIN can follow
            self.over(FINISHED, now)
            return False
        error = shutdown(self.fd)
        if error:
            self.fail(-error, now)
            return False
        self.op = op + 1
        return True

    def write_on(self, now: int) -> bool:
        """Write what is left of the current op. True when it is all in the socket's buffer."""
        while self.left:
            size = self.left if self.left < SEND_BUFFER_BYTES else SEND_BUFFER_BYTES
            n = send(self.fd, self.loop.pattern.address + self.out_place, size)
            if n < 0 and n != -EAGAIN:
                self.fail(-n, now)
                return False
            if n > 0:
                self.left -= n
                self.out_place = (self.out_place + n) % PERIOD
            if n < size:        # full: the kernel reports room once a third is free
                self.state = ROOM
                if not self.listens & EPOLLOUT:
                    self.listens = IN_EVENTS | EPOLLOUT
                    self.loop.epoll.modify(self.fd, self.listens, self.number)
                return False
        self.op += 1
        return True

    def close_if_done(self, now: int) -> None:
        """The program is over: close when all is read, and without a FIN of its own at EOF."""
        if self.closes and self.read == self.expected:
            self.over(FINISHED, now)

    def fail(self, errno: int, now: int) -> None:
        """Close after an error; one that comes of the peer's stop at the end does not count."""
        if not self.loop.at_end():
            self.over(-errno, now)

    def over(self, status: int, now: int) -> None:
        """Close; `status` as in the records."""
        if self.fd >= 0:
            close(self.fd)
        self.fd = -1
        records, index = self.end.records, self.index
        records.status[index] = status
        records.end_us[index] = now // 1000
        records.read_bytes[index] = self.read
        del self.loop.connections[self.number]
