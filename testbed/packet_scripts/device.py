# SPDX-License-Identifier: GPL-2.0-only
"""The TUN device between the kernel and the script, and the clock.

In virtual time the clock stands while anything computes. The one process of the script waits for the device and for a
timer, nothing else, so the clock still says when a packet was sent at the moment at which it is read. Times are whole
microseconds, rounded down: a timer of the guest wakes its process one nanosecond after it is due.
"""
from __future__ import annotations

import ctypes
import fcntl
import os
import select
import struct
import time
from collections import deque
from typing import NamedTuple

_libc = ctypes.CDLL(None, use_errno=True)
NAME = "tun0"
# linux/if_tun.h
_TUNSETIFF, _TUNSETOFFLOAD, _TUNSETVNETHDRSZ = 0x400454CA, 0x400454D0, 0x400454D8
_IFF_TUN, _IFF_NO_PI, _IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
_CSUM, _TSO4, _TSO6, _TSO_ECN = 1, 2, 4, 8
# linux/virtio_net.h
_HEADER = struct.Struct("=BBHHHH")
_GSO_TCPV4, _GSO_TCPV6 = 1, 4
_TFD_TIMER_ABSTIME = 1
_JIFFIES = 1 << 15


def now_ns() -> int:
    """CLOCK_MONOTONIC in nanoseconds, rounded down to a microsecond."""
    return time.monotonic_ns() // 1000 * 1000


class Merged(NamedTuple):
    """How a network card merged the segments of a packet."""
    six: bool
    segment_bytes: int


class Arrived(NamedTuple):
    """A packet that the kernel sent."""
    at_ns: int
    data: bytes


class Device:
    """tun0, in the network namespace of whoever makes it."""

    def __init__(self) -> None:
        self._fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(self._fd, _TUNSETIFF, struct.pack("16sH22x", NAME.encode(), _IFF_TUN | _IFF_NO_PI | _IFF_VNET_HDR))
        fcntl.ioctl(self._fd, _TUNSETVNETHDRSZ, struct.pack("i", _HEADER.size))
        fcntl.ioctl(self._fd, _TUNSETOFFLOAD, _CSUM | _TSO4 | _TSO6 | _TSO_ECN)
        self._timer = _checked(_libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._poll.register(self._timer, select.POLLIN)
        self.arrived: deque[Arrived] = deque()

    def send(self, packet: bytes, merged: Merged | None = None) -> None:
        """Let a packet arrive at the kernel."""
        header = bytes(_HEADER.size)
        if merged:
            header = _HEADER.pack(0, _GSO_TCPV6 if merged.six else _GSO_TCPV4, 0, merged.segment_bytes, 0, 0)
        os.write(self._fd, header + packet)

    def collect(self) -> None:
        """Note what the kernel has sent."""
        while True:
            try:
                data = os.read(self._fd, 1 << 17)
            except BlockingIOError:
                return
            self.arrived.append(Arrived(now_ns(), data[_HEADER.size:]))

    def wait(self, until_ns: int, for_packet: bool = False) -> None:
        """Wait until a time, noting what the kernel sends meanwhile; for_packet: or until there is a packet."""
        # struct itimerspec: once, at this time
        setting = struct.pack("=qqqq", 0, 0, *divmod(max(1, until_ns), 1_000_000_000))
        _checked(_libc.timerfd_settime(self._timer, _TFD_TIMER_ABSTIME, setting, None))
        self.collect()
        while time.monotonic_ns() < until_ns and not (for_packet and self.arrived):
            self._poll.poll()
            self.collect()


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def aligned_start_ns(now_ns: int, ticks_per_s: int) -> int:
    """The next time at which jiffies are a multiple of 2^15.

    The kernel rounds timers of TCP up to multiples of 8, 64, 512 and 4096 jiffies, the longer the coarser. A script
    that always begins at such a multiple sees the same rounding, whatever ran before it.
    """
    tick_ns = 1_000_000_000 // ticks_per_s
    # jiffies begin 300 s before they pass 2^32 (INITIAL_JIFFIES)
    ticks, first = -(-now_ns // tick_ns), 300 * ticks_per_s % _JIFFIES
    return (ticks + (first - ticks) % _JIFFIES) * tick_ns
