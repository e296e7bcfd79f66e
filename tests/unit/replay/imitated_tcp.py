# SPDX-License-Identifier: GPL-2.0-only
"""A clock that is set forward, and TCP connections on it, as far as a replay can see them.

What is sent leaves at a rate, arrives after a delay, and makes room in the sender's buffer another delay later. No
segment is lost: what a network does to packets is no matter here.
"""
import collections
import errno
import heapq

MSS_BYTES = 1448


class World:
    """What two hosts share: the time, what is to happen, who listens, and what went wrong (`problems`, texts)."""

    def __init__(self, delay_ns, rate_bps, send_buffer_bytes, writers_first=False, now_ns=5_000_000_000, *, clock):
        """writers_first: a RST, which one operation is told of, wakes them before readers; clock: a list whose first
        number is the time."""
        self.delay_ns, self.rate_bps, self.send_buffer_bytes = delay_ns, rate_bps, send_buffer_bytes
        self.writers_first, self._clock = writers_first, clock
        self.now_ns = now_ns
        self.listeners = {}         # port -> Listener
        self.problems = []
        self._later = []
        self._count = 0
        self._soon = collections.deque()

    @property
    def now_ns(self):
        return self._clock[0]

    @now_ns.setter
    def now_ns(self, now_ns):
        self._clock[0] = now_ns

    def at(self, instant_ns, do, *arguments):
        self._count += 1
        heapq.heappush(self._later, (max(instant_ns, self.now_ns), self._count, do, arguments))

    def after_delay(self, do, *arguments):
        self.at(self.now_ns + self.delay_ns, do, *arguments)

    def soon(self, do, *arguments):
        """At this instant, when what is being done is over."""
        self._soon.append((do, arguments))

    def settle(self):
        """Do all that is to be done soon."""
        while self._soon:
            do, arguments = self._soon.popleft()
            do(*arguments)

    def step(self):
        """Go on to the next thing; False if nothing is left."""
        if not self._later:
            return False
        self.now_ns, _, do, arguments = heapq.heappop(self._later)
        do(*arguments)
        self.settle()
        return True


class Listener:
    """Connections that nobody has accepted yet, and who waits for one."""

    def __init__(self, host):
        self.host = host
        self.queue, self.waiting = collections.deque(), []


class Socket:
    """One end of a connection, or what may become one."""

    def __init__(self, world):
        self.world = world
        self.peer = self.port = self.flow = None        # port: the initiator's; flow: whose socket this is
        self.received = bytearray()
        self.ended = False          # the peer sends nothing more
        self.reset = False
        self._error = 0             # not told yet
        self._sent_fin = self._closed = self._to_close = False
        self._in_flight_bytes = self._free_ns = 0
        self._users = 0
        self._readers, self._writers = [], []

    # --- what operations do

    def use(self):
        """An operation is under way, which keeps the socket open."""
        self._users += 1

    def leave(self):
        self._users -= 1
        if self._to_close and not self._users:
            self._close()

    def close_when_left(self):
        self._to_close = True
        if not self._users:
            self._close()

    def take_error(self):
        """An errno that was not told yet, 0 if there is none."""
        error, self._error = self._error, 0
        return error

    def write(self, data):
        """The number of bytes that were taken, or a negative errno."""
        error = self.take_error() or (errno.EPIPE if self.reset or self._sent_fin else 0)
        if error:
            return -error
        data = data[:max(0, self.world.send_buffer_bytes - self._in_flight_bytes)]
        self._in_flight_bytes += len(data)
        for first in range(0, len(data), MSS_BYTES):
            segment = data[first:first + MSS_BYTES]
            self._free_ns = (max(self._free_ns, self.world.now_ns)
                             + len(segment) * 8_000_000_000 // self.world.rate_bps)
            self.world.at(self._free_ns + self.world.delay_ns, self._arrives, segment)
        return len(data) or -errno.EAGAIN

    def send_fin(self):
        if not self._sent_fin and not self.reset:
            self._sent_fin = True
            self._free_ns = max(self._free_ns, self.world.now_ns)
            self.world.at(self._free_ns + self.world.delay_ns, self._fin_arrives)

    def when_readable(self, do):
        self._readers.append(do)

    def when_writable(self, do):
        self._writers.append(do)

    def break_off(self):
        """A RST has come."""
        if not self.reset:
            self.reset = self.ended = True
            self._error = errno.ECONNRESET
            waiting = [self._readers, self._writers]
            for some in reversed(waiting) if self.world.writers_first else waiting:
                self._wake(some)

    # --- what the network does

    def _arrives(self, segment):
        peer = self.peer
        if peer.reset or peer._closed:
            return self.world.after_delay(self.break_off)
        peer.received += segment
        peer._wake(peer._readers)
        return self.world.after_delay(self._acknowledged, len(segment))

    def _acknowledged(self, size):
        self._in_flight_bytes -= size
        if self._in_flight_bytes < self.world.send_buffer_bytes * 2 // 3:
            self._wake(self._writers)

    def _fin_arrives(self):
        if not self.peer.reset:
            self.peer.ended = True
            self.peer._wake(self.peer._readers)

    def _close(self):
        if self._closed or self.peer is None:
            return
        self._closed = True
        if self.received and not self.reset:        # with data that nobody read: tcp_close sends a RST
            self.reset = True
            self.world.at(max(self._free_ns, self.world.now_ns) + self.world.delay_ns, self.peer.break_off)
        else:
            self.send_fin()

    def _wake(self, waiting):
        for do in waiting:
            self.world.soon(do)
        waiting.clear()
