# SPDX-License-Identifier: GPL-2.0-only
"""The TCP connections of a capture as connection vectors: the a-b-t model, read off sequence numbers.

After Hernandez-Campos, "Generation and validation of empirically-derived TCP application workloads" (PhD thesis, UNC,
2006), chapter 3. What is measured at one place of the network and what follows from it: docs/reference/tmix.md.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator

from analysis.packets import ACK, FIN, RST, SYN, Packet
from analysis.packets.copies import Copies
from analysis.read.runs import AnalysisError
from traffic.tmix.reader import MAX_WINDOW_BYTES
from traffic.tmix.vectors import CONC, INITIATOR, MAX_MSS, MAX_TIME_US, MIN_MSS, SEQ, Adu, Vector

#: UNC's quiet time: a side that has everything acknowledged and is silent for longer begins another data unit
QUIET_NS = 500_000_000
#: where the round trip is not known, nobody sends data again sooner
_AGAIN_NS = 1_000_000
#: nobody asks sooner whether the other end is there (sockets' options are in seconds); timeouts are shorter mostly
_KEEPALIVE_NS = 500_000_000
_HALF, _SIZE = 1 << 31, 1 << 32
_USUAL_MSS = 1460

Place = tuple[bytes, int]


@dataclasses.dataclass
class _Unit:
    """A data unit: its first byte, its last byte that was new, and its last segment, repeated ones included."""

    side: int
    first_ns: int
    new_ns: int
    last_ns: int
    size: int


@dataclasses.dataclass
class _Side:
    """What one end sent. Numbers count from the byte behind the SYN; `acked`: as the other end said."""

    isn: int | None = None
    high: int = 0
    acked: int = 0
    scale: int | None = None
    mss: int | None = None
    window: int = 0
    segments: int = 0
    again: int = 0
    late: int = 0
    reordered: int = 0
    missing: int = 0
    probes: int = 0
    refused: int = 0
    #: it has announced a window of 0
    shut: bool = False
    #: where the latest segment with new data began
    last: int | None = None
    #: (bytes, when) of data in SYNs, until it shows how many of them the other end took
    early: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    fin_ns: int | None = None
    fin_at: int | None = None
    #: ranges that were skipped, and when that was seen
    holes: list[tuple[int, int, int]] = dataclasses.field(default_factory=list)
    #: (end, when) of the latest new segment that is not acknowledged and was sent once
    timed: tuple[int, int] | None = None
    #: shortest time from here to this end and back
    round_ns: int | None = None
    units: list[_Unit] = dataclasses.field(default_factory=list)

    def number(self, seq: int, near: int) -> int:
        """A sequence number, counted on beyond 32 bits: the one that is nearest to `near`."""
        return near + (seq - (self.isn or 0) - 1 - near + _HALF) % _SIZE - _HALF


class _Connection:
    """One connection, from its SYN on."""

    def __init__(self, packet: Packet, quiet_ns: int) -> None:
        self.quiet_ns = quiet_ns
        self.heard = False                  # anything of the acceptor
        self.ends: tuple[Place, Place] = (packet.src, packet.dst)
        self.sides = (_Side(isn=packet.seq, scale=packet.scale, mss=packet.mss, window=packet.window), _Side())
        self.syn_ns = packet.time_ns
        if packet.size:
            self.sides[INITIATOR].early.append((packet.size, packet.time_ns))
        self.syn_again = self.answered = False
        self.answer_ns: int | None = None
        self.up_ns: int | None = None
        self.reset = False
        self.concurrent = False
        self.units: list[_Unit] = []        # of both sides, as of a sequential connection

    @property
    def over(self) -> bool:
        return self.reset or all(side.fin_ns is not None for side in self.sides)

    def add(self, packet: Packet) -> None:
        who = 0 if packet.src == self.ends[0] else 1
        side, other, flags, now = self.sides[who], self.sides[1 - who], packet.flags, packet.time_ns
        self.heard |= who != INITIATOR
        if flags & SYN:
            self._opening(who, packet)
            return
        if flags & RST:
            self.reset = True
            return
        if flags & ACK:
            if other.isn is None:           # the SYN-ACK was not captured
                other.isn = (packet.ack - 1) % _SIZE
            if who == INITIATOR and self.up_ns is None:
                self.up_ns = now
                if self.answer_ns is not None:
                    _shorter(side, now - self.answer_ns)
            self._acknowledged(other, side, other.number(packet.ack, other.acked), now)
        if side.isn is None:
            return
        side.shut = packet.window == 0
        side.window = max(side.window, packet.window << (side.scale or 0 if other.scale is not None else 0))
        if packet.size:
            self._data(who, side, other, packet)
        if flags & FIN and side.fin_ns is None:
            side.fin_ns, side.fin_at = now, side.number(packet.seq, side.high) + packet.size

    def _opening(self, who: int, packet: Packet) -> None:
        side = self.sides[who]
        if packet.mss is not None:
            side.mss = packet.mss
        side.scale = packet.scale
        side.window = max(side.window, packet.window)
        if packet.size and side.high:           # taken long since
            self._data(who, side, self.sides[1 - who], packet._replace(
                seq=(packet.seq + 1) % _SIZE, size=min(packet.size, side.high)))
        elif packet.size:
            side.early.append((packet.size, packet.time_ns))
        if who == INITIATOR:
            self.syn_again |= packet.time_ns > self.syn_ns
            return
        side.isn = packet.seq
        if packet.flags & ACK:
            initiator = self.sides[INITIATOR]
            ack = initiator.number(packet.ack, 0)
            self._early(initiator, ack)
            initiator.acked = max(initiator.acked, min(ack, initiator.high))
        if not self.syn_again and not self.answered:
            _shorter(side, packet.time_ns - self.syn_ns)
            self.answer_ns = packet.time_ns
        else:                               # which of them is answered is not known
            self.answer_ns = None
        self.answered = True

    def _acknowledged(self, sender: _Side, receiver: _Side, ack: int, now: int) -> None:
        fin = sender.fin_at is not None and ack > sender.fin_at
        ack -= fin
        self._early(sender, ack)
        if sender.timed and ack >= sender.timed[0]:
            if ack == sender.timed[0]:
                _shorter(receiver, now - sender.timed[1])
            sender.timed = None
        # one byte more than was seen is a FIN that was not
        if sender.high + 1 < ack < sender.high + _HALF // 2:
            self._grow(int(sender is self.sides[1]), sender, ack - sender.high, now)
            sender.missing += ack - sender.high
            sender.high = ack
        sender.acked = max(sender.acked, min(ack, sender.high))

    def _data(self, who: int, side: _Side, other: _Side, packet: Packet) -> None:
        now, begin = packet.time_ns, side.number(packet.seq, side.high)
        end = begin + packet.size
        if packet.size == 1 and self._asks(side, begin, now):
            side.probes += 1
            return
        self._early(side, begin)
        side.refused += bool(side.early)        # they are here again
        side.early = []
        if end <= side.high:
            if other.shut and packet.size == 1:
                side.timed, side.probes = None, side.probes + 1
            else:
                side.segments += 1
                self._old(side, begin, end, now)
            for units in (self.units, side.units):
                if units and units[-1].side == who:
                    units[-1].last_ns = now
            return
        side.segments += 1
        ack = other.number(packet.ack, other.acked) if packet.flags & ACK and other.isn is not None else 0
        # sent before its sender had all that the other one sent: both spoke at once
        self.concurrent |= ack < other.high
        if begin > side.high:
            side.holes.append((side.high, begin, now))
        self._grow(who, side, end - side.high, now)
        side.high, side.last = end, begin
        side.timed = (end, now)

    def _asks(self, side: _Side, begin: int, now: int) -> bool:
        """Whether a byte is a keep-alive's (RFC 1122, 4.2.3.6): any byte, one before the next number, which the other
        end has. A last segment of one byte looks the same when it is sent again, but that happens sooner."""
        if begin == side.fin_at:                # the next number is behind the FIN's
            return True
        if begin != side.high - 1 or begin == side.acked:
            return False
        return begin != side.last or side.acked >= side.high and now - side.units[-1].last_ns >= _KEEPALIVE_NS

    def _early(self, side: _Side, taken: int) -> None:
        """Data of SYNs (RFC 7413) as far as the other end took them. What it did not take comes again as new data."""
        if not side.early or taken <= 0:
            return
        size = min(taken, max(size for size, _ in side.early))
        side.segments, side.again = len(side.early), len(side.early) - 1
        self._grow(int(side is self.sides[1]), side, size, side.early[0][1])
        self.units[-1].last_ns = side.units[-1].last_ns = side.early[-1][1]
        side.high, side.last, side.early = size, 0, []

    def _old(self, side: _Side, begin: int, end: int, now: int) -> None:
        """A segment of which nothing is beyond what was seen: it was lost before here, behind here, or overtaken."""
        side.timed = None                   # Karn: which of them is acknowledged is not known
        for place, (low, high, seen_ns) in enumerate(side.holes):
            if begin < high and end > low:
                side.holes[place:place + 1] = [part for part in ((low, begin, seen_ns), (end, high, seen_ns))
                                               if part[0] < part[1]]
                # a repetition takes a round trip at least
                if now - seen_ns < (self.round_ns or _AGAIN_NS):
                    side.reordered += 1
                else:
                    side.late += 1
                return
        side.again += 1

    def _grow(self, who: int, side: _Side, size: int, now: int) -> None:
        silent = side.acked >= side.high
        for units in (self.units, side.units):
            unit = units[-1] if units else None
            if unit is None or unit.side != who or silent and now - unit.last_ns >= self.quiet_ns:
                units.append(_Unit(who, now, now, now, size))
            else:
                unit.size, unit.new_ns, unit.last_ns = unit.size + size, now, now

    @property
    def round_ns(self) -> int | None:
        """From here to both ends and back."""
        initiator, acceptor = (side.round_ns for side in self.sides)
        return None if initiator is None or acceptor is None else initiator + acceptor

    # -- what it says -----------------------------------------------------------------------------

    @property
    def start_ns(self) -> int:
        """When the SYN left its host."""
        return self.syn_ns - (self.sides[INITIATOR].round_ns or 0) // 2

    def vector(self, origin_ns: int, number: int) -> Vector:
        """Of a connection with data."""
        initiator, acceptor = self.sides
        adus = self._concurrent() if self.concurrent else self._sequential()
        mss = tuple(min(max(side.mss or _USUAL_MSS, MIN_MSS), MAX_MSS) for side in (acceptor, initiator))
        rtt_ns = self.round_ns
        return Vector(
            start_us=_us(self.start_ns - origin_ns),
            kind=CONC if self.concurrent else SEQ, ids=(0, number), adus=tuple(adus),
            windows=(min(initiator.window, MAX_WINDOW_BYTES), min(acceptor.window, MAX_WINDOW_BYTES)),
            min_rtt_us=None if rtt_ns is None else rtt_ns // 1000,
            loss=(_loss(initiator), _loss(acceptor)), mss=None if mss == (_USUAL_MSS,) * 2 else (mss[0], mss[1]))

    def _first_wait(self, side: int, unit: _Unit) -> int:
        """From the establishment, which each end sees when the other's segment is there."""
        up_ns = self.up_ns if self.up_ns is not None else unit.first_ns
        return _us(unit.first_ns - up_ns - (self.sides[side].round_ns or 0) * (side != INITIATOR))

    def _sequential(self) -> Iterator[Adu]:
        before: _Unit | None = None
        for unit in self.units:
            wait_us = self._after(before, unit.side, unit.first_ns) if before else self._first_wait(unit.side, unit)
            yield Adu(unit.side, wait_us, unit.size)
            before = unit
        closer = self._closer()
        if before is not None and closer is not None:
            yield Adu(closer, self._after(before, closer, self.sides[closer].fin_ns or 0), 0)

    def _after(self, before: _Unit, side: int, now: int) -> int:
        """What a side waits after a unit: of its own, from its last byte; of the other's, from when it was there."""
        if before.side == side:
            return _us(now - before.new_ns)
        return _us(now - before.last_ns - (self.sides[side].round_ns or 0))

    def _concurrent(self) -> Iterator[Adu]:
        units = sorted((unit for side in self.sides for unit in side.units), key=lambda unit: unit.first_ns)
        before: dict[int, _Unit] = {}
        for unit in units:
            last = before.get(unit.side)
            yield Adu(unit.side, self._first_wait(unit.side, unit) if last is None
                      else _us(unit.first_ns - last.new_ns), unit.size)
            before[unit.side] = unit
        closer = self._closer()
        if closer is not None and closer in before:
            yield Adu(closer, _us((self.sides[closer].fin_ns or 0) - before[closer].new_ns), 0)

    def _closer(self) -> int | None:
        """Who closed first; the other one only answers."""
        fins: list[tuple[int, int]] = [(side.fin_ns, who) for who, side in enumerate(self.sides)
                                       if side.fin_ns is not None]
        return min(fins)[1] if fins else None

    def note(self, counts: Counter[str]) -> None:
        """Add what is remarkable to the account."""
        counts["concurrent (CONC)" if self.concurrent else "sequential (SEQ)"] += 1
        closed = self._closer()
        counts["reset"] += self.reset
        counts["without FIN"] += closed is None and not self.reset
        if closed is not None and not self.concurrent and any(
                unit.first_ns > (self.sides[closed].fin_ns or 0) for unit in self.units):
            counts["closed by one side before the other had sent all"] += 1
        for side in self.sides:
            counts["data segments"] += side.segments
            counts["data segments sent again"] += side.again + side.late
            counts["data segments out of order"] += side.reordered
            counts["keep-alives and window probes with a byte"] += side.probes
            counts["SYNs whose data were not taken"] += side.refused
            counts["bytes that the capture lacks"] += side.missing + sum(high - low for low, high, _ in side.holes)


