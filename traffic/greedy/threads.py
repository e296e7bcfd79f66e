# SPDX-License-Identifier: GPL-2.0-only
"""Drives flows over plain sockets with a thread for each end.

For what ring.py does not do: flows that rest or write at instants of their own, hosts on which a wake-up takes time,
kernels without its io_uring.
"""
from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
import threading

from traffic import program
from traffic.greedy import ends, misbehaving
from traffic.io.clock import now_ns, sleep_ns
from traffic.io.payload import LONGEST_BYTES, Pattern, phase

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from collections.abc import Callable

#: what a flow that rests now and then may have written ahead: it goes on until that is sent
_MOST_UNSENT_BYTES = 1 << 17
#: ... and one with phases, whose application has nothing more to send when a phase ends
_MOST_UNSENT_BEFORE_A_PHASE_BYTES = 1 << 15
_TCP_NOTSENT_LOWAT = 25         # include/uapi/linux/tcp.h


class End(ends.End):
    """An end that a thread drives."""

    def __init__(self, flow: ends.Order, role: str, host: program.Host) -> None:
        super().__init__(flow, role)
        self.host = host
        self._wakeup_cost_ns = host.job.get("wakeup_cost_us", 0) * 1000
        #: How a receiver reads: whatever comes as soon as it comes, as an application does that reads all the time (an
        #: acknowledgement may depend on that), but inside the kernel until its buffer is full: being woken is dear in a
        #: guest. Where it costs virtual time, too, each time counts
        self.reads = 0 if self._wakeup_cost_ns else socket.MSG_WAITALL
        #: of a receiver, while it reads; and that it has been told to take what there is
        self.reading: socket.socket | None = None
        self.hurried = False

    def woken(self) -> None:
        """What being woken costs (docs/howto/hosts.md)."""
        if self._wakeup_cost_ns:
            sleep_ns(self._wakeup_cost_ns)

    def check_peer(self, address: str) -> None:
        """ConnectionError if a connection comes from another host than the flow's sender: of a program of several, each
        socket has to be made in the right namespace."""
        if self.host.node and address != self.flow["peer"]:
            raise ConnectionError(f"a connection from {address}, not from {self.flow['peer']}")

    def take_less(self, reader: threading.Thread) -> None:
        """At the end, let a receiver have what is less than it waits for: it has to be counted and compared.

        The kernel has put it into the reader's buffer already, and hands it over when nothing more can come.
        """
        connection = self.reading
        if connection is None:
            return
        self.hurried = True
        try:
            connection.shutdown(socket.SHUT_RD)
        except OSError as problem:
            if problem.errno != errno.ENOTCONN:         # then the sender has gone, and that ends the reading, too
                raise
        reader.join()


def run(all_ends: list[End], listeners: list[socket.socket], counts: ends.Counts, pattern: Pattern, t0_ns: int,
        end_ns: int) -> None:
    """From t0 until the end; listeners: those of the receivers, in their order."""
    threading.excepthook = _fail
    of_receivers = [end for end in all_ends if end.role == "receive"]
    size = ends.buffer_bytes(len(of_receivers))
    memory = ends.buffers(len(of_receivers), size)
    receivers = [(end, _thread(end, misbehaving.receive if "receiver" in end.flow else _receive, listener, end, counts,
                               pattern, memoryview(memory)[number * size:(number + 1) * size]))
                 for number, (listener, end) in enumerate(zip(listeners, of_receivers))]
    threads = [thread for _, thread in receivers]
    threads += [_thread(end, _send, end, t0_ns, counts, pattern) for end in all_ends if end.role == "send"]
    for thread in threads:
        thread.start()
    program.sleep_until(end_ns)
    for end, thread in receivers:
        end.take_less(thread)


def _thread(end: End, work: Callable[..., None], *arguments: object) -> threading.Thread:
    return threading.Thread(target=work, daemon=True, args=arguments, name=end.host.name(ends.name(end.flow, end.role)))


def _fail(problem: threading.ExceptHookArgs) -> None:
    """A flow that is not there must not go unnoticed."""
    if isinstance(problem.exc_value, OSError) and problem.thread:
        print(f"{problem.thread.name}: {problem.exc_type.__name__}: {problem.exc_value}", file=sys.stderr)
    elif problem.exc_value:
        sys.__excepthook__(problem.exc_type, problem.exc_value, problem.exc_traceback)
    sys.stderr.flush()
    os._exit(1)


