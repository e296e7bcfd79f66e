# SPDX-License-Identifier: GPL-2.0-only
"""Many UDP packets for one system call: of each its size, what it begins with, and when it arrived."""
import ctypes
import socket
import struct

#: what a packet begins with: its number, and when it was due in ns of experiment time
HEADER = struct.Struct("!QQ")
MOST_AT_ONCE = 512
#: include/uapi/asm-generic/socket.h
_SO_TIMESTAMPNS = 35
_MSG_DONTWAIT, _MSG_TRUNC = 0x40, 0x20
#: struct cmsghdr and the struct timespec in it
_ARRIVAL = struct.Struct("=QiiQQ")

#: (payload's size, number, due in ns, arrival in ns of the wall clock)
Packet = tuple[int, int, int, int]

libc = ctypes.CDLL(None, use_errno=True)


class Message(ctypes.Structure):
    """struct mmsghdr"""
    _fields_ = [("name", ctypes.c_void_p), ("name_size", ctypes.c_int), ("parts", ctypes.c_void_p),
                ("part_count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_size", ctypes.c_size_t),
                ("flags", ctypes.c_int), ("padding", ctypes.c_int), ("size", ctypes.c_uint)]


class Part(ctypes.Structure):
    """struct iovec"""
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


def note_arrivals(receiver: socket.socket) -> None:
    """Let the kernel note when packets arrive, however late they are taken from the socket."""
    receiver.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


class Batch:
    """Room for the packets of one call. Sockets must `note_arrivals`."""

    def __init__(self) -> None:
        self._headers = bytearray(HEADER.size * MOST_AT_ONCE)
        self._arrivals = bytearray(_ARRIVAL.size * MOST_AT_ONCE)
        headers_at, arrivals_at = (ctypes.addressof(ctypes.c_char.from_buffer(memory))
                                   for memory in (self._headers, self._arrivals))
        self._parts = (Part * MOST_AT_ONCE)(
            *(Part(headers_at + i * HEADER.size, HEADER.size) for i in range(MOST_AT_ONCE)))
        parts_at = ctypes.addressof(self._parts)
        self._messages = (Message * MOST_AT_ONCE)(*(
            Message(None, 0, parts_at + i * ctypes.sizeof(Part), 1, arrivals_at + i * _ARRIVAL.size, _ARRIVAL.size,
                    0, 0, 0) for i in range(MOST_AT_ONCE)))
        # a call leaves there how much it wrote
        self._fresh = bytes(self._messages)

    def receive(self, fd: int) -> list[Packet]:
        """The packets that are there, at most MOST_AT_ONCE."""
        ctypes.memmove(self._messages, self._fresh, len(self._fresh))
        count = max(0, libc.recvmmsg(fd, self._messages, MOST_AT_ONCE, _MSG_DONTWAIT | _MSG_TRUNC, None))
        headers = HEADER.iter_unpack(memoryview(self._headers)[:count * HEADER.size])
        arrivals = _ARRIVAL.iter_unpack(memoryview(self._arrivals)[:count * _ARRIVAL.size])
        return [(message.size, number, due_ns, seconds * 1_000_000_000 + nanoseconds)
                for message, (number, due_ns), (_, _, _, seconds, nanoseconds)
                in zip(self._messages, headers, arrivals)]
