# SPDX-License-Identifier: GPL-2.0-only
"""Sender and receiver of greedy flows as plain sockets, one process per node.

    python -m traffic.greedy.flows JOB.json

job: {"send": [{flow, address, port, start_us, stop_us, cca}], "receive": [{flow, address, port, cca}],
"duration_us"}; a flow may have `bytes` (to send exactly that many), `maxseg` (largest segment, with time stamps) and
`window_bytes` (the most that the receiver lets be in flight), and at the sender `sequence_start` and `bursts_us`
[[from, to], ...]: it sends then only, over the same connection; and `pace` {bytes, gap_ns}: so much at a time, at
instants so far apart. `cca` is null where the host's default is
right. With "wakeup_cost_us" every read and write that returns costs that much time before the program goes on.
Prints "ready", reads "start <t0 ns>", ends at t0 + duration with "done {bytes per flow}". The account's `ends` say of
each flow which congestion control the socket here uses and, at the receiver, what it found in the payload.
"""
import ctypes
import errno
import itertools
import os
import socket
import struct
import sys
import threading
from typing import Any

from topologies import ip
from traffic import program
from traffic.clock import now_ns, sleep_ns
from traffic.payload import LONGEST_BYTES, PERIOD, Pattern, Tally, phase

_Order = dict[str, Any]
_Account = dict[str, Any]

# Wake the receiver for half a megabyte at a time: it must not cost a system call per packet. But
# what lies unread takes from the receive window, so never for more than 1/32 of that.
_LOW_WATER_BYTES, _WINDOW_SHARE = 1 << 19, 32
_READS_BETWEEN = 8                              # looks at the window, which grows in slow start
_RECEIVE_WINDOW = struct.Struct("=64xI")        # tcpi_rcv_ssthresh in struct tcp_info
#: what a flow that rests now and then may have written ahead: it goes on until that is sent
_MOST_UNSENT_BYTES = 1 << 17
# a buffer of so many windows holds a window with what the kernel needs besides
_BUFFER_WINDOWS = 4
_END = {"send": "sender", "receive": "receiver"}
# include/uapi/linux/tcp.h
_TCP_CONGESTION, _TCP_NOTSENT_LOWAT = 13, 25
_TCP_REPAIR, _TCP_REPAIR_QUEUE, _TCP_QUEUE_SEQ = 19, 20, 21
_TCP_SEND_QUEUE, _REPAIR_OFF_WITHOUT_PROBE = 2, -1


def main() -> None:
    job = program.read_job()
    # delivered_us: when the receiver had read the last byte, of flows that came to an end
    account: _Account = {"sent_bytes": {flow["flow"]: 0 for flow in job["send"]},
                         "received_bytes": {flow["flow"]: 0 for flow in job["receive"]}, "delivered_us": {}}
    ends = [_End(flow, role, job.get("wakeup_cost_us", 0) * 1000) for role in ("send", "receive") for flow in job[role]]
    pattern = Pattern()
    listeners = [_listen(flow) for flow in job["receive"]]
    t0_ns = program.wait_for_start()
    end_ns = t0_ns + job["duration_us"] * 1000
    threading.excepthook = _fail
    receivers = [(end, threading.Thread(target=_receive, args=(listener, end, t0_ns, account, pattern), daemon=True))
                 for listener, end in zip(listeners, (end for end in ends if end.role == "receive"))]
    threads = [thread for _, thread in receivers]
    threads += [threading.Thread(target=_send, args=(end, t0_ns, account, pattern), daemon=True)
                for end in ends if end.role == "send"]
    for thread in threads:
        thread.start()
    program.sleep_until(end_ns)
    for end, thread in receivers:
        end.take_less(thread)
    account["ends"] = [end.account() for end in ends]
    program.done(account)


class _End:
    """This node's end of a flow: what it found out about its connection."""

    def __init__(self, flow: _Order, role: str, wakeup_cost_ns: int) -> None:
        self.flow, self.role = flow, role
        self._wakeup_cost_ns = wakeup_cost_ns
        self.tally = Tally()
        #: of a receiver, while it reads; and that it has been told to take what there is
        self.reading: socket.socket | None = None
        self.hurried = False
        self._ccas: dict[str, int] = {}

    def note_cca(self, connection: socket.socket) -> None:
        """Note the congestion control that a connected socket uses."""
        name = connection.getsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, 16).partition(b"\0")[0].decode()
        self._ccas[name] = self._ccas.get(name, 0) + 1

    def woken(self) -> None:
        """What being woken costs (docs/hosts.md)."""
        if self._wakeup_cost_ns:
            sleep_ns(self._wakeup_cost_ns)

    def take_less(self, reader: threading.Thread) -> None:
        """At the end, let a receiver have what is less than it waits for, if that is all it got: it has to be compared.

        The kernel has put it into the reader's buffer already, and hands it over when nothing more can come.
        """
        connection = self.reading
        if connection is None or self.tally.checked_bytes:
            return
        self.hurried = True
        try:
            connection.shutdown(socket.SHUT_RD)
        except OSError as problem:
            if problem.errno != errno.ENOTCONN:         # then the sender has gone, and that ends the reading, too
                raise
        reader.join()

    def account(self) -> dict[str, Any]:
        """For the program's account."""
        return {"flow": self.flow["flow"], "end": _END[self.role], "ccas": self._ccas,
                **self.tally.account()}


