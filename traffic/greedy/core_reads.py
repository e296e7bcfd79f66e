# SPDX-License-Identifier: GPL-2.0-only
"""Drives flows as `ring` does, with what receivers do for each read in C (reads.c).

The library is made where a compiler is (testbed/core/c_libraries.py); `RingFlows` does the same without it.
"""
from __future__ import annotations

import ctypes

from traffic.greedy.ring import RingFlows
from traffic.greedy.ring_ends import Receiver, SharedReceiver, usual
from traffic.io.compiled import SharedRing, beside, load, words
from traffic.io.payload import phase

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import Any

    from traffic.greedy.ends import End
    from traffic.io.uring import Ring

#: the library beside this file
LIBRARY = "reads.so"


class SharedReads(ctypes.Structure):
    """struct shared_reads of reads.c."""
    _fields_ = words("ring", "ends", "pattern", "most_bytes", "waiting", "first", "last", "number", "result")


def make_flows(ring: Ring, all_ends: list[End], *more: Any) -> RingFlows:
    """As RingFlows; with the library where it was made and has something to do."""
    path = beside(__file__, LIBRARY)
    if path and any(end.role == "receive" and usual(end.flow) for end in all_ends):
        return CoreFlows(path, ring, all_ends, *more)
    return RingFlows(ring, all_ends, *more)


class CoreFlows(RingFlows):
    """All flows that begin or end on a node."""

    def __init__(self, path: str, *of_ring_flows: Any) -> None:
        """path: of the library; of_ring_flows: as for RingFlows."""
        super().__init__(*of_ring_flows)
        self._core = load(path, "greedy_sizes", (SharedRing, SharedReceiver, SharedReads), __file__)
        self._core.greedy_wait.argtypes = [ctypes.c_void_p]
        self._core.greedy_next.argtypes = [ctypes.c_void_p]
        self._core.greedy_took.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
        self._shared_ring = SharedRing(**self.ring.places())
        self._shared = SharedReads(
            ring=ctypes.addressof(self._shared_ring), ends=ctypes.addressof(self.receivers),
            pattern=self.pattern.address, most_bytes=self.most_bytes)
        self._at = ctypes.addressof(self._shared)
        for shared, end in zip(self.receivers, self._ends):
            shared.place = phase(end.end.flow["flow"])

    def run(self, t0_ns: int, end_ns: int) -> None:
        """From t0 until the end."""
        super().run(t0_ns, end_ns)
        self.note_found()

    def note_found(self) -> None:
        """What was found in the payload goes where `took` of RingFlows has it go; until then tallies say nothing."""
        for shared, end in zip(self.receivers, self._ends):
            if isinstance(end, Receiver):
                tally = end.end.tally
                tally.checked_bytes, tally.wrong_pieces = shared.checked_bytes, shared.wrong_pieces
                tally.first_wrong = [0, shared.first_wrong] if shared.wrong_pieces else None

    def took(self, receiver: Receiver, size: int) -> None:
        self._core.greedy_took(self._at, receiver.number, size)

    def _take_completions(self) -> bool:
        shared = self._shared
        self._hand_over()
        error = self._core.greedy_wait(self._at)
        if error:
            raise OSError(error, "io_uring_enter")
        timer = False
        while (left := self._core.greedy_next(self._at)) > 0:
            self._take_back()
            timer |= self._found(shared.number, shared.result)
            self._hand_over()
        self._take_back()
        if left < 0:
            raise OSError(-left, "io_uring_enter")
        return timer

    def _hand_over(self) -> None:
        self._shared_ring.tail, self._shared.waiting = self.ring.waiting()

    def _take_back(self) -> None:
        self.ring.set_waiting(self._shared_ring.tail, self._shared.waiting)
