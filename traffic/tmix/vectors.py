# SPDX-License-Identifier: GPL-2.0-only
"""The a-b-t model: one TCP connection as its application sees it.

A connection vector (Hernandez-Campos, Jeffay, Smith; Weigle et al., "Tmix: a tool for
generating realistic TCP application workloads in ns-2", CCR 36(3), 2006) is a start time
and a list of application data units (ADUs). An ADU is written by the initiator or the
acceptor of the connection, `wait_us` after the event it depends on:

* SEQ (sequential): an ADU that answers the other side waits from the moment its sender has
  *received* the whole previous ADU; one that follows an ADU of its own side waits from the
  end of *sending* that one.
* CONC (concurrent): every ADU waits from the end of sending the previous ADU of its own
  side; the sides do not wait for each other.

The first ADU of a side that depends on nothing waits from the establishment of the
connection. An ADU of 0 bytes is a FIN. Standard library only: the replay imports this.
"""

from collections.abc import Sequence
from typing import NamedTuple, Optional

INITIATOR, ACCEPTOR = 0, 1
SEQ, CONC = 0, 1

# Where a vector says nothing about its end, ns-2's Tmix lets the side that sent the last
# ADU close one second after it (ns-2 manual, "Sending FINs"). The other side closes when
# it has read end-of-file and sent all of its own.
DEFAULT_FIN_WAIT_US = 1_000_000

# Bounds that keep sums of any file that fits in memory inside 63 bits.
MAX_ADU_BYTES = 1 << 36          # 64 GiB
MAX_TIME_US = 1 << 44            # 203 days
MAX_ID = (1 << 62) - 1
MIN_MSS, MAX_MSS = 88, 32767     # what Linux accepts for TCP_MAXSEG


class Adu(NamedTuple):
    """One application data unit; `size_bytes` 0 is a FIN."""

    side: int
    wait_us: int
    size_bytes: int


class Op(NamedTuple):
    """One step of a side's program.

    Wait until `need_bytes` in total have come from the peer (no wait if that is what the
    previous op needed, or 0), then `wait_us` from the later of the end of the previous op's
    sending and, if `need_bytes` grew, the moment the need was met; then send `size_bytes`,
    or shut down the sending direction if that is 0.
    """

    need_bytes: int
    wait_us: int
    size_bytes: int


class Vector(NamedTuple):
    """One connection vector. What a file left out is None.

    The ADUs of a CONC vector keep the order of the file; FINs stand at the end, the
    initiator's first (that is how `check` wants them and how the readers deliver them).
    """

    start_us: int
    kind: int
    ids: tuple[int, ...]                   # (source file's process id, connection id)
    adus: tuple[Adu, ...]
    windows: Optional[tuple[int, int]] = None      # receive windows (initiator, acceptor), bytes
    min_rtt_us: Optional[int] = None
    loss: Optional[tuple[float, float]] = None     # loss ratio (initiator->acceptor, acceptor->initiator)
    mss: Optional[tuple[int, int]] = None          # TCP_MAXSEG (initiator, acceptor), bytes


def epochs(adus: Sequence[Adu]) -> int:
    """Number of request/response exchanges of a SEQ vector.

    Every initiator ADU opens one; an acceptor ADU opens one unless it answers the
    initiator ADU right before it. This is the count UNC's traces carry in their headers.
    """
    count, previous = 0, None
    for adu in adus:
        if adu[2] == 0:
            continue
        if adu[0] == INITIATOR or previous != INITIATOR:
            count += 1
        previous = adu[0]
    return count


def check(vector: Vector) -> None:
    """Raise ValueError if the vector cannot be replayed."""
    fins: list[int] = []
    data = 0
    for side, wait_us, size_bytes in vector.adus:
        if side not in (INITIATOR, ACCEPTOR):
            raise ValueError(f"side {side!r} is neither initiator (0) nor acceptor (1)")
        if not 0 <= wait_us <= MAX_TIME_US:
            raise ValueError(f"wait of {wait_us} us is outside 0..{MAX_TIME_US}")
        if not 0 <= size_bytes <= MAX_ADU_BYTES:
            raise ValueError(f"ADU of {size_bytes} bytes is outside 0..{MAX_ADU_BYTES}")
        if size_bytes == 0:
            fins.append(side)
        elif fins:
            raise ValueError("data after a FIN; FINs stand at the end")
        else:
            data += 1
    if not data:
        raise ValueError("a connection has at least one ADU with data")
    if fins not in ([], [INITIATOR], [ACCEPTOR], [INITIATOR, ACCEPTOR]):
        raise ValueError("at most one FIN for each side, the initiator's first")


def programs(vector: Vector) -> tuple[list[Op], list[Op]]:
    """The two sides' programs: (initiator ops, acceptor ops), lists of Op."""
    ops: tuple[list[Op], list[Op]] = ([], [])
    sent = [0, 0]
    closing = False
    last_data_side = INITIATOR
    for side, wait_us, size_bytes in vector.adus:
        need_bytes = sent[1 - side] if vector.kind == SEQ else 0
        ops[side].append(Op(need_bytes, wait_us, size_bytes))
        sent[side] += size_bytes
        if size_bytes:
            last_data_side = side
        else:
            closing = True
    if not closing:
        need_bytes = ops[last_data_side][-1].need_bytes
        ops[last_data_side].append(Op(need_bytes, DEFAULT_FIN_WAIT_US, 0))
    return ops