def _us(time_ns: int) -> int:
    return max(0, time_ns) // 1000


def _shorter(side: _Side, round_ns: int) -> None:
    if not 0 <= round_ns <= 1000 * MAX_TIME_US:     # a clock that was set meanwhile
        return
    side.round_ns = round_ns if side.round_ns is None else min(side.round_ns, round_ns)


def _loss(side: _Side) -> float:
    return round((side.again + side.late) / side.segments, 6) if side.segments else 0.0


def vectors(packets: Iterable[Packet], counts: Counter[str], quiet_ns: int = QUIET_NS) -> list[Vector]:
    """The connections with data whose SYN is there, by their start; counts: what else there was, and what happened."""
    open_now: dict[tuple[Place, Place], _Connection] = {}
    headless: set[frozenset[Place]] = set()
    all_connections: list[_Connection] = []
    origin_ns: int | None = None
    copies = Copies()
    for packet in packets:
        origin_ns = packet.time_ns if origin_ns is None else min(origin_ns, packet.time_ns)
        counts["TCP segments"] += 1
        key = (packet.src, packet.dst)
        connection = open_now.get(key) or open_now.get(key[::-1])
        if copies.has(packet, connection and connection.round_ns or _AGAIN_NS):
            counts["of these captured twice"] += 1
            continue
        if packet.flags & (SYN | ACK) == SYN and (
                connection is None or connection.over or packet.seq != connection.sides[
                    0 if connection.ends == key else 1].isn):
            # a SYN with another number is another connection between the same ports
            open_now.pop(key[::-1], None)
            connection = open_now[key] = _Connection(packet, quiet_ns)
            all_connections.append(connection)
        elif connection is None:
            headless.add(frozenset(key))
        else:
            connection.add(packet)
    counts["left out: without SYN"] += len(headless)
    kept = []
    for connection in all_connections:
        if not connection.heard or not connection.units:
            why = "without data" if connection.heard and connection.up_ns is not None else \
                "only one way is there" if connection.up_ns is not None else "never established"
            counts[f"left out: {why}"] += 1
            continue
        connection.note(counts)
        kept.append(connection)
    begin_ns = min([origin_ns or 0, *(connection.start_ns for connection in kept)])
    if any(connection.start_ns - begin_ns > 1000 * MAX_TIME_US for connection in kept):
        raise AnalysisError(f"{counts['TCP segments']} segments over more than {MAX_TIME_US // 86_400_000_000} days: "
                            "the times of the capture cannot be right")
    found = [connection.vector(begin_ns, number) for number, connection in enumerate(kept, start=1)]
    return sorted(found, key=lambda one: one.start_us)