def _receive(listener: socket.socket, end: End, counts: ends.Counts, pattern: Pattern,
             buffer: memoryview) -> None:
    end.note_birth(listener)
    connection, peer = listener.accept()
    end.check_peer(peer[0])
    end.note_cca(connection)
    end.reading = connection
    flow, reader = end.flow, ends.Reader(end, pattern, counts)
    left = flow.get("bytes")
    buffer_at = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    how = 0
    while True:
        # of the last byte the instant matters, so it must not wait for a FIN
        received = connection.recv_into(buffer, min(len(buffer), left or len(buffer)), how)
        if not end.tally.checked_bytes:
            ends.clamp_window(connection, flow)
            how = end.reads
        end.woken()
        if not received:
            end.reading = None
            if not end.hurried:
                counts.delivered(end)
            return
        reader.got(buffer_at, received)
        if left is not None:
            left -= received
            if left == 0:
                counts.delivered(end)
                end.reading = None
                connection.close()
                return


def _send(end: End, t0_ns: int, counts: ends.Counts, pattern: Pattern) -> None:
    flow = end.flow
    stop_ns = t0_ns + flow["stop_us"] * 1000
    end.host.enter()
    if "phases" in flow:
        phases = [_Phase(t0_ns + begin_us * 1000, t0_ns + end_us * 1000, size, gap_ns)
                  for begin_us, end_us, size, gap_ns in flow["phases"]]
    else:
        size, gap_ns = (flow["pace"]["bytes"], flow["pace"]["gap_ns"]) if "pace" in flow else (None, 0)
        phases = [_Phase(t0_ns + begin_us * 1000, t0_ns + end_us * 1000, size, gap_ns)
                  for begin_us, end_us in flow.get("bursts_us") or [(flow["start_us"], flow["stop_us"])]]
    program.sleep_until(phases[0].begin_ns)
    with ends.sender(flow) as connection:
        if "bursts_us" in flow or "phases" in flow:
            connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT,
                                  _MOST_UNSENT_BEFORE_A_PHASE_BYTES if "phases" in flow else _MOST_UNSENT_BYTES)
        end.note_birth(connection)
        connection.connect((flow["address"], flow["port"]))
        end.note_cca(connection)
        writer = _Writer(connection, end, counts, pattern)
        for one in phases:
            program.sleep_until(one.begin_ns)
            if one.piece_bytes is None:
                writer.write_all(one.end_ns)
            else:
                writer.write_at_instants(one, one.piece_bytes)
        if writer.left == 0:
            _wait_for_close(connection, stop_ns)
        else:
            program.sleep_until(stop_ns)


class _Phase:
    """piece_bytes are written at instants gap_ns apart; None: all that the socket takes."""

    def __init__(self, begin_ns: int, end_ns: int, piece_bytes: int | None, gap_ns: int) -> None:
        self.begin_ns, self.end_ns, self.piece_bytes, self.gap_ns = begin_ns, end_ns, piece_bytes, gap_ns


class _Writer:
    """What an application writes. left: of a flow with a size, what is not written yet."""

    def __init__(self, connection: socket.socket, end: End, counts: ends.Counts, pattern: Pattern) -> None:
        self._connection, self._end, self._counts, self._pattern = connection, end, counts, pattern
        self._place = phase(end.flow["flow"])
        self.left: int | None = end.flow.get("bytes")

    def write_all(self, end_ns: int) -> None:
        """All that the socket takes, until all is written or the time is over."""
        while self.left != 0 and (left_ns := end_ns - now_ns()) > 0:
            sent = self._write(min(self.left or LONGEST_BYTES, LONGEST_BYTES), left_ns)
            if sent is None:
                return
            if self.left:
                self.left -= sent

    def write_at_instants(self, one: _Phase, piece_bytes: int) -> None:
        """Write a piece at each instant; those that pass while the socket takes none are left out."""
        number = 0
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while (due_ns := one.begin_ns + number * one.gap_ns) < one.end_ns:
            program.sleep_until(due_ns)
            left = piece_bytes
            while left and (left_ns := one.end_ns - now_ns()) > 0:
                sent = self._write(left, left_ns)
                if sent is None:
                    return
                left -= sent
            number = max(number + 1, -(-(now_ns() - one.begin_ns) // one.gap_ns))
        program.sleep_until(one.end_ns)

    def _write(self, most_bytes: int, longest_ns: int) -> int | None:
        """What was written; None if the socket took nothing for that long."""
        self._connection.settimeout(longest_ns / 1e9)
        try:
            sent = self._connection.send(self._pattern.view[self._place:self._place + most_bytes])
        except TimeoutError:
            return None
        self._end.woken()
        self._place = self._pattern.after(self._place, sent)
        self._counts.sent(self._end, sent)
        return sent


def _wait_for_close(connection: socket.socket, end_ns: int) -> None:
    """The receiver closes when it has everything; until then the socket is there to be sampled."""
    connection.settimeout(max(1, end_ns - now_ns()) / 1e9)
    try:
        connection.recv(1)
    except TimeoutError:
        pass
