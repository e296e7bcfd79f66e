# SPDX-License-Identifier: GPL-2.0-only
"""Memory in which operations of a ring note instants while nobody is woken.

A block has WORDS numbers of 64 bits, all 0 when it is taken: an operation that is over has written its instant.
core/memory.c takes and gives them in C.
"""
from __future__ import annotations

import ctypes
import mmap

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import Final

WORDS: Final = 8
_WORD_BYTES: Final = 8
_MOST_BLOCKS: Final = 1 << 20
_MAP_NORESERVE = 0x4000


class Notes:
    """Blocks of words. `take` one, `give` it back."""

    def __init__(self) -> None:
        # addresses only: pages come when they are touched, and what was given back is used again first
        self._memory = mmap.mmap(-1, _MOST_BLOCKS * WORDS * _WORD_BYTES,
                                 flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
        self._at = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self.words = memoryview(self._memory).cast("Q")
        self._free: list[int] = []
        self._fresh = 0             # number of the first block that nobody had yet

    def take(self) -> int:
        """Number of the first word of a block, -1 if there is none left."""
        if self._free:
            return self._free.pop()
        if self._fresh == _MOST_BLOCKS:
            return -1
        self._fresh += 1
        return (self._fresh - 1) * WORDS

    def give(self, first: int) -> None:
        """Nobody writes to this block any more."""
        words = self.words
        for word in range(first, first + WORDS):
            words[word] = 0
        self._free.append(first)

    def address(self, word: int) -> int:
        """Where a word is."""
        return self._at + word * _WORD_BYTES

    def text(self, word: int, words: int) -> bytes:
        """The string that these words have in them, up to its first 0."""
        return self.words[word:word + words].tobytes().partition(b"\0")[0]
