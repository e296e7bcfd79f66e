# SPDX-License-Identifier: GPL-2.0-only
"""TCP packets of anybody's captures: pcap and pcapng of either byte order, gzipped or not, streamed.

Formats: draft-ietf-opsawg-pcap-03, draft-ietf-opsawg-pcapng-02. Only headers are needed. A file is somebody else's:
sizes are bounded, and what is cut off or no capture is one AnalysisError.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

from analysis.read.runs import AnalysisError

SYN, FIN, RST, ACK = 2, 1, 4, 16
_MOST_FRAME = 1 << 18
_MOST_BLOCK = 1 << 24
#: more than segmentation offload hands over at once (Linux, BIG TCP: 524,280 B)
_MOST_TCP = 1 << 20
#: what Ethernet carries at least; less is padded
_LEAST_CARRIED = 46
#: link types: where the type of the packet is, and where the packet begins; None: it begins at once, and says itself
_ETHERNET, _RAW, _COOKED, _COOKED_2 = 1, 101, 113, 276
_PLACES = {_ETHERNET: (12, 14), _COOKED: (14, 16), _COOKED_2: (0, 20), _RAW: None, 12: None, 228: None, 229: None}
_IPV4, _IPV6, _VLAN, _TCP = 0x0800, 0x86DD, (0x8100, 0x88A8), 6
#: extension headers of IPv6 that may stand before TCP: hop-by-hop, routing, destination
_EXTENSIONS = (0, 43, 60)
_MAGICS = {b"\xa1\xb2\xc3\xd4": (">", 1000), b"\xd4\xc3\xb2\xa1": ("<", 1000),
           b"\xa1\xb2\x3c\x4d": (">", 1), b"\x4d\x3c\xb2\xa1": ("<", 1)}
_PCAPNG = b"\x0a\x0d\x0d\x0a"
#: blocks of pcapng: of an interface, and of packets: enhanced, obsolete, simple
_INTERFACE, _ENHANCED, _OBSOLETE, _SIMPLE = 1, 6, 2, 3
#: which interface, time (high, low), bytes kept, bytes on the wire
_BLOCKS_OF_PACKETS = {_ENHANCED: "IIIII", _OBSOLETE: "H2xIIII"}
_MSS, _SCALE = (2, 4), (3, 3)


class Packet(NamedTuple):
    """A TCP segment. time_ns: of its capture; src, dst: (address, port); size: payload in bytes of the stream, whether
    it was kept or not; mss, scale: options of a SYN, None where it has none; ident: of IPv4, 0 where there is none;
    header: of TCP, as far as it was kept, without the checksum, which offload fills in later."""

    time_ns: int
    src: tuple[bytes, int]
    dst: tuple[bytes, int]
    seq: int
    ack: int
    flags: int
    window: int
    size: int
    mss: int | None
    scale: int | None
    ident: int
    header: bytes


#: of a segment: source, destination, where TCP begins, its length (None where the header says 0), identification
_Segment = tuple[bytes, bytes, int, int | None, int]


def tcp_packets(path: Path, counts: Counter[str]) -> Iterator[Packet]:
    """The TCP segments of a capture in its order; counts: how many packets are something else."""
    try:
        with open(path, "rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            stream: IO[bytes] = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if packed else raw
            for time_ns, link, frame, wire in _frames(stream):
                packet = _packet(time_ns, link, frame, max(wire, len(frame)), counts)
                if packet is not None:
                    yield packet
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        raise AnalysisError(f"{path}: cut off, or not what gzip made: {problem}") from None
    except ValueError as problem:
        raise AnalysisError(f"{path}: {problem}") from None
    except OSError as problem:
        raise AnalysisError(f"{path}: {problem.strerror or problem}") from None


def _frames(stream: IO[bytes]) -> Iterator[tuple[int, int, bytes, int]]:
    """(time in ns, link type, what was kept, bytes on the wire) of each packet. ValueError if it is no capture, or not
    whole."""
    magic = stream.read(4)
    if magic in _MAGICS:
        return _of_pcap(stream, *_MAGICS[magic])
    if magic == _PCAPNG:
        return _of_pcapng(stream)
    raise ValueError("neither pcap nor pcapng")


def _take(stream: IO[bytes], size: int, place: str) -> bytes:
    data: bytes = stream.read(size)
    if len(data) < size:
        raise ValueError(f"ends in the middle of {place}")
    return data


def _of_pcap(stream: IO[bytes], order: str, unit_ns: int) -> Iterator[tuple[int, int, bytes, int]]:
    *_, link = struct.unpack(f"{order}HHiIII", _take(stream, 20, "its header"))
    head, number = struct.Struct(f"{order}IIII"), 0
    while header := stream.read(16):
        number += 1
        if len(header) < 16:
            raise ValueError(f"ends in the middle of packet {number}")
        seconds, rest, kept, wire = head.unpack(header)
        if kept > _MOST_FRAME:
            raise ValueError(f"packet {number} has {kept} bytes, more than any: damaged")
        yield seconds * 10**9 + rest * unit_ns, link & 0xFFFF, _take(stream, kept, f"packet {number}"), wire


def _of_pcapng(stream: IO[bytes]) -> Iterator[tuple[int, int, bytes, int]]:
    order, kind, number = "<", struct.unpack("<I", _PCAPNG)[0], 0
    interfaces: list[tuple[int, tuple[int, int, int]]] = []
    while True:
        number += 1
        place = f"block {number}"
        size_bytes = _take(stream, 4, place)
        body = b""
        if kind == 0x0A0D0D0A:
            body, interfaces = _take(stream, 4, place), []
            order = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}.get(body, "")
            if not order:
                raise ValueError(f"{place} has no byte order: damaged")
        size, = struct.unpack(f"{order}I", size_bytes)
        if not 12 + len(body) <= size <= _MOST_BLOCK or size % 4:
            raise ValueError(f"{place} has {size} bytes: damaged")
        body += _take(stream, size - 12 - len(body), place)
        if _take(stream, 4, place) != size_bytes:
            raise ValueError(f"{place} does not end as it begins: damaged")
        if kind == _SIMPLE:
            raise ValueError(f"{place} is a Simple Packet Block, which has no time: waits and round trips cannot be "
                             "read; a capture with Enhanced Packet Blocks is needed")
        if kind == _INTERFACE:
            if len(body) < 8:
                raise ValueError(f"{place}, an interface, has {size} bytes, at least 20 expected: damaged")
            interfaces.append((struct.unpack_from(f"{order}H", body)[0], _clock(order, body)))
        elif kind in _BLOCKS_OF_PACKETS:
            if len(body) < 20:
                raise ValueError(f"{place}, a packet, has {size} bytes, at least 32 expected: damaged")
            which, high, low, kept, wire = struct.unpack_from(order + _BLOCKS_OF_PACKETS[kind], body)
            if which >= len(interfaces) or 20 + kept > len(body):
                raise ValueError(f"{place}, a packet, is longer than its block or of no interface: damaged")
            link, (factor, divisor, offset_ns) = interfaces[which]
            yield (high << 32 | low) * factor // divisor + offset_ns, link, body[20:20 + kept], wire
        begin = stream.read(4)
        if not begin:
            return
        if len(begin) < 4:
            raise ValueError(f"ends in the middle of block {number + 1}")
        kind, = struct.unpack(f"{order}I", begin)


def _clock(order: str, body: bytes) -> tuple[int, int, int]:
    """(factor, divisor) from an interface's units of time to ns, microseconds unless it says otherwise, and what is
    added."""
    at, resolution, offset_s = 8, (1000, 1), 0
    while at + 4 <= len(body):
        code, size = struct.unpack_from(f"{order}HH", body, at)
        if code == 0:
            break
        if code == 9 and size == 1 and at + 4 < len(body):
            value = body[at + 4]
            resolution = 10**9, 2 ** (value & 127) if value & 128 else 10 ** value
        elif code == 14 and size == 8 and at + 12 <= len(body):
            offset_s, = struct.unpack_from(f"{order}q", body, at + 4)
        at += 4 + size + -size % 4
    return *resolution, offset_s * 10**9


def _packet(time_ns: int, link: int, frame: bytes, wire: int, counts: Counter[str]) -> Packet | None:
    if link not in _PLACES:
        raise ValueError(f"packets of link type {link}; Ethernet, Linux cooked and raw IP are read")
    place = _PLACES[link]
    at = place[1] if place else 0
    if place and len(frame) >= at:
        kind = int.from_bytes(frame[place[0]:place[0] + 2], "big")
        while kind in _VLAN and len(frame) >= at + 4:
            kind, at = int.from_bytes(frame[at + 2:at + 4], "big"), at + 4
    else:
        kind = {4: _IPV4, 6: _IPV6}.get(frame[at] >> 4, 0) if len(frame) > at else 0
    try:
        carried = wire - at
        found = _ipv4(frame, at) if kind == _IPV4 else _ipv6(frame, at) if kind == _IPV6 else None
        if found is None:
            counts["other packets"] += 1
            return None
        if isinstance(found, str):
            counts["fragments"] += 1
            return None
        src, dst, at, size, ident = found
        sport, dport, seq, ack, offset, flags, window = struct.unpack_from("!HHIIBBH", frame, at)
    except (struct.error, IndexError):
        counts["packets whose headers were not kept"] += 1
        return None
    header = 4 * (offset >> 4)
    if size is None:        # offload has not filled it in: the frame says it, but for its padding
        size = header if link == _ETHERNET and carried <= _LEAST_CARRIED else wire - at
    if not 20 <= header <= size <= _MOST_TCP:
        counts["packets with impossible headers"] += 1
        return None
    known = options(frame[at + 20:at + header]) if flags & SYN else {}
    scales = known.get(_SCALE)
    return Packet(time_ns, (src, sport), (dst, dport), seq, ack, flags, window, size - header,
                  int.from_bytes(known[_MSS], "big") if _MSS in known else None, min(scales[0], 14) if scales else None,
                  ident, frame[at:at + 16] + frame[at + 18:at + header])


def _ipv4(frame: bytes, at: int) -> _Segment | str | None:
    """"fragment" for a part of a packet, None for what is not TCP. Segmentation offload writes the length later, and
    has no room for over 64 kB."""
    first, _, total, ident, fragment, _, protocol = struct.unpack_from("!BBHHHBB", frame, at)
    if protocol != _TCP:
        return None
    if fragment & 0x3FFF:
        return "fragment"
    header = 4 * (first & 15)
    return frame[at + 12:at + 16], frame[at + 16:at + 20], at + header, total - header if total else None, ident


def _ipv6(frame: bytes, at: int) -> _Segment | str | None:
    """As _ipv4; the length is that of a jumbogram (RFC 2675) where the header says 0."""
    _, payload, following, _ = struct.unpack_from("!IHBB", frame, at)
    begin = at + 40
    payload = payload or (_jumbo(frame, begin) if following == 0 else None)
    while following in _EXTENSIONS:
        size = 8 + 8 * frame[begin + 1]
        following, begin, payload = frame[begin], begin + size, payload and payload - size
    if following == 44:
        return "fragment"
    return (frame[at + 8:at + 24], frame[at + 24:at + 40], begin, payload, 0) if following == _TCP else None


def _jumbo(frame: bytes, at: int) -> int | None:
    """The length that a hop-by-hop header's option 0xC2 says, None without it."""
    end = at + 8 + 8 * frame[at + 1]
    at += 2
    while at < end:
        if frame[at] == 0:              # one byte of padding
            at += 1
            continue
        if frame[at] == 0xC2 and frame[at + 1] == 4:
            length, = struct.unpack_from("!I", frame, at + 2)
            return int(length)
        at += 2 + frame[at + 1]
    return None


def options(data: bytes) -> dict[tuple[int, int], bytes]:
    """{(kind, size): value} of the options of a TCP header, as far as they are whole."""
    found = {}
    at = 0
    while at < len(data) and data[at]:
        if data[at] == 1:
            at += 1
            continue
        size = data[at + 1] if at + 1 < len(data) else 0
        if size < 2 or at + size > len(data):
            break
        found[data[at], size] = data[at + 2:at + size]
        at += size
    return found
