# SPDX-License-Identifier: GPL-2.0-only
"""Captures of the probe pcap: TCP segments, and whether their sequence numbers add up."""

from __future__ import annotations

import dataclasses
import io
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from analysis.runs import AnalysisError
from testbed import pcap_files
from topologies import ip

_SIZE = 1 << 32


class Segment(NamedTuple):
    """A TCP segment: t_us in experiment time, endpoints as address:port, payload in bytes of the stream."""

    t_us: int
    src: str
    dst: str
    seq: int
    ack: int
    payload_bytes: int
    syn: bool
    fin: bool

    @property
    def end(self) -> int:
        """The sequence number behind it; SYN and FIN count as one."""
        return (self.seq + self.payload_bytes + self.syn + self.fin) % _SIZE


def files(run_folder: Path) -> list[Path]:
    """The captures of a run, by name."""
    return sorted(path for kind in pcap_files.FORMATS for path in (run_folder / "raw").glob(f"capture-*.{kind}.gz"))


def segments(path: Path) -> Iterator[Segment]:
    """The TCP segments of a capture in the order of time. AnalysisError if it is none."""
    import dpkt
    try:
        for time_s, data in dpkt.pcap.Reader(io.BytesIO(pcap_files.as_pcap(path))):
            packet = dpkt.ethernet.Ethernet(data).data
            if not isinstance(packet, (dpkt.ip.IP, dpkt.ip6.IP6)) or not isinstance(packet.data, dpkt.tcp.TCP):
                continue
            tcp = packet.data
            # what IPv6 says is the length without its header
            size = packet.plen if isinstance(packet, dpkt.ip6.IP6) else packet.len - 4 * packet.hl
            yield Segment(int(time_s * 1_000_000), _endpoint(packet.src, tcp.sport), _endpoint(packet.dst, tcp.dport),
                          tcp.seq, tcp.ack, size - 4 * tcp.off,
                          bool(tcp.flags & dpkt.tcp.TH_SYN), bool(tcp.flags & dpkt.tcp.TH_FIN))
    except (OSError, EOFError, ValueError, dpkt.dpkt.Error) as problem:
        raise AnalysisError(f"{path}: no capture that can be read: {problem}") from None


def _endpoint(address: bytes, port: int) -> str:
    return ip.endpoint(socket.inet_ntop(socket.AF_INET if len(address) == 4 else socket.AF_INET6, address), port)


@dataclasses.dataclass
class Sequence:
    """What one end of a connection sent, as far as sequence numbers tell.

    sent_again: segments of which nothing is new; gap_bytes: bytes of the stream that were skipped when a segment
    began beyond the end of those before it (at the sender there are none).
    """
    segments: int = 0
    payload_bytes: int = 0
    new_bytes: int = 0
    sent_again: int = 0
    gap_bytes: int = 0
    first_us: int = 0
    last_us: int = 0
    _next: int | None = None

    def add(self, segment: Segment) -> None:
        """The next segment in time. Numbers are compared modulo 2^32 (RFC 9293, section 3.4)."""
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
