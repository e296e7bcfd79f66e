# SPDX-License-Identifier: GPL-2.0-only
"""Carries out one script: makes its calls and packets when they are due, and compares what the kernel does.

An event's time counts from the moment at which the event before was over, and of a blocking call from its start.
"""
from __future__ import annotations

import contextlib
import dataclasses
import io
import ipaddress
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType

from testbed.packet_scripts import options as tcp_options, packets, tcp_info
from testbed.packet_scripts.calls import CallError, Calls, Prepared, errno_name
from testbed.packet_scripts.device import Arrived, Device, Merged, aligned_start_ns, now_ns
from testbed.packet_scripts.language import (Call, Clock, Event, IpFields, Options, Packet, Python, Script, Shell, Tcp,
                                             Udp, Way, When)
from testbed.packet_scripts.packets import Connection, Ends, Seen

#: how long a call that should not block may take before it counts as blocked
_BLOCKED_S = 1
#: how long a packet is waited for that is late, to say when it came
_LATE_NS = 10 * 10**9
#: how long a packet is waited for that may come at any time
_ANY_NS = 3600 * 10**9
_SHELL_S = 60
_FIRST_PORT = 40001
_TCP_CONGESTION = 13


class Failed(Exception):
    """The kernel did something else than the script says. lines: what was expected and seen, one below the other."""

    def __init__(self, event: Event, what: str, *lines: str) -> None:
        super().__init__(what)
        self.event, self.what, self.lines = event, what, lines


class _Blocking(threading.Thread):
    """A call that may block, in a thread of its own."""

    def __init__(self, event: Event, call: Call, prepared: Prepared, started_ns: int) -> None:
        super().__init__(daemon=True)
        self.event, self.call, self.prepared, self.started_ns = event, call, prepared, started_ns
        self.entered = False
        self.result: int | None = None
        self.ended_ns = 0

    def run(self) -> None:
        # a signal, such as that of a command that has ended, would cut the call short
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self.entered = True
        result = self.prepared.run()
        self.ended_ns = now_ns()
        self.result = result

    def wait_until_it_blocks(self) -> None:
        """Until the thread sleeps in the kernel, or has ended. No time passes."""
        while self.is_alive() and not (self.entered and self._sleeps()):
            os.sched_yield()

    def _sleeps(self) -> bool:
        try:
            with open(f"/proc/self/task/{self.native_id}/stat", encoding="ascii") as file:
                return file.read().rpartition(")")[2].split()[0] == "S"
        except (FileNotFoundError, ProcessLookupError):
            return False                # it has just ended


