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
from traffic.greedy import ends
from traffic.io.clock import now_ns, sleep_ns
from traffic.io.payload import LONGEST_BYTES, Pattern, phase

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from collections.abc import Callable

#: what a flow that rests now and then may have written ahead: it goes on until that is sent
_MOST_UNSENT_BYTES = 1 << 17
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
    receivers = [(end, _thread(end, _receive, listener, end, counts, pattern,
                               memoryview(memory)[number * size:(number + 1) * size]))
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
    flow, place = end.flow, phase(end.flow["flow"])
    stop_ns = t0_ns + flow["stop_us"] * 1000
    bursts_ns = [(t0_ns + begin_us * 1000, t0_ns + end_us * 1000)
                 for begin_us, end_us in flow.get("bursts_us") or [(flow["start_us"], flow["stop_us"])]]
    end.host.enter()
    program.sleep_until(bursts_ns[0][0])
    left = flow.get("bytes")
    with ends.sender(flow) as connection:
        if "bursts_us" in flow:
            connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _MOST_UNSENT_BYTES)
        end.note_birth(connection)
        connection.connect((flow["address"], flow["port"]))
        end.note_cca(connection)
        if "pace" in flow:
            _write_at_instants(connection, end, bursts_ns[0], counts, pattern)
            return
        for begin_ns, end_ns in bursts_ns:
            program.sleep_until(begin_ns)
            while left != 0 and (left_ns := end_ns - now_ns()) > 0:
                connection.settimeout(left_ns / 1e9)
                try:
                    sent = connection.send(pattern.view[place:place + min(left or LONGEST_BYTES, LONGEST_BYTES)])
                except TimeoutError:
                    break
                end.woken()
                place = pattern.after(place, sent)
                counts.sent(end, sent)
                if left:
                    left -= sent
        if left == 0:
            _wait_for_close(connection, stop_ns)
        else:
            program.sleep_until(stop_ns)


def _write_at_instants(connection: socket.socket, end: End, span_ns: tuple[int, int], counts: ends.Counts,
                       pattern: Pattern) -> None:
    """Write a piece at each instant; those that pass while the socket takes none are left out."""
    flow, place, number = end.flow, phase(end.flow["flow"]), 0
    size, gap_ns = flow["pace"]["bytes"], flow["pace"]["gap_ns"]
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    first_ns, end_ns = span_ns
    while (due_ns := first_ns + number * gap_ns) < end_ns:
        program.sleep_until(due_ns)
        left = size
        while left and (left_ns := end_ns - now_ns()) > 0:
            connection.settimeout(left_ns / 1e9)
            try:
                sent = connection.send(pattern.view[place:place + left])
            except TimeoutError:
                return
            end.woken()
            left -= sent
            place = pattern.after(place, sent)
            counts.sent(end, sent)
        number = max(number + 1, -(-(now_ns() - first_ns) // gap_ns))
    program.sleep_until(end_ns)


def _wait_for_close(connection: socket.socket, end_ns: int) -> None:
    """The receiver closes when it has everything; until then the socket is there to be sampled."""
    connection.settimeout(max(1, end_ns - now_ns()) / 1e9)
    try:
        connection.recv(1)
    except TimeoutError:
        pass
