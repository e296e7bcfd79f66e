# SPDX-License-Identifier: GPL-2.0-only
"""The captures of a run (probe pcap) in one pcapng file: an interface for each device, packets in order of time.

core/pcap_files.py, which wrote them, runs inside the guest: what is only needed here is here, so that it changes no
run's id. Format: draft-ietf-opsawg-pcapng-02, sections 4.1 to 4.3.
"""

from __future__ import annotations

import gzip
import heapq
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from analysis.packets import captures
from analysis.read.runs import AnalysisError, Run
from testbed.core import pcap_files

WHAT = "all captures of a run (probe pcap) in one file, for wireshark: an interface for each device, nanoseconds"
_ETHERNET, _SECOND_NS = 1, 1_000_000_000
_PCAP_HEADER, _PCAP_RECORD = struct.Struct("<IHHiIII"), struct.Struct("<IIII")
_SECTION, _INTERFACE, _PACKET, _ORDER = 0x0A0D0D0A, 1, 6, 0x1A2B3C4D
_BLOCK, _ENHANCED, _OPTION = struct.Struct("<II"), struct.Struct("<IIIII"), struct.Struct("<HH")
_NAME, _RESOLUTION, _NANO = 2, 9, bytes([9])


class _Record(NamedTuple):
    """A packet of an interface; options: of a block of pcapng, as they were written."""

    time_ns: int
    interface: int
    size: int
    data: bytes
    options: bytes


def export(run: Run, folder: Path, stem: str) -> list[Path]:
    """STEM.pcapng"""
    found = captures.files(run.path)
    if not found:
        raise AnalysisError(f"{run.path}: no captures in raw/; they come with --probe pcap")
    devices, records = [], []
    for number, path in enumerate(found):
        try:
            snap_bytes, packets = _read(path, number)
        except (OSError, EOFError, ValueError, struct.error) as problem:
            raise AnalysisError(f"{path}: no capture that can be read: {problem}") from None
        devices.append((path.name.removeprefix("capture-").partition(".pcap")[0], snap_bytes))
        records.append(packets)
    target = folder / f"{stem}.pcapng"
    with open(target, "wb") as file:
        _write(file, devices, heapq.merge(*records, key=lambda one: one.time_ns))
    return [target]


def _write(file: BinaryIO, devices: list[tuple[str, int]], records: Iterable[_Record]) -> None:
    file.write(_block(_SECTION, struct.pack("<IHHq", _ORDER, 1, 0, -1)))
    for device, snap_bytes in devices:
        options = b"".join(_OPTION.pack(code, len(value)) + _padded(value)
                           for code, value in ((_NAME, device.encode()), (_RESOLUTION, _NANO)))
        file.write(_block(_INTERFACE, struct.pack("<HHI", _ETHERNET, 0, snap_bytes) + options + _OPTION.pack(0, 0)))
    for one in records:
        head = _ENHANCED.pack(one.interface, one.time_ns >> 32, one.time_ns & 0xFFFFFFFF, len(one.data), one.size)
        file.write(_block(_PACKET, head + _padded(one.data) + one.options))


def _block(kind: int, body: bytes) -> bytes:
    size = _BLOCK.size + len(body) + 4
    return _BLOCK.pack(kind, size) + body + struct.pack("<I", size)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _read(path: Path, number: int) -> tuple[int, list[_Record]]:
    """(the most that was kept of a packet, the packets as those of interface `number`) of a file of the probe pcap."""
    if path.name.endswith(".pcapng.gz"):
        with gzip.open(path, "rb") as file:
            content = file.read()
        return _of_blocks(content, number)
    content = pcap_files.as_pcap(path)
    *_, snap_bytes, _ = _PCAP_HEADER.unpack_from(content)
    at, found = _PCAP_HEADER.size, []
    while at < len(content):
        seconds, rest_ns, kept, size = _PCAP_RECORD.unpack_from(content, at)
        at += _PCAP_RECORD.size + kept
        if at > len(content):
            raise ValueError("the last packet is not whole")
        found.append(_Record(seconds * _SECOND_NS + rest_ns, number, size, content[at - kept:at], b""))
    return snap_bytes, found


def _of_blocks(content: bytes, number: int) -> tuple[int, list[_Record]]:
    """Of a section with one interface, in our byte order."""
    at, snap_bytes, found = 0, 0, []
    while at < len(content):
        kind, size = _BLOCK.unpack_from(content, at)
        if size < 12 or at + size > len(content):
            raise ValueError(f"the block at byte {at} is not whole")
        body, end = at + _BLOCK.size, at + size - 4
        if kind == _INTERFACE:
            snap_bytes, = struct.unpack_from("<I", content, body + 4)
        elif kind == _PACKET:
            _, high, low, kept, length = _ENHANCED.unpack_from(content, body)
            data = body + _ENHANCED.size
            options = data + kept + -kept % 4
            if options > end:
                raise ValueError("a packet is longer than its block")
            found.append(_Record(high << 32 | low, number, length, content[data:data + kept], content[options:end]))
        at += size
    return snap_bytes, found
