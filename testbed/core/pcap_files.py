# SPDX-License-Identifier: GPL-2.0-only
"""Files of captured packets: pcap and pcapng, both with nanoseconds.

https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-03.html and draft-ietf-opsawg-pcapng-02.html
"""
import gzip
import pathlib
import struct
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

#: names of the formats, which are also how the files' names end (before .gz)
FORMATS = ("pcap", "pcapng")
_ETHERNET, _SECOND_NS = 1, 1_000_000_000
_PCAP_HEADER, _PCAP_RECORD, _NANOSECONDS = struct.Struct("<IHHiIII"), struct.Struct("<IIII"), 0xA1B23C4D
#: of pcapng: types of blocks, the mark of the byte order, options
_SECTION, _INTERFACE, _PACKET, _ORDER = 0x0A0D0D0A, 1, 6, 0x1A2B3C4D
_BLOCK, _ENHANCED, _OPTION = struct.Struct("<II"), struct.Struct("<IIIII"), struct.Struct("<HH")
_NAME, _RESOLUTION, _FLAGS = 2, 9, 2
_NANO = bytes([9])
#: of a packet: which way it went at its device
_INBOUND, _OUTBOUND = 1, 2


class Packet(NamedTuple):
    """time_ns: of its capture; size: in bytes, of which `data` are the first; leaves: its device (else it arrives)."""
    time_ns: int
    size: int
    data: bytes
    leaves: bool = False


def write(file: BinaryIO, kind: str, packets: Iterable[Packet], snap_bytes: int, device: str) -> None:
    """A whole file of a format. snap_bytes: the most that is kept of a packet."""
    if kind == "pcap":
        file.write(_PCAP_HEADER.pack(_NANOSECONDS, 2, 4, 0, 0, snap_bytes, _ETHERNET))
        for packet in packets:
            file.write(_PCAP_RECORD.pack(*divmod(packet.time_ns, _SECOND_NS), len(packet.data), packet.size)
                       + packet.data)
        return
    file.write(_block(_SECTION, struct.pack("<IHHq", _ORDER, 1, 0, -1)))
    file.write(_block(_INTERFACE, struct.pack("<HHI", _ETHERNET, 0, snap_bytes)
                      + _options((_NAME, device.encode()), (_RESOLUTION, _NANO))))
    for packet in packets:
        way = struct.pack("<I", _OUTBOUND if packet.leaves else _INBOUND)
        file.write(_block(_PACKET, _ENHANCED.pack(0, packet.time_ns >> 32, packet.time_ns & 0xFFFFFFFF,
                                                  len(packet.data), packet.size)
                          + _padded(packet.data) + _options((_FLAGS, way))))


def _block(kind: int, body: bytes) -> bytes:
    size = _BLOCK.size + len(body) + 4
    return _BLOCK.pack(kind, size) + body + struct.pack("<I", size)


def _options(*options: tuple[int, bytes]) -> bytes:
    return b"".join(_OPTION.pack(code, len(value)) + _padded(value) for code, value in options) + _OPTION.pack(0, 0)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def as_pcap(path: pathlib.Path) -> bytes:
    """The content of a gzipped file that `write` made, as pcap: what older programs read. ValueError, OSError or
    EOFError if it is none."""
    with gzip.open(path, "rb") as file:
        content = file.read()
    if path.name.endswith(".pcap.gz"):
        return content
    snap_bytes, parts = 0, []
    try:
        for kind, at, end in _blocks(content):
            if kind == _INTERFACE:
                snap_bytes, = struct.unpack_from("<I", content, at + 4)
            elif kind == _PACKET:
                _, high, low, kept, size = _ENHANCED.unpack_from(content, at)
                if at + _ENHANCED.size + kept > end:
                    raise ValueError("a packet is longer than its block")
                data = content[at + _ENHANCED.size:at + _ENHANCED.size + kept]
                parts.append(_PCAP_RECORD.pack(*divmod(high << 32 | low, _SECOND_NS), kept, size) + data)
    except struct.error as problem:
        raise ValueError(str(problem)) from None
    return _PCAP_HEADER.pack(_NANOSECONDS, 2, 4, 0, 0, snap_bytes, _ETHERNET) + b"".join(parts)


def _blocks(content: bytes) -> Iterator[tuple[int, int, int]]:
    """(type, where its body begins, where it ends) of the blocks of a section in our byte order."""
    at = 0
    if content[:4] != struct.pack("<I", _SECTION) or content[8:12] != struct.pack("<I", _ORDER):
        raise ValueError("no pcapng of this byte order")
    while at < len(content):
        kind, size = _BLOCK.unpack_from(content, at)
        if size < 12 or at + size > len(content) or content[at + size - 4:at + size] != content[at + 4:at + 8]:
            raise ValueError(f"the block at byte {at} is not whole")
        yield kind, at + _BLOCK.size, at + size - 4
        at += size
