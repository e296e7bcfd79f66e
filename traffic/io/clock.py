# SPDX-License-Identifier: GPL-2.0-only
"""CLOCK_MONOTONIC in nanoseconds, without a system call where the kernel offers it as memory.

In virtual time a program is woken for every packet or so that concerns it; asking for the
time was 30 % of the system calls of a Tmix replay. Kernels built by kernel/ map it at
/dev/virtual_clock; everywhere else `now_ns` is `time.monotonic_ns`.
"""
import mmap
import os
import time
from collections.abc import Callable

DEVICE = "/dev/virtual_clock"


def _mapped_clock() -> tuple[Callable[[], int], int]:
    """A function that reads the mapped clock, and what it adds to what is mapped; time.monotonic_ns without such a
    device."""
    try:
        fd = os.open(DEVICE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return time.monotonic_ns, 0
    try:
        page = memoryview(mmap.mmap(fd, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ)).cast("Q")
    finally:
        os.close(fd)
    # The page counts from another moment. It is read second, since asking for the time may move it.
    offset_ns = time.monotonic_ns()
    offset_ns -= page[0]

    def now_ns() -> int:
        return page[0] + offset_ns
    return now_ns, offset_ns


#: what the device says, mapped or read, and this, is CLOCK_MONOTONIC
now_ns, OFFSET_NS = _mapped_clock()


def sleep_ns(ns: int) -> None:
    """Sleep so long."""
    time.sleep(ns / 1e9)
