# SPDX-License-Identifier: GPL-2.0-only
"""Memory for reads that are under way side by side, each with bytes of its own to be looked at afterwards.

Pages are dear in a guest: what was given back is used again first, small reads share no memory with large ones, and
new memory comes with its pages.
"""
from __future__ import annotations

import ctypes
import mmap

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from collections.abc import Sequence

#: (largest read, such buffers made at once)
CLASSES = ((4 << 10, 16), (32 << 10, 4), (256 << 10, 1))
#: memory for all reads of a process; beyond it they go where nobody looks
MOST_BYTES = 128 << 20


class Buffers:
    """Buffers of a few sizes. `take` before a read, `give` after it, with the same size."""

    def __init__(self, classes: Sequence[tuple[int, int]] = CLASSES, most_bytes: int = MOST_BYTES) -> None:
        self._classes = classes
        self._free: list[list[int]] = [[] for _ in classes]
        self._left_bytes = most_bytes
        self._kept: list[mmap.mmap] = []

    def take(self, size: int) -> int:
        """Address of a buffer of at least `size` bytes; 0 if there is no memory left, or none so large."""
        for (most, _), free in zip(self._classes, self._free):
            if size <= most:
                return free.pop() if free or self._grow(most) else 0
        return 0

    def give(self, size: int, address: int) -> None:
        """Give back what `take(size)` gave."""
        for (most, _), free in zip(self._classes, self._free):
            if size <= most:
                free.append(address)
                return

    def _grow(self, most: int) -> bool:
        """More buffers of a class; False if they would be too many."""
        count, free = next((n, free) for (size, n), free in zip(self._classes, self._free) if size == most)
        if most * count > self._left_bytes:
            return False
        self._left_bytes -= most * count
        memory = mmap.mmap(-1, most * count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
        self._kept.append(memory)
        at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        free.extend(at + i * most for i in reversed(range(count)))
        return True
