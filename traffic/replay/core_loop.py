# SPDX-License-Identifier: GPL-2.0-only
"""Drives all connections of a node by one io_uring, with what is done for each event in C (core/).

Where a system call is dear, as in a guest kernel on ptrace, this takes less than half the time of `eventloop`. Plans,
listeners and records are those of `endpoint`; the library gets the addresses of their columns. gcc makes it when a
bundle of code is made (testbed/core/c_libraries.py).
"""
from __future__ import annotations

import ctypes
import mmap
import os
from array import array

from traffic.io.clock import DEVICE, OFFSET_NS
from traffic.io.payload import Pattern
from traffic.io.sockets import SEND_BUFFER_BYTES, close, family_of, tcp_socket
from traffic.io.uring import Ring, may_ask, run_signal_handlers
from traffic.replay.endpoint import End, listener

#: the library beside this file
LIBRARY = "core.so"
_RING_ENTRIES = 4096
#: memory in which the ring notes instants: blocks of words of 64 bits (core/core.h)
_MOST_BLOCKS, _NOTE_WORDS = 1 << 20, 8
_MAP_NORESERVE = 0x4000
_MOST_CCAS, _CCA_BYTES = 16, 16
_PLAN_COLUMNS = ("own_first", "own_need", "own_wait_us", "own_bytes", "peer_first", "peer_need", "peer_bytes")
_RECORD_COLUMNS = ("start_us", "connected_us", "end_us", "status", "read_bytes", "sent_us", "delivered_us")


def _words(*names: str) -> list[tuple[str, type]]:
    """Fields of a struct: of 64 bits each, addresses too."""
    return [(name, ctypes.c_int64) for name in names]


class SharedRing(ctypes.Structure):
    """struct shared_ring of ../io/ring.h, from `Ring.places`."""
    _fields_ = _words("fd", "entries", "completions", "words", "sq_head", "sq_tail", "cq_head", "cq_tail", "cqes",
                      "sqes", "arguments", "sink", "end", "wait", "wait_size", "clock_fd", "tail")


class _Cca(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int64), ("name", ctypes.c_char * _CCA_BYTES)]


class _End(ctypes.Structure):
    """struct shared_end of core/core.h."""
    _fields_ = [
        *_words("initiates", "connections", "shares_ports", "wraps", "first_port", "ports", "port", "phase",
                "backwards", "planned_us", "mss_own", "mss_peer", "windows", *_PLAN_COLUMNS, *_RECORD_COLUMNS,
                "local_ip", "peer_ip", "ip_size", "cca", "cca_size", "options", "n_options", "listener",
                "checked_bytes", "unchecked_bytes", "wrong_pieces", "wrong_connection", "wrong_position", "n_ccas"),
        ("ccas", _Cca * _MOST_CCAS)]


class _Loop(ctypes.Structure):
    """struct shared_loop of core/core.h."""
    _fields_ = [
        *_words("ends", "n_ends", "ring", "t0_ns", "end_ns", "offset_ns", "clock", "pattern", "wakeup_cost_ns", "notes",
                "asks", "run_signal_handlers", "stopping", "strays", "chains", "error", "error_end")]


def library() -> str | None:
    """The path of the library, None where it was not made."""
    path = os.path.join(os.path.dirname(__file__), LIBRARY)
    return path if os.path.exists(path) else None


def _load(path: str) -> ctypes.PyDLL:
    """The library. Raises ImportError, also if it was made of other code: that is no reason to go without."""
    structs = _Cca, _End, SharedRing, _Loop
    try:
        made = ctypes.PyDLL(path)
        found = (ctypes.c_int64 * len(structs)).in_dll(made, "tmix_sizes")
    except (OSError, ValueError) as error:
        raise ImportError(str(error) if path in str(error) else f"{path}: {error}") from error
    if list(found) != [ctypes.sizeof(struct) for struct in structs]:
        raise ImportError(f"{path} and {__file__} do not agree about what they share")
    return made


