# SPDX-License-Identifier: GPL-2.0-only
"""An io_uring: many operations for one system call. See io_uring_enter(2).

Operations are put into the submission ring; `submit_and_wait` hands all of them over and
sleeps until one has completed. Linked operations start when the one before has succeeded;
after a failure the rest is cancelled. Sockets are usual descriptors, not the ring's own
(direct) ones: up to Linux 6.12 closing one of those sends FIN only when every operation begun
earlier on any of them is over (one reference count for the whole table).

Needs Linux 6.11 (bind and listen by io_uring came last); `Ring` raises OSError otherwise. ring.h beside this
file puts operations into a ring in C, for the Tmix replay.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from errno import EBADF, EINTR, EOPNOTSUPP

from traffic.io.sockets import (IPPROTO_TCP, MSG_NOSIGNAL, SEND_BUFFER_BYTES, SOCK_CLOEXEC, TCP_CA_NAME_MAX,
                                TCP_CONGESTION, pack_endpoint)

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import Final

# <linux/io_uring.h>
_OP_RECVMSG: Final = 10
_OP_TIMEOUT: Final = 11
_OP_ACCEPT: Final = 13
_OP_ASYNC_CANCEL: Final = 14
_OP_CONNECT: Final = 16
_OP_CLOSE: Final = 19
_OP_READ: Final = 22
_OP_SEND: Final = 26
_OP_RECV: Final = 27
_OP_SHUTDOWN: Final = 34
_OP_SOCKET: Final = 45
_OP_URING_CMD: Final = 46
_OP_BIND: Final = 56
_NEEDED = (_OP_RECVMSG, _OP_TIMEOUT, _OP_ACCEPT, _OP_ASYNC_CANCEL, _OP_CONNECT, _OP_CLOSE, _OP_READ, _OP_SEND, _OP_RECV,
           _OP_SHUTDOWN, _OP_SOCKET, _OP_URING_CMD, _OP_BIND)
# IOSQE_*; QUIET: no completion after success
LINK: Final = 4
QUIET: Final = 64
_SETUP = 1 << 3 | 1 << 7 | 1 << 12 | 1 << 13        # CQSIZE SUBMIT_ALL SINGLE_ISSUER DEFER_TASKRUN
_ENTER_WAIT: Final = 1 << 0 | 1 << 3               # GETEVENTS EXT_ARG
_OFF_SQ_RING, _OFF_SQES = 0, 0x10000000
_REGISTER_BUFFERS, _UNREGISTER_BUFFERS, _REGISTER_PROBE = 0, 1, 8
_TIMEOUT_ABS: Final = 1
_TIMEOUT_SUCCEEDS: Final = 1 << 5
_CANCEL_EVERYTHING = 1 << 0 | 1 << 2        # ALL ANY
# no attempt before there is something; what is sent lies in registered memory
_POLL_FIRST: Final = 1
_REGISTERED: Final = 4
_GETSOCKOPT: Final = 2                             # SOCKET_URING_OP_GETSOCKOPT
_MSG_DONTWAIT: Final = 0x40
_MSG_WAITALL: Final = 0x100
_SYS_SETUP: Final = 425
_SYS_ENTER: Final = 426
_SYS_REGISTER: Final = 427

# opcode flags ioprio fd off addr len op_flags user_data buf_index+personality file_index addr3 pad
_SQE: Final = struct.Struct("<BBHiQQIIQIIQQ")
_CQE: Final = struct.Struct("<Qi4x")
_PARAMS = struct.Struct("<7I12x8I8x8I8x")     # struct io_uring_params without the addresses
_WAIT = struct.Struct("<QIIQ")      # signals, size of the set, least time (us), address of the time limit or 0
_WAIT_BYTES: Final = _WAIT.size
_TIMESPEC: Final = struct.Struct("<qq")
_ARGUMENT_BYTES: Final = 96        # beside each entry: its timespec, socket address or message
# What one link chain may need; it must not be cut by a submission
LONGEST_CHAIN: Final = 48

_libc = ctypes.PyDLL(None, use_errno=True)
_long, _pointer = ctypes.c_long, ctypes.c_void_p
_syscall = _libc.syscall
_syscall.restype = _long
_syscall.argtypes = [_long] * 7
run_signal_handlers = ctypes.pythonapi.PyErr_CheckSignals


def _address(buffer: bytearray | mmap.mmap | ctypes.Array[ctypes.c_char]) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def _call(what: str, *arguments: int) -> int:
    result: int = _syscall(*arguments, *[0] * (7 - len(arguments)))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


class Ring:
    """One ring. Each operation takes `number`, which its completion carries, and `flags` of
    LINK, QUIET.
    """

    def __init__(self, entries: int) -> None:
        """`entries`: operations that can wait for submission. Raises OSError."""
        params = bytearray(120)
        struct.pack_into("<4xII", params, 0, 8 * entries, _SETUP)
        self._fd = _call("io_uring_setup", _SYS_SETUP, entries, _address(params))
        self._check_operations()
        fields = _PARAMS.unpack(params)
        self._entries, completions = fields[0], fields[1]
        # head, tail, mask, entries, flags, dropped, array of the one; of the other cqes is sixth
        sq, cq = fields[7:15], fields[15:23]
        self._ring = mmap.mmap(self._fd, max(sq[6] + 4 * self._entries, cq[5] + 16 * completions),
                               mmap.MAP_SHARED | mmap.MAP_POPULATE, offset=_OFF_SQ_RING)
        self._sqes = mmap.mmap(self._fd, 64 * self._entries,
                               mmap.MAP_SHARED | mmap.MAP_POPULATE, offset=_OFF_SQES)
        self._words = memoryview(self._ring).cast("I")
        self._sq_head, self._sq_tail = sq[0] // 4, sq[1] // 4
        self._cq_head, self._cq_tail, self._cqes = cq[0] // 4, cq[1] // 4, cq[5]
        self._sq_mask, self._cq_mask = self._entries - 1, completions - 1
        for i in range(self._entries):      # entry i is always at place i
            self._words[sq[6] // 4 + i] = i
        self._tail = 0
        self._waiting = 0           # operations not yet handed over

        self._arguments = bytearray(_ARGUMENT_BYTES * self._entries)
        self._arguments_at = _address(self._arguments)
        # What nobody looks at may overwrite itself
        self._sink = mmap.mmap(-1, SEND_BUFFER_BYTES)
        self._sink_at = _address(self._sink)
        self._end = bytearray(1)
        self._end_at = _address(self._end)
        self._send_priority = 0
        self._clock = -1
        # While waiting no signal is blocked, whatever the caller blocks otherwise
        self._signals = bytearray(8)
        self._wait = bytearray(_WAIT.pack(_address(self._signals), 8, 0, 0))
        self._wait_at = _address(self._wait)

    def _check_operations(self) -> None:
        probe = bytearray(16 + 8 * 64)
        _call("io_uring probe", _SYS_REGISTER, self._fd, _REGISTER_PROBE, _address(probe), 64)
        known = probe[1]
        if known > 64:
            known = 64
        for op in _NEEDED:
            if op >= known or not probe[16 + 8 * op + 2] & 1:
                os.close(self._fd)
                raise OSError(EOPNOTSUPP, f"io_uring of this kernel has no operation {op}")

    def _put(self, opcode: int, flags: int, priority: int, fd: int, off: int, address: int, length: int,
             op_flags: int, number: int, index: int = 0, last: int = 0) -> None:
        tail = self._tail
        _SQE.pack_into(self._sqes, (tail & self._sq_mask) << 6, opcode, flags, priority, fd, off,
                       address, length, op_flags, number, 0, index, last, 0)
        self._tail = tail + 1 & 0xffffffff
        self._waiting += 1

    def _argument(self) -> tuple[int, int]:
        """(place in `_arguments`, its address) of the entry that comes next."""
        place = (self._tail & self._sq_mask) * _ARGUMENT_BYTES
        return place, self._arguments_at + place

    def make_room(self, operations: int = LONGEST_CHAIN) -> None:
        """To call before a chain: submits when the ring could not take all of it."""
        if self._waiting + operations > self._entries:
            self._enter(0)

    def at(self, instant_ns: int, flags: int, number: int) -> None:
        """Complete at an instant of CLOCK_MONOTONIC."""
        place, address = self._argument()
        _TIMESPEC.pack_into(self._arguments, place, *divmod(instant_ns, 1_000_000_000))
        self._put(_OP_TIMEOUT, flags, 0, -1, 0, address, 1, _TIMEOUT_ABS | _TIMEOUT_SUCCEEDS, number)

    def after(self, ns: int, flags: int, number: int) -> None:
        """Complete after a time, which begins when the operation before in the link is over."""
        place, address = self._argument()
        _TIMESPEC.pack_into(self._arguments, place, *divmod(ns, 1_000_000_000))
        self._put(_OP_TIMEOUT, flags, 0, -1, 0, address, 1, _TIMEOUT_SUCCEEDS, number)

    def send_from(self, address: int, size: int) -> bool:
        """Have `send` take all from this memory, which never changes, and copy nothing; False where it goes on copying.

        As sendfile(2) does with a file: packets have the memory's own pages (kernel/patches/speed/0017). To be called
        before the first operation.
        """
        memory = bytearray(struct.pack("=QQ", address, size))
        try:
            _call("io_uring buffers", _SYS_REGISTER, self._fd, _REGISTER_BUFFERS, _address(memory), 1)
        except OSError:                             # who is not root may have little memory that stays
            return False
        # to nobody: a kernel that cannot refuses the operation before it looks for the file
        self._put(_OP_SEND, 0, _REGISTERED, -1, 0, address, 1, MSG_NOSIGNAL, 0)
        while not (completions := self.submit_and_wait()):
            pass
        can: bool = completions[0][1] == -EBADF
        if can:
            self._send_priority = _REGISTERED
        else:
            _call("io_uring buffers", _SYS_REGISTER, self._fd, _UNREGISTER_BUFFERS)
        return can

    def use_clock(self, path: str) -> bool:
        """Have a library read the time from this file; False if there is none that can be read."""
        try:
            self._clock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            return len(os.read(self._clock, 8)) == 8
        except OSError:
            return False

    def option(self, fd: int, level: int, name: int, address: int, size: int, flags: int, number: int) -> None:
        """Write what a socket says of an option to an address; the result is the size of that. EOPNOTSUPP for options
        of TCP without kernel/patches/speed/0008."""
        self._put(_OP_URING_CMD, flags, 0, fd, _GETSOCKOPT, level | name << 32, 0, 0, number, size, address)

    def connect(self, fd: int, ip: bytes, port: int, flags: int, number: int) -> None:
        """Completes when the connection is established."""
        place, address = self._argument()
        size = pack_endpoint(self._arguments, place, ip, port)
        self._put(_OP_CONNECT, flags, 0, fd, size, address, 0, 0, number)

    def accept(self, fd: int, address_at: int, size_at: int, number: int) -> None:
        """The next connection of a listener; the result is its descriptor.

        address_at, size_at: addresses of a sockaddr and of its size.
        """
        self._put(_OP_ACCEPT, 0, 0, fd, size_at, address_at, 0, SOCK_CLOEXEC, number)

    def send(self, fd: int, address: int, size: int, flags: int, number: int) -> None:
        """Write the `size` bytes at an address; completes when all are written."""
        self._put(_OP_SEND, flags, self._send_priority, fd, 0, address, size, _MSG_WAITALL | MSG_NOSIGNAL, number)

    def receive(self, fd: int, address: int, size: int, flags: int, number: int) -> None:
        """Read `size` bytes; fewer only before EOF or an error.

        address: where to; 0 if nobody looks at them, and they are no more than SEND_BUFFER_BYTES.
        """
        self._put(_OP_RECV, flags, _POLL_FIRST, fd, 0, address or self._sink_at, size, _MSG_WAITALL, number)

    def receive_now(self, fd: int, address: int, size: int, flags: int, number: int) -> None:
        """Read what there is, at most `size` bytes; EAGAIN if there is nothing."""
        self._put(_OP_RECV, flags, 0, fd, 0, address, size, _MSG_DONTWAIT, number)

    def receive_end(self, fd: int, flags: int, number: int) -> None:
        """Complete with 0 at EOF; with 1, which is no failure, if a byte comes."""
        self._put(_OP_RECV, flags, _POLL_FIRST, fd, 0, self._end_at, 1, 0, number)

    def close_socket(self, fd: int, flags: int, number: int) -> None:
        """Close a descriptor."""
        self._put(_OP_CLOSE, flags, 0, fd, 0, 0, 0, 0, number)

    def cancel(self, what: int, number: int) -> None:
        """Complete the operation with a number: a read or write reports how far it came."""
        self._put(_OP_ASYNC_CANCEL, QUIET, 0, 0, 0, what, 0, 0, number)

    def cancel_everything(self, number: int) -> None:
        """Complete all that is under way; reads report how far they came."""
        self._put(_OP_ASYNC_CANCEL, 0, 0, 0, 0, 0, 0, _CANCEL_EVERYTHING, number)

    def _enter(self, least: int) -> None:
        self._words[self._sq_tail] = self._tail
        result = _syscall(_SYS_ENTER, self._fd, self._waiting, least, _ENTER_WAIT, self._wait_at,
                          _WAIT_BYTES)
        if result < 0 and ctypes.get_errno() != EINTR:
            raise OSError(ctypes.get_errno(), "io_uring_enter")
        self._waiting = self._tail - self._words[self._sq_head] & 0xffffffff

    def submit(self) -> None:
        """Hand over what waits."""
        if self._waiting:
            self._enter(0)

    def go_on(self) -> None:
        """Hand over what waits, and have the kernel do what has become possible: of a chain the next operation."""
        self._enter(0)

    def submit_and_wait(self) -> list[tuple[int, ...]]:
        """Hand everything over, sleep until something completes.

        Returns a list of (number, result) in the order of completion; it is empty after
        a signal. A result is that of the system call's namesake, or the negative errno.
        """
        words = self._words
        self._enter(1)
        head, tail = words[self._cq_head], words[self._cq_tail]
        first, end = head & self._cq_mask, tail & self._cq_mask
        at = self._cqes
        if first < end:
            found = list(_CQE.iter_unpack(self._ring[at + (first << 4):at + (end << 4)]))
        elif head != tail:
            found = list(_CQE.iter_unpack(self._ring[at + (first << 4):at + (self._cq_mask + 1 << 4)]))
            found += _CQE.iter_unpack(self._ring[at:at + (end << 4)])
        else:
            found = []
        words[self._cq_head] = tail
        return found

    def places(self) -> dict[str, int]:
        """Where everything is, for a library that puts operations into this ring itself (../replay/core_loop.py)."""
        words, wait = _address(self._ring), self._wait_at
        return {"fd": self._fd, "entries": self._entries, "completions": self._cq_mask + 1, "words": words,
                "sq_head": self._sq_head, "sq_tail": self._sq_tail, "cq_head": self._cq_head, "cq_tail": self._cq_tail,
                "cqes": words + self._cqes, "sqes": _address(self._sqes), "arguments": self._arguments_at,
                "sink": self._sink_at, "end": self._end_at, "wait": wait, "wait_size": _WAIT_BYTES,
                "clock_fd": self._clock, "tail": self._tail}

    def close(self) -> None:
        """Give the memory back; the descriptor stays open until the process ends.

        A process that ends cancels what is under way itself. Closed earlier, a kernel thread does,
        which asks this process to help and does not sleep meanwhile: where computing
        takes no time, the process never gets to run again.
        """
        self._words.release()
        self._ring.close()
        self._sqes.close()


def may_ask(ring: Ring, fd: int, number: int) -> bool:
    """Whether a ring can ask for options of TCP. fd: a TCP socket; number: of an operation."""
    there = ctypes.create_string_buffer(TCP_CA_NAME_MAX)
    ring.option(fd, IPPROTO_TCP, TCP_CONGESTION, ctypes.addressof(there), TCP_CA_NAME_MAX, 0, number)
    while not ring.submit_and_wait():       # but a signal
        pass
    return bool(there.value)
