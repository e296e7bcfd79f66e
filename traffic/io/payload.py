# SPDX-License-Identifier: GPL-2.0-only
"""What TCP connections carry: bytes that depend on their position, so that a receiver can tell whether it got them.

The byte at position p of a stream is byte (phase + p) mod PERIOD of one fixed sequence. Every stream has a phase of
its own, so that another stream's bytes are noticed as well. PERIOD is a prime: nothing in a network has it as its
size, so that what was lost, doubled or swapped shows. Standard library only, and cheap: a comparison is one memcmp.
"""
from __future__ import annotations

import ctypes
import mmap

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import Final

PERIOD: Final = 65521
#: the most that `address` gives in one piece
LONGEST_BYTES = 1 << 20
#: a prime of 60 bits, in whose reciprocal no eight bytes come twice within a period
_DIVISOR = 10**18 + 9
_SPREAD: Final = 24593         # phases of neighbours are far from each other
#: from the phase of a connection to that of the next one of its flow, and to that of what its receiver sends
STEP: Final = 2 * _SPREAD
BACKWARDS: Final = _SPREAD

_libc = ctypes.PyDLL(None)
#: differs(address, address, size): not 0 if the bytes there are not the same
differs = _libc.memcmp
differs.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
differs.restype = ctypes.c_int


def sequence() -> bytes:
    """The sequence, once."""
    return ((1 << 8 * (PERIOD + 8)) // _DIVISOR % (1 << 8 * PERIOD)).to_bytes(PERIOD, "big")


def phase(flow: int, connection: int = 0, backwards: bool = False) -> int:
    """Where in the sequence the stream of a connection of a flow begins; backwards: what the receiver sends."""
    return (flow * 7919 + 2 * connection + backwards) * _SPREAD % PERIOD


class Pattern:
    """The sequence in memory, repeated up to LONGEST_BYTES (or fewer) behind every place of it."""

    def __init__(self, longest_bytes: int = LONGEST_BYTES) -> None:
        once = sequence()
        self.size = size = PERIOD + longest_bytes
        # all pages at once: one by one they are dear in a guest
        self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
        for at in range(0, size, PERIOD):
            self._memory[at:at + PERIOD] = once[:size - at]
        self.view = memoryview(self._memory)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))

    def wrong(self, address: int, size: int, place: int) -> bool:
        """Whether the `size` bytes at an address are not those from `place` (below PERIOD) on."""
        return bool(differs(address, self.address + place, size))

    def after(self, place: int, size: int) -> int:
        """The place that comes so many bytes after a place."""
        return (place + size) % PERIOD


class Tally:
    """What one end of a flow has found in what it received.

    checked_bytes were compared, unchecked_bytes, which came before them, were not; wrong_pieces did not agree, the
    first of the first connection at position first_wrong = [connection, bytes before the piece].
    """

    __slots__ = ("checked_bytes", "unchecked_bytes", "wrong_pieces", "first_wrong")

    def __init__(self) -> None:
        self.checked_bytes = self.unchecked_bytes = self.wrong_pieces = 0
        self.first_wrong: list[int] | None = None

    def note_wrong(self, connection: int, position: int) -> None:
        """A piece of a connection did not agree."""
        self.wrong_pieces += 1
        if self.first_wrong is None or [connection, position] < self.first_wrong:
            self.first_wrong = [connection, position]

    def account(self) -> dict[str, object]:
        """For the program's account."""
        return {name: getattr(self, name) for name in self.__slots__}