class CoreLoop:
    """Replays the `End`s of a node. Instants are ns since t0 on CLOCK_MONOTONIC."""

    def __init__(self, ends: list[End], clock: str, path: str, wakeup_cost_us: int = 0) -> None:
        """Set up the ring and the listeners. Raises OSError, also without such an io_uring.

        clock: a file that, read, has the clock's reading; path: of the library.
        """
        self._shared = _Loop(error_end=-1)      # before a signal handler may set `stopping`
        self.strays = self.chains = 0
        self._core = _load(path)
        self._core.tmix_run.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
        self._core.tmix_close.argtypes = [ctypes.c_void_p]
        self._state = ctypes.c_void_p()
        self._clock = clock
        self._wakeup_cost_ns = 1000 * wakeup_cost_us
        self._ring = Ring(_RING_ENTRIES)
        self._pattern = Pattern(SEND_BUFFER_BYTES)
        self._ends = ends
        self._kept: list[object] = []      # memory whose address the library has
        self._shared_ends = (_End * len(ends))(*(self._shared_end(end) for end in ends))

    @property
    def stopping(self) -> bool:
        """Set by a signal handler; the library looks at it."""
        return bool(self._shared.stopping)

    @stopping.setter
    def stopping(self, stopping: bool) -> None:
        self._shared.stopping = stopping

    def run(self, t0_ns: int, duration_ns: int) -> None:
        """Replay until t0 + duration or `stopping`. Raises OSError."""
        notes, asks = None, False
        if not self._wakeup_cost_ns and self._ring.use_clock(self._clock):
            notes, fd = _notes(), tcp_socket(family_of(self._ends[0].local_ip), nonblocking=False)
            asks = may_ask(self._ring, fd, 0)
            close(fd)
        ring, device = SharedRing(**self._ring.places()), ctypes.create_string_buffer(DEVICE.encode())
        shared = self._shared
        shared.ends, shared.n_ends = ctypes.addressof(self._shared_ends), len(self._ends)
        shared.ring = ctypes.addressof(ring)
        shared.t0_ns, shared.end_ns, shared.offset_ns = t0_ns, t0_ns + duration_ns, OFFSET_NS
        shared.clock, shared.pattern = ctypes.addressof(device), self._pattern.address
        shared.wakeup_cost_ns = self._wakeup_cost_ns
        shared.notes, shared.asks = ctypes.addressof(ctypes.c_char.from_buffer(notes)) if notes else 0, asks
        shared.run_signal_handlers = ctypes.cast(run_signal_handlers, ctypes.c_void_p).value
        self._kept += [ring, device, notes]
        # Raises what a signal handler has raised, too
        failed = self._core.tmix_run(ctypes.addressof(shared), duration_ns, ctypes.addressof(self._state))
        self.strays, self.chains = shared.strays, shared.chains
        for end, found in zip(self._ends, self._shared_ends):
            _take_over(end, found)
        if failed and shared.error_end >= 0:
            end = self._ends[shared.error_end]
            raise OSError(shared.error, f"accept at {end.local} port {end.port}: {os.strerror(shared.error)}")
        if failed:
            raise OSError(shared.error, "io_uring_enter")

    def close(self) -> None:
        """Close everything."""
        self._ring.close()
        if self._state:
            self._core.tmix_close(self._state)

    def _shared_end(self, end: End) -> _End:
        cca = ctypes.create_string_buffer(end.cca.encode()) if end.cca else None
        addresses = [ctypes.create_string_buffer(ip, len(ip)) for ip in (end.local_ip, end.peer_ip)]
        options = array("q", (number for _, *numbers in end.socket_options for number in numbers))
        self._kept += [cca, options, *addresses]
        mss_own, mss_peer = end.options.mss or (None, None)
        return _End(
            initiates=end.initiates, connections=len(end.start_us), shares_ports=end.shares_ports, wraps=end.wraps,
            first_port=end.first_port, ports=end.ports, port=end.port, phase=end.phase, backwards=end.backwards,
            planned_us=_at(end.start_us), mss_own=_at(mss_own), mss_peer=_at(mss_peer),
            windows=_at(end.options.windows if end.options.limit_windows else None),
            local_ip=ctypes.addressof(addresses[0]), peer_ip=ctypes.addressof(addresses[1]), ip_size=len(end.local_ip),
            cca=ctypes.addressof(cca) if cca else 0, cca_size=len(cca) if cca else 0,
            options=_at(options), n_options=len(end.socket_options),
            listener=-1 if end.initiates else listener(end, nonblocking=False),
            **{name: _at(getattr(end, name)) for name in _PLAN_COLUMNS},
            **{name: _at(getattr(end.records, name)) for name in _RECORD_COLUMNS})


def _notes() -> mmap.mmap:
    """Addresses only: pages come when they are touched."""
    return mmap.mmap(-1, _MOST_BLOCKS * _NOTE_WORDS * 8,
                     flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)


def _at(column: array[int] | None) -> int:
    """The address of a column, which must not grow."""
    return column.buffer_info()[0] if column is not None else 0


def _take_over(end: End, found: _End) -> None:
    """What the library has found out about an end."""
    tally = end.tally
    tally.checked_bytes, tally.unchecked_bytes = found.checked_bytes, found.unchecked_bytes
    tally.wrong_pieces = found.wrong_pieces
    if found.wrong_pieces:
        tally.first_wrong = [found.wrong_connection, found.wrong_position]
    for cca in found.ccas[:found.n_ccas]:
        end.note_name(cca.name, cca.count)