def _fail(problem: threading.ExceptHookArgs) -> None:
    """A flow that is not there must not go unnoticed."""
    if problem.exc_value:
        sys.__excepthook__(problem.exc_type, problem.exc_value, problem.exc_traceback)
    sys.stderr.flush()
    os._exit(1)


def _listen(flow: _Order) -> socket.socket:
    listener = socket.socket(ip.family(flow["address"]))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _set_cca(listener, flow)
    _set_segment(listener, flow)
    if "window_bytes" in flow:
        # a buffer that was set keeps the kernel from tuning it, and the window with it
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_WINDOWS * flow["window_bytes"])
        _clamp_window(listener, flow)
    listener.bind((flow["address"], flow["port"]))
    listener.listen()
    return listener


def _receive(listener: socket.socket, end: _End, t0_ns: int, account: _Account, pattern: Pattern) -> None:
    connection, _ = listener.accept()
    end.note_cca(connection)
    end.reading = connection
    flow, tally, place = end.flow, end.tally, phase(end.flow["flow"])
    left = flow.get("bytes")
    low_water = None
    buffer = bytearray(LONGEST_BYTES)
    buffer_at = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    for reads in itertools.count():
        if reads % _READS_BETWEEN == 0:
            share = min(_share_of_window(connection), _LOW_WATER_BYTES)
        # of the last byte the instant matters, so it must not wait for a FIN
        wanted = share if left is None else min(share, left)
        if wanted != low_water:
            low_water = wanted
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low_water)
        received = connection.recv_into(buffer)
        if reads == 0:
            # the kernel has put another clamp in its place when it saw how much memory segments take
            _clamp_window(connection, flow)
        end.woken()
        if not received:
            end.reading = None
            if not end.hurried:
                account["delivered_us"][flow["flow"]] = (now_ns() - t0_ns) // 1000
            return
        if pattern.wrong(buffer_at, received, place):
            tally.note_wrong(0, tally.checked_bytes)
        tally.checked_bytes += received
        place = (place + received) % PERIOD
        account["received_bytes"][flow["flow"]] += received
        if left is not None:
            left -= received
            if left == 0:
                account["delivered_us"][flow["flow"]] = (now_ns() - t0_ns) // 1000
                end.reading = None
                connection.close()
                return


def _share_of_window(connection: socket.socket) -> int:
    window, = _RECEIVE_WINDOW.unpack(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVE_WINDOW.size))
    return int(window) // _WINDOW_SHARE


def _send(end: _End, t0_ns: int, account: _Account, pattern: Pattern) -> None:
    flow, place = end.flow, phase(end.flow["flow"])
    stop_ns = t0_ns + flow["stop_us"] * 1000
    bursts_ns = [(t0_ns + begin_us * 1000, t0_ns + end_us * 1000)
                 for begin_us, end_us in flow.get("bursts_us") or [(flow["start_us"], flow["stop_us"])]]
    program.sleep_until(bursts_ns[0][0])
    left = flow.get("bytes")
    with socket.socket(ip.family(flow["address"])) as connection:
        _set_cca(connection, flow)
        _set_segment(connection, flow)
        if "sequence_start" in flow:
            _choose_sequence(connection, flow["sequence_start"])
        if "bursts_us" in flow:
            connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _MOST_UNSENT_BYTES)
        connection.connect((flow["address"], flow["port"]))
        end.note_cca(connection)
        if "pace" in flow:
            _write_at_instants(connection, end, bursts_ns[0], account, pattern)
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
                place = (place + sent) % PERIOD
                account["sent_bytes"][flow["flow"]] += sent
                if left:
                    left -= sent
        if left == 0:
            _wait_for_close(connection, stop_ns)
        else:
            program.sleep_until(stop_ns)


def _write_at_instants(connection: socket.socket, end: _End, span_ns: tuple[int, int], account: _Account,
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
            place = (place + sent) % PERIOD
            account["sent_bytes"][flow["flow"]] += sent
        number = max(number + 1, -(-(now_ns() - first_ns) // gap_ns))
    program.sleep_until(end_ns)


def _wait_for_close(connection: socket.socket, end_ns: int) -> None:
    """The receiver closes when it has everything; until then the socket is there to be sampled."""
    connection.settimeout(max(1, end_ns - now_ns()) / 1e9)
    try:
        connection.recv(1)
    except TimeoutError:
        pass


def _set_cca(connection: socket.socket, flow: _Order) -> None:
    name = flow["cca"]
    if not name:
        return
    try:
        connection.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, name.encode())
    except OSError as problem:
        raise OSError(problem.errno,
                      f"congestion control {name!r} of flow {flow['flow']}: {problem.strerror}") from None


def _set_segment(of: socket.socket, flow: _Order) -> None:
    if "maxseg" in flow:
        of.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, flow["maxseg"])


def _clamp_window(of: socket.socket, flow: _Order) -> None:
    if "window_bytes" in flow:
        of.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, flow["window_bytes"])


def _choose_sequence(connection: socket.socket, first: int) -> None:
    """Let the first byte of data have sequence number `first`: the SYN has the one before it.

    connect() keeps a number that was put there in repair mode, unless it is 0.
    """
    for option, value in ((_TCP_REPAIR, 1), (_TCP_REPAIR_QUEUE, _TCP_SEND_QUEUE),
                          (_TCP_QUEUE_SEQ, (first - 1) % (1 << 32)), (_TCP_REPAIR, _REPAIR_OFF_WITHOUT_PROBE)):
        connection.setsockopt(socket.IPPROTO_TCP, option, struct.pack("=I", value % (1 << 32)))


if __name__ == "__main__":
    main()
