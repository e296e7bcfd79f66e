# SPDX-License-Identifier: GPL-2.0-only
"""Memory for the ends of reads that are under way side by side, to be looked at when they are over.

Pages are dear in a guest: what was given back is used again first, and new memory comes with its pages. That only the
end of a large read is kept is for the same reason: thousands of reads would need as many pages, and the processor's
cache. core/memory.c does the same in C.
"""
from __future__ import annotations

import ctypes
import mmap

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import Final

#: how much of a read is kept
KEPT_BYTES: Final = 2048
_AT_ONCE: Final = 64


class Buffers:
    """Buffers of KEPT_BYTES. `take` before a read, `give` after it."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._memory: list[mmap.mmap] = []
        self.give = self._free.append

    def take(self) -> int:
        """Address of a buffer that nobody uses."""
        if not self._free:
            self._grow()
        return self._free.pop()

    def _grow(self) -> None:
        memory = mmap.mmap(-1, KEPT_BYTES * _AT_ONCE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
        self._memory.append(memory)
        at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._free.extend(at + i * KEPT_BYTES for i in reversed(range(_AT_ONCE)))
