# SPDX-License-Identifier: GPL-2.0-only
"""UDP packets that leave at given instants, many for one system call: a chain of an io_uring, in which the packet that
follows waits for its instant inside the kernel."""
from __future__ import annotations

import ctypes
import os
from errno import ECONNREFUSED

from traffic.datagrams.batch import HEADER, libc
from traffic.io.uring import LINK, QUIET, Ring

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from collections.abc import Sequence

#: (when it leaves in ns of CLOCK_MONOTONIC, socket's descriptor, size of the payload, what it begins with)
Leaving = tuple[int, int, int, bytes]

#: packets of one chain
MOST = 64
_OPERATIONS = 2 * MOST
# a completion is of the packet with that number, or of an instant
_INSTANT = MOST
_CLOCK_MONOTONIC, _TIMER_ABSTIME = 1, 1


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


def sleep_until(instant_ns: int) -> None:
    """Sleep until an instant of CLOCK_MONOTONIC: one system call, and none to ask for the time."""
    wanted = _Timespec(*divmod(instant_ns, 1_000_000_000))
    libc.clock_nanosleep(_CLOCK_MONOTONIC, _TIMER_ABSTIME, ctypes.byref(wanted), None)


def make(largest_bytes: int) -> Convoy | OneByOne:
    """What sends packets whose payload is at most so large."""
    try:
        return Convoy(largest_bytes)
    except OSError:
        return OneByOne(largest_bytes)


class OneByOne:
    """Sends packets of several sockets, with two system calls for each."""

    def __init__(self, largest_bytes: int) -> None:
        """largest_bytes: the largest payload."""
        self._payload = bytearray(largest_bytes)

    def send(self, packets: Sequence[Leaving]) -> None:
        """Send each packet at its instant."""
        for leaves_ns, fd, size, header in packets:
            sleep_until(leaves_ns)
            self._payload[:HEADER.size] = header
            while not self._sent(fd, size):
                pass

    def _sent(self, fd: int, size: int) -> bool:
        """False if the socket told what became of an earlier packet instead: on a machine that is late its receiver
        has ended before this sender."""
        try:
            os.write(fd, memoryview(self._payload)[:size])
        except ConnectionRefusedError:
            return False
        return True


class Convoy:
    """As OneByOne, for all packets of a call at once. Raises OSError where there is no io_uring that can."""

    def __init__(self, largest_bytes: int) -> None:
        """largest_bytes: the largest payload."""
        self._ring = Ring(2 * _OPERATIONS)
        self._largest_bytes = largest_bytes
        self._payloads = bytearray(MOST * largest_bytes)
        self._first = ctypes.addressof(ctypes.c_char.from_buffer(self._payloads))

    def send(self, packets: Sequence[Leaving]) -> None:
        """Send at most MOST packets, each at its instant and after the one before; come back when the last has left."""
        for number, (_, _, _, header) in enumerate(packets):
            at = number * self._largest_bytes
            self._payloads[at:at + HEADER.size] = header
        first = 0
        while first < len(packets):
            first = self._send_from(packets, first)

    def _send_from(self, packets: Sequence[Leaving], first: int) -> int:
        """Send packets from that number on; the number of the first that was not sent."""
        ring, last = self._ring, len(packets) - 1
        ring.make_room(_OPERATIONS)
        for number in range(first, last + 1):
            leaves_ns, fd, size, _ = packets[number]
            ring.at(leaves_ns, LINK | QUIET, _INSTANT)
            ring.send(fd, self._first + number * self._largest_bytes, size,
                      0 if number == last else LINK | QUIET, number)
        # one completion: of the last packet, or of the one that failed, with which all after it are cancelled silently
        while not (completions := ring.submit_and_wait()):
            pass
        (number, result), = completions
        if result >= 0:
            return last + 1
        if result != -ECONNREFUSED or number == _INSTANT:
            raise OSError(-result, f"UDP packet: {os.strerror(-result)}")
        return int(number)
