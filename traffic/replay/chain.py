# SPDX-License-Identifier: GPL-2.0-only
"""What of a connection's program can be handed to the ring in one chain: reads, and what they are answered with.

A chain is carried out in the kernel, one operation after the other, and nobody is woken before its end. That is the
same as being woken after each read if

* nothing is to be read before what precedes it in the chain has been written: the peer's data unit needs all of it;
* nothing is to be written before what precedes it has been read, and a write that was handed over earlier is over then;
* the connection is not to be closed by the peer's FIN before what was written is out.

Each read is to be one operation, and so is each write. Where one of this does not hold, the chain ends before the read
in question: somebody is woken when that is over, and decides. core/chained.c does the same in C.
"""
from __future__ import annotations

from traffic.io.sockets import SEND_BUFFER_BYTES

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import Final

    from traffic.replay.endpoint import End

#: what a step begins with, where that is no read of so many bytes
END: Final = 0              # the peer's FIN
CONNECTED: Final = -1
#: steps of a chain: what waits takes some 2 kB of the kernel's memory for each, and a buffer of the program's
MOST_STEPS: Final = 4
#: where no bytes are to come any more
NOWHERE: Final = 1 << 61        # one word where this is compiled


class Step:
    """Something that is waited for, and what is done when it has happened."""

    __slots__ = ("what", "answers", "closes", "word", "buffer")

    def __init__(self, what: int) -> None:
        self.what = what        # bytes to be read, END or CONNECTED
        self.answers = 0        # own ops that follow
        self.closes = False     # the socket is closed after them
        self.word = -1          # where the ring notes the instant; -1: it wakes somebody instead
        self.buffer = 0         # where the last of the bytes go


class Place:
    """Where one end of a connection is in its program; bytes count from the connection's beginning."""

    __slots__ = ("op", "last_op", "read", "mark", "sent", "peer_op", "peer_last", "expected", "closes", "eof_is_last")

    def __init__(self, op: int, last_op: int, read: int, mark: int, sent: int, peer_op: int, peer_last: int,
                 expected: int, closes: bool, eof_is_last: bool) -> None:
        self.op, self.last_op = op, last_op     # own op that comes next; behind the last one
        self.read, self.mark = read, mark       # bytes; until the peer's data unit is complete, NOWHERE without one
        self.sent = sent                        # bytes handed over, whether or not their time has come
        self.peer_op, self.peer_last = peer_op, peer_last
        self.expected = expected                # bytes, in all
        self.closes = closes                    # does so when all is over; else at the peer's FIN
        self.eof_is_last = eof_is_last          # that comes only after the peer has read all


def steps_from(place: Place, end: End, begins: bool) -> list[Step]:
    """The steps of the longest chain from here; none if somebody has to be woken at the very next instant.

    begins: the first thing to be waited for is the connection. The last step closes, or a read comes behind it.
    Changes `place` to where the program is after these steps.
    """
    steps: list[Step] = []
    while len(steps) < MOST_STEPS:
        if begins and not steps:
            step, after, peer_op = Step(CONNECTED), place.read, place.peer_op
        else:
            if place.mark == NOWHERE or place.mark - place.read > SEND_BUFFER_BYTES:
                break
            step, after, peer_op = Step(place.mark - place.read), place.mark, place.peer_op + 1
        if not _answer(step, place, end, after, peer_op):
            break
        steps.append(step)
        place.read, place.peer_op = after, peer_op
        more = end.peer_bytes[peer_op] if peer_op < place.peer_last else 0      # 0: only FIN is left
        place.mark = after + more if more else NOWHERE
        if step.closes:
            break
        if after == place.expected and place.op == place.last_op:
            if len(steps) < MOST_STEPS:
                steps.append(Step(END))
                steps[-1].closes = True
            break
    return steps


def _answer(step: Step, place: Place, end: End, after: int, peer_op: int) -> bool:
    """Put into `step` what follows when `after` bytes are read; False if that is not settled.

    peer_op: what the peer sends next.
    """
    op, all_read = place.op, after == place.expected
    if op == place.last_op:
        step.closes = all_read and place.closes
        return True
    if end.own_need[op] > after:
        return not all_read
    if step.what != CONNECTED and end.peer_need[peer_op - 1] < place.sent:
        return False            # what was handed over before may still wait for its time
    size, following = end.own_bytes[op], op + 1
    if size > SEND_BUFFER_BYTES:
        return False
    if not size:                # FIN
        if not all_read:
            return False
        step.answers, step.closes = 1, True
    elif following == place.last_op:
        if place.closes or not place.eof_is_last or not _waits(place, end, peer_op, size):
            return False
        step.answers = 1
    elif not end.own_bytes[following] and all_read:
        step.answers, step.closes = 2, True
    elif end.own_need[following] > after and _waits(place, end, peer_op, size):
        step.answers = 1
    else:
        return False
    place.op += step.answers
    place.sent += size
    return True


def _waits(place: Place, end: End, peer_op: int, size: int) -> bool:
    """Whether the peer sends nothing more before it has read what we are about to write."""
    return peer_op == place.peer_last or end.peer_need[peer_op] >= place.sent + size
