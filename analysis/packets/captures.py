# SPDX-License-Identifier: GPL-2.0-only
"""Captures of the probe pcap: TCP segments, and whether their sequence numbers add up."""

from __future__ import annotations

import dataclasses
import socket
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from analysis import packets
from analysis.packets.copies import Copies
from testbed.core import ip, pcap_files

_SIZE = 1 << 32


class Segment(NamedTuple):
    """A TCP segment: t_us in experiment time, endpoints as address:port, payload in bytes of the stream; copy: of a
    segment before, not sent again."""

    t_us: int
    src: str
    dst: str
    seq: int
    ack: int
    payload_bytes: int
    syn: bool
    fin: bool
    copy: bool = False

    @property
    def end(self) -> int:
        """The sequence number behind it; SYN and FIN count as one."""
        return (self.seq + self.payload_bytes + self.syn + self.fin) % _SIZE


def files(run_folder: Path) -> list[Path]:
    """The captures of a run, by name."""
    return sorted(path for kind in pcap_files.FORMATS for path in (run_folder / "raw").glob(f"capture-*.{kind}.gz"))


def segments(path: Path) -> Iterator[Segment]:
    """The TCP segments of a capture in the order of time. AnalysisError if it is none."""
    copies = Copies()
    opened_ns: dict[object, int] = {}
    round_ns: dict[object, int] = {}
    for packet in packets.tcp_packets(path, Counter()):
        way = packet.src, packet.dst
        syn = bool(packet.flags & packets.SYN)
        copy = copies.has(packet, round_ns.get(way, 0))
        if packet.flags & (packets.SYN | packets.ACK) == packets.SYN and not copy:
            opened_ns[way] = packet.time_ns
        elif not syn and way in opened_ns:
            round_ns[way] = round_ns[way[::-1]] = packet.time_ns - opened_ns.pop(way)
        yield Segment(packet.time_ns // 1000, _endpoint(*packet.src), _endpoint(*packet.dst), packet.seq, packet.ack,
                      packet.size, syn, bool(packet.flags & packets.FIN), copy)


def _endpoint(address: bytes, port: int) -> str:
    return ip.endpoint(socket.inet_ntop(socket.AF_INET if len(address) == 4 else socket.AF_INET6, address), port)


@dataclasses.dataclass
class Sequence:
    """What one end of a connection sent, as far as sequence numbers tell.

    copies: segments that a link doubled, which count nowhere else; sent_again: segments of which nothing is new;
    gap_bytes: bytes of the stream that were skipped when a segment began beyond the end of those before it (at the
    sender there are none).
    """
    segments: int = 0
    copies: int = 0
    payload_bytes: int = 0
    new_bytes: int = 0
    sent_again: int = 0
    gap_bytes: int = 0
    first_us: int = 0
    last_us: int = 0
    _next: int | None = None

    def add(self, segment: Segment) -> None:
        """The next segment in time. Numbers are compared modulo 2^32 (RFC 9293, section 3.4)."""
        if segment.copy:
            self.copies += 1
            return
        if self._next is None:
            self._next, self.first_us = segment.seq, segment.t_us
        self.segments += 1
        self.payload_bytes += segment.payload_bytes
        self.last_us = segment.t_us
        ahead = _distance(segment.end, self._next)
        if ahead > 0:
            gap = max(0, _distance(segment.seq, self._next))
            self.gap_bytes += gap
            self.new_bytes += ahead - gap - segment.syn - segment.fin
            self._next = segment.end
        elif segment.payload_bytes:
            self.sent_again += 1


def _distance(later: int, earlier: int) -> int:
    """From one sequence number to another, negative if it is behind."""
    return (later - earlier + _SIZE // 2) % _SIZE - _SIZE // 2


def sequences(found: Iterable[Segment]) -> dict[tuple[str, str], Sequence]:
    """{(from, to): what it sent} of the segments of a capture, in the order of their first."""
    by_way: dict[tuple[str, str], Sequence] = {}
    for segment in found:
        by_way.setdefault((segment.src, segment.dst), Sequence()).add(segment)
    return by_way