class Interpreter:
    """One script in the network namespace of this process."""

    def __init__(self, script: Script, cca: str, ticks_per_s: int,
                 socket_options: Sequence[tuple[str, int, int, int]] = ()) -> None:
        """cca, socket_options (name, level, number, value): that all sockets of TCP have from the first."""
        self._socket_options = socket_options
        self._script, self._cca, self._ticks_per_s = script, cca, ticks_per_s
        self._options: Options = script.options
        self._device = Device()
        self._calls = Calls(script.options)
        self._connections: list[Connection] = []
        self._current: Connection | None = None
        #: the descriptor of the script's last socket(), and those that listen
        self._last_socket: int | None = None
        self._listening: dict[int, int] = {}
        self._ports = itertools.count(_FIRST_PORT)
        self._blocked: _Blocking | None = None
        self._names: dict[str, object] = {}
        self._start_ns = 0
        #: when the event before was over
        self._over_ns = 0
        self._said = io.StringIO()
        self._trace: list[str] = []

    def trace(self) -> list[str]:
        """All packets in their order, also those that the script did not get to."""
        self._device.collect()
        for arrived in self._device.arrived:
            seen = packets.parsed(arrived.data)
            if seen and (connection := self._of(seen)):
                with contextlib.suppress(tcp_options.BadOptions):
                    self._note(arrived.at_ns, packets.scripted(seen, connection))
        return self._trace

    def _of(self, seen: Seen) -> Connection | None:
        return next((one for one in self._connections if one.ends == seen.ends), None)

    def _note(self, at_ns: int, packet: Packet) -> None:
        ip = IpFields(ecn=packet.ip.ecn or None)
        self._trace.append(f"{self._seconds_of(at_ns)} {packet.way.value} "
                           f"{packets.words(dataclasses.replace(packet, ip=ip))}")

    @property
    def elapsed_ns(self) -> int:
        """The script's time now."""
        return now_ns() - self._start_ns if self._start_ns else 0

    @property
    def output(self) -> str:
        """What the script's Python and commands printed."""
        return self._said.getvalue()

    def run(self) -> None:
        """Failed, CallError."""
        _set_up_addresses(self._options)
        signal.signal(signal.SIGALRM, _interrupt)
        events = list(self._script.events)
        # what is done before anything else takes no part in the script's time
        while events and isinstance(shell := events[0].what, Shell) and events[0].when == When(Clock.BEFORE):
            self._shell(events.pop(0), shell)
        self._start_ns = self._over_ns = aligned_start_ns(now_ns(), self._ticks_per_s)
        self._device.wait(self._start_ns)
        self._device.arrived.clear()
        self._calls.start_real_ns = time.time_ns() - (time.monotonic_ns() - self._start_ns)
        for event in events:
            self._carry_out(event)
        self._finish_blocking()

    def _carry_out(self, event: Event) -> None:
        base = self._start_ns if event.when.clock is Clock.START else self._over_ns
        due = base + event.when.start_ns
        what = event.what
        if isinstance(what, Packet) and what.way is Way.OUT:
            self._expect(event, what, due, base)
            return
        self._device.wait(due)
        if (late := now_ns() - due) > self._tolerance_ns(due - self._over_ns):
            raise Failed(event, f"{_seconds(late)} s too late for this event, which was due at "
                                f"{self._seconds_of(due)} s")
        self._over_ns = now_ns()
        if isinstance(what, Packet):
            self._inject(event, what)
        elif isinstance(what, Call):
            self._call(event, what, base)
            return
        elif isinstance(what, Shell):
            self._shell(event, what)
        else:
            self._python(event, what)
        if self._blocked:               # it may go on by what has happened, before anything else does
            self._blocked.wait_until_it_blocks()
        self._device.collect()

    def _tolerance_ns(self, after_ns: int) -> int:
        """How far the time of something may be off that is due so long after the event before."""
        return max(self._options.tolerance_us * 1000, int(self._options.tolerance_percent / 100 * max(0, after_ns)))

    def _seconds_of(self, ns: int) -> str:
        return _seconds(ns - self._start_ns)

    # --- packets in

    def _inject(self, event: Event, packet: Packet) -> None:
        connection = self._connection_for(event, packet)
        what = packet.transport
        if isinstance(what, Tcp) and "S" in what.flags:
            if connection.remote_start is None:
                connection.remote_start = what.start
            elif "." not in what.flags and what.start != connection.remote_start:
                connection.other_start = what.start
        self._note(self._over_ns, packet)
        merged = Merged(connection.ends.six, self._options.mss) if isinstance(what, Tcp) and self._options.mss else None
        try:
            self._device.send(packets.composed(packet, connection), merged)
        except OSError as problem:
            raise Failed(event, f"the kernel does not take this packet from the device: {problem.strerror}") from None

    def _connection_for(self, event: Event, packet: Packet) -> Connection:
        """The connection of a packet that arrives. A SYN for a socket that listens begins one."""
        self._note_sockets()
        what, current = packet.transport, self._current
        if current is None and isinstance(what, Tcp):
            port = self._listening.get(self._last_socket if self._last_socket is not None else -1)
            if port is None:
                port = next(iter(self._listening.values()), self._options.bind_port)
            current = self._begin(self._ends(port))
        elif current is None:
            current = self._begin(self._ends_of_datagrams())
        if current is None:
            raise Failed(event, "there is no socket that this packet could belong to")
        return current

    def _ends(self, port: int) -> Ends:
        return Ends(self._options.local_ip, port, self._options.remote_ip, next(self._ports))

    def _ends_of_datagrams(self) -> Ends:
        with self._socket(self._last_socket) as there:
            port = there.getsockname()[1] if there else self._options.bind_port
            try:
                remote = there.getpeername()[1] if there else 0
            except OSError:
                remote = 0
        return Ends(self._options.local_ip, port, self._options.remote_ip, remote or next(self._ports))

    def _begin(self, ends: Ends) -> Connection:
        self._current = Connection(ends)
        self._connections.append(self._current)
        return self._current

    # --- packets out

    def _expect(self, event: Event, wanted: Packet, due: int, base: int) -> None:
        """What the script calls one segment may be several that follow each other, unless it says strict_segments."""
        when = event.when
        last = due if when.end_ns is None else base + when.end_ns
        tolerance = self._tolerance_ns(due - self._over_ns)
        until = base + _ANY_NS if when.clock is Clock.ANY else last + tolerance + _LATE_NS
        left: Packet | None = wanted
        while left:
            arrived, seen, connection = self._next_packet(event, wanted, until)
            packet = self._scripted(event, wanted, arrived, seen, connection)
            self._note(arrived.at_ns, packet)
            now, left = self._first_part(left, packet)
            if found := packets.differences(now, packet, self._ticks_off()):
                raise Failed(event, f"another packet was sent: {', '.join(found)} "
                                    f"{'differs' if len(found) == 1 else 'differ'}",
                             *self._side_by_side(event, arrived, packet))
            if when.clock is not Clock.ANY \
                    and not due - tolerance <= arrived.at_ns <= last + tolerance:
                wants = self._seconds_of(due) if last == due else \
                    f"{self._seconds_of(due)} to {self._seconds_of(last)}"
                raise Failed(event, f"the packet was sent at {self._seconds_of(arrived.at_ns)} s, expected at {wants} "
                                    "s",
                             *self._side_by_side(event, arrived, packet))
            self._over_ns = arrived.at_ns

    def _ticks_off(self) -> int | None:
        """By how much timestamps may differ; None: they are not compared."""
        tick_us = self._options.tcp_ts_tick_us
        return self._options.tolerance_us // tick_us if tick_us else None

    def _first_part(self, wanted: Packet, seen: Packet) -> tuple[Packet, Packet | None]:
        """What of a packet should be this one, and what should follow."""
        one, other = wanted.transport, seen.transport
        if self._options.strict_segments or not (isinstance(one, Tcp) and isinstance(other, Tcp)) \
                or one.start != other.start or not 0 < other.length < one.length:
            return wanted, None
        # any part may have been pushed; the last one is as the script says
        first = dataclasses.replace(one, end=other.end, flags=one.flags - {"P", "F"} | (other.flags & {"P"}))
        return (dataclasses.replace(wanted, transport=first),
                dataclasses.replace(wanted, transport=dataclasses.replace(one, start=other.end)))

    def _next_packet(self, event: Event, wanted: Packet, until: int) -> tuple[Arrived, Seen, Connection]:
        """The next packet of the script's connection, or the first one of a new connection."""
        while True:
            self._device.wait(until, for_packet=True)
            if not self._device.arrived:
                raise Failed(event, f"no packet was sent by {self._seconds_of(until)} s", f"expected  {event.text}",
                             "seen      nothing")
            arrived = self._device.arrived.popleft()
            seen = packets.parsed(arrived.data)
            if seen is None:
                continue
            self._note_sockets()
            connection = self._of(seen)
            if connection is None and seen.icmp and self._current:
                connection = self._current
            if connection is None and (seen.begins or isinstance(wanted.transport, Udp) and seen.tcp is None):
                connection = self._begin(seen.ends)
                connection.fd = self._descriptor_at(seen.ends.local_port)
            if connection is None or connection is not self._current:
                continue                # of a connection that the script is done with
            return arrived, seen, connection

    def _scripted(self, event: Event, wanted: Packet, arrived: Arrived, seen: Seen, connection: Connection) -> Packet:
        """The packet as a script would write it. The first SYN says where numbers begin."""
        what = wanted.transport
        if seen.tcp is not None and seen.is_syn:
            # a SYN that arrived later was answered as one that begins a connection
            renewed = connection.other_start is not None and not seen.begins and \
                0 < (seen.tcp.ack - connection.other_start) % (1 << 32) <= 1 << 16
            if renewed:
                connection.remote_start, connection.other_start = connection.other_start, None
            if connection.local_start is None or renewed:
                connection.local_start = seen.tcp.seq
                connection.script_local_start = what.start if isinstance(what, Tcp) else 0
        try:
            packet = packets.scripted(seen, connection)
        except tcp_options.BadOptions as problem:
            raise Failed(event, f"the packet has bad options: {problem}") from None
        there = packet.transport
        if isinstance(there, Tcp) and isinstance(what, Tcp):
            packet = dataclasses.replace(packet, transport=self._with_stamps(there, what, connection))
        return packet

    def _with_stamps(self, there: Tcp, wanted: Tcp, connection: Connection) -> Tcp:
        """The segment with its timestamp as the script counts them."""
        stamp = next((one.numbers[0] for one in there.options or ()
                      if one.kind == tcp_options.TIMESTAMP and one.numbers), None)
        script = next((one.numbers[0] for one in wanted.options or () if one.kind == tcp_options.TIMESTAMP), None)
        if stamp is None:
            return there
        if script is not None:
            connection.note_stamp(script, stamp)
        return dataclasses.replace(there, options=tuple(
            dataclasses.replace(one, numbers=(connection.script_stamp(one.numbers[0]), one.numbers[1]))
            if one.kind == tcp_options.TIMESTAMP and one.numbers else one for one in there.options or ()))

    def _side_by_side(self, event: Event, arrived: Arrived, packet: Packet) -> tuple[str, str]:
        wanted = event.what
        assert isinstance(wanted, Packet)
        if isinstance(packet.transport, Tcp) and isinstance(wanted.transport, Tcp) and wanted.transport.window is None:
            packet = dataclasses.replace(packet, transport=dataclasses.replace(packet.transport, window=None))
        ip = IpFields(packet.ip.ecn if wanted.ip.ecn is not None else None,
                      packet.ip.tos if wanted.ip.tos is not None else None,
                      packet.ip.ttl if wanted.ip.ttl is not None else None)
        sign, _, rest = event.text.partition(">")
        time_text = self._seconds_of(arrived.at_ns)
        width = max(len(sign.strip()), len(time_text))
        return (f"expected  {sign.strip():>{width}} > {' '.join(rest.split())}",
                f"seen      {time_text:>{width}} > {packets.words(dataclasses.replace(packet, ip=ip))}")

    # --- system calls

    def _call(self, event: Event, call: Call, base: int) -> None:
        if self._blocked:
            self._blocked.wait_until_it_blocks()
            if self._blocked.is_alive():
                self._finish_blocking()
            self._settle_blocking()
            self._over_ns = max(self._over_ns, now_ns())
        try:
            prepared = self._calls.prepare(call)
        except CallError as problem:
            raise Failed(event, str(problem)) from None
        if event.when.blocking:
            self._blocked = _Blocking(event, call, prepared, base)
            self._blocked.start()
            self._blocked.wait_until_it_blocks()
            self._device.collect()
            if not self._blocked.is_alive() or self._blocked.result is not None:
                self._settle_blocking()
            return
        signal.setitimer(signal.ITIMER_REAL, _BLOCKED_S)
        try:
            result = prepared.run()
        except _Interrupted:
            raise Failed(event, f"{call.name} blocks: a start and an end, such as 0...0.1, expected for calls that "
                                "block") from None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        took = now_ns() - self._over_ns
        self._device.collect()
        if took > self._tolerance_ns(0):
            raise Failed(event, f"{call.name} took {_seconds(took)} s: a start and an end, such as 0...0.1, expected "
                                "for calls that block")
        self._over_ns += took
        self._judge(event, call, prepared, result)

    def _finish_blocking(self) -> None:
        """Let a blocking call come to its end, until a while after it should have."""
        blocked = self._blocked
        if blocked is None:
            return
        after = blocked.event.when.end_ns or 0
        end = blocked.started_ns + after + self._tolerance_ns(after)
        blocked.wait_until_it_blocks()
        while blocked.is_alive() and time.monotonic_ns() < end + _LATE_NS:
            if time.monotonic_ns() < end:
                self._device.wait(end)
                blocked.wait_until_it_blocks()
            else:
                blocked.join(timeout=1)
        self._settle_blocking()

    def _settle_blocking(self) -> None:
        """Judge the call that blocked, now that it is over."""
        blocked, self._blocked = self._blocked, None
        if blocked is None:
            return
        if blocked.result is None:
            raise Failed(blocked.event, f"{blocked.call.name} has not returned by "
                                        f"{self._seconds_of(time.monotonic_ns())} s")
        after = blocked.event.when.end_ns or 0
        end = blocked.started_ns + after
        if abs(blocked.ended_ns - end) > self._tolerance_ns(after):
            raise Failed(blocked.event, f"{blocked.call.name} returned at {self._seconds_of(blocked.ended_ns)} s, "
                                        f"expected at {self._seconds_of(end)} s")
        self._judge(blocked.event, blocked.call, blocked.prepared, blocked.result)

    def _judge(self, event: Event, call: Call, prepared: Prepared, result: int) -> None:
        opened = prepared.opens and result >= 0
        if call.result is not None:
            wrong = (result < 0) != (call.result < 0) or \
                result >= 0 and not opened and result != call.result or \
                result < 0 and call.errno and errno_name(-result) != call.errno
            if wrong:
                seen = f"-1 {errno_name(-result)} ({os.strerror(-result)})" if result < 0 else \
                    "a file descriptor" if opened else str(result)
                raise Failed(event, f"{call.name} gave {seen}, expected {call.result} {call.errno}".rstrip())
        if opened:
            name = call.result if call.result is not None else result
            self._calls.fds[name] = result
            self._opened(event, call, name, result)
        try:
            found = prepared.check(result)
        except CallError as problem:
            raise Failed(event, f"{call.name}: {problem}") from None
        if found:
            raise Failed(event, f"{call.name}: {'; '.join(found)}")
        self._note_call(call, result)

    def _opened(self, event: Event, call: Call, name: int, fd: int) -> None:
        if call.name == "socket":
            self._last_socket, self._current = name, None
            with self._socket(name) as there:
                if there and there.type == socket.SOCK_STREAM:
                    self._set_up(event, there)
        elif call.name.startswith("accept"):
            with self._socket(name) as there:
                try:
                    port = there.getpeername()[1] if there else 0
                except OSError:             # reset before it was accepted
                    port = self._current.ends.remote_port if self._current else 0
            for connection in self._connections:
                if connection.ends.remote_port == port:
                    connection.fd = name

    def _set_up(self, event: Event, there: socket.socket) -> None:
        """Give a socket what all have: the congestion control, then its options."""
        try:
            if self._cca:
                there.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, self._cca.encode())
        except OSError as problem:
            raise Failed(event, f"the kernel gives no socket {self._cca}: {problem.strerror}") from None
        for name, level, number, value in self._socket_options:
            try:
                there.setsockopt(level, number, (value % 2**32).to_bytes(4, sys.byteorder))
            except OSError as problem:
                raise Failed(event, f"socket option {name} = {value}: {problem.strerror}") from None

    def _note_call(self, call: Call, result: int) -> None:
        if call.name == "close" and result >= 0:
            name = self._calls.value(call.arguments[0])
            self._calls.fds.pop(name, None)
            self._listening.pop(name, None)
            for connection in self._connections:
                if connection.fd == name:
                    connection.fd = None
        elif call.name == "listen" and result >= 0:
            name = self._calls.value(call.arguments[0])
            with self._socket(name) as there:
                if there:
                    self._listening[name] = there.getsockname()[1]

    def _note_sockets(self) -> None:
        """A blocking accept or connect may have ended meanwhile."""
        if self._blocked:
            self._blocked.wait_until_it_blocks()
            if self._blocked.result is not None:
                self._settle_blocking()

    @contextlib.contextmanager
    def _socket(self, name: int | None) -> Iterator[socket.socket | None]:
        """The socket of a descriptor of the script; None if there is none."""
        fd = self._calls.fds.get(name) if name is not None else None
        try:
            there = socket.socket(fileno=fd) if fd is not None else None
        except OSError:
            there = None
        try:
            yield there
        finally:
            if there:
                there.detach()

    def _descriptor_at(self, port: int) -> int | None:
        """The socket with a local port that is connected or connecting."""
        for name in reversed(self._calls.fds):
            with self._socket(name) as there:
                if there and name not in self._listening and there.family != socket.AF_UNIX \
                        and there.getsockname()[1] == port:
                    return name
        return None

    # --- commands and statements

    def _shell(self, event: Event, shell: Shell) -> None:
        """Commands compute, and may wait: what passes of the clock is added to no event."""
        try:
            done = subprocess.run(["/bin/sh", "-c", shell.command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, check=False, timeout=_SHELL_S,
                                  env={**os.environ, "PACKETDRILL_PID": str(os.getpid())})
        except subprocess.TimeoutExpired:
            raise Failed(event, f"this command did not end within {_SHELL_S} s") from None
        said = done.stdout.decode("utf-8", "replace")
        self._said.write(said)
        if done.returncode:
            raise Failed(event, f"this command ended with code {done.returncode}", *said.strip().splitlines()[-5:])

    def _python(self, event: Event, python: Python) -> None:
        name = self._current.fd if self._current and self._current.fd is not None else self._last_socket
        with self._socket(name) as there:
            if there and there.type == socket.SOCK_STREAM:
                self._names |= tcp_info.names_of(there)
        try:
            with contextlib.redirect_stdout(self._said):
                exec(compile(python.code, f"{self._script.file}:{event.line}", "exec"), self._names)
        except AssertionError as problem:
            statement = next((frame.lineno for frame in reversed(traceback.extract_tb(problem.__traceback__))
                              if frame.filename.startswith(self._script.file)), None)
            text = python.code.splitlines()[statement - 1].strip() if statement else ""
            raise Failed(event, "this is not so", *([f"expected  {text}"] if text else []),
                         *([f"seen      {problem}"] if str(problem) else [])) from None
        except Exception as problem:
            raise Failed(event, f"its Python fails: {type(problem).__name__}: {problem}") from None


class _Interrupted(Exception):
    """A call took longer than any call that does not block."""


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise _Interrupted


def _seconds(ns: int) -> str:
    """With as many digits as it takes, at least six."""
    whole, rest = divmod(abs(ns), 10**9)
    digits = f"{rest:09d}"
    return f"{'-' * (ns < 0)}{whole}.{digits[:6] if digits.endswith('000') else digits}"


def _set_up_addresses(options: Options) -> None:
    """tun0 with the script's addresses; everything that the script does not mention goes nowhere."""
    six = options.ip_version == "ipv6"
    prefix, net = (64, f"{options.remote_ip}/64") if six else (16, f"{options.remote_ip}/24")
    lines = ["link set dev lo up", f"link set dev tun0 mtu {options.mtu} txqueuelen 10000", "link set dev tun0 up",
             f"address add {options.local_ip}/{prefix} dev tun0{' nodad' * six}"]
    for name in ("all", "default", "tun0"):
        with contextlib.suppress(FileNotFoundError):            # a kernel without IPv6
            with open(f"/proc/sys/net/ipv6/conf/{name}/router_solicitations", "w", encoding="ascii") as file:
                file.write("0")
    lines.append(f"route add {ipaddress.ip_network(net, strict=False)} dev tun0")
    done = subprocess.run(["ip", "-6" if six else "-4", "-batch", "-"], input="\n".join(lines) + "\n", text=True,
                          capture_output=True, check=False)
    if done.returncode:
        raise CallError(f"tun0 cannot be set up: {done.stderr.strip()}")
