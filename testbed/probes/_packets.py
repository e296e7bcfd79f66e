# SPDX-License-Identifier: GPL-2.0-only
"""Copies of packets that leave a device (or arrive at it), without a process: packet sockets with rings, into which the
kernel copies what there is at once. A packet that waited to be read would be a clone, which a receiver does not merge
with others.
"""
import dataclasses
import mmap
import pathlib
import socket
import struct
import time
from collections.abc import Iterator, Sequence

from testbed.core import fields

#: an instruction of classic BPF: code, jumps if true and if false, operand
Instruction = tuple[int, int, int, int]

_ETH_P_ALL = 3
_SO_ATTACH_FILTER = 26
#: include/uapi/linux/if_packet.h
_SOL_PACKET, _PACKET_RX_RING, _PACKET_STATISTICS, _PACKET_VERSION, _TPACKET_V2 = 263, 5, 6, 10, 1
_STATUS = struct.Struct("=I")
#: struct tpacket2_hdr: status, len, snaplen, mac, net, sec, nsec
_FRAME = struct.Struct("=IIIHHII")
_FRAME_OVERHEAD_BYTES, _BLOCK_BYTES = 96, 1 << 16
#: of a packet in the work folder: time in ns, its size, how much of it follows
_RECORD = struct.Struct("=qII")
_LOAD_HALF, _LOAD_BYTE, _AND, _EQUAL, _RETURN = 0x28, 0x30, 0x54, 0x15, 0x06
#: room for packets of a device between two looks: 10 Gbit/s of full ones
FRAMES, LOOK_US = 1 << 13, 10_000
_KIND_OF_PACKET, _OUTGOING = 0xFFFFF004, 4          # SKF_AD_OFF + SKF_AD_PKTTYPE, PACKET_OUTGOING


def outgoing(snap_bytes: int) -> list[Instruction]:
    """So much of every packet that leaves."""
    return [(_LOAD_HALF, 0, 0, _KIND_OF_PACKET), (_EQUAL, 0, 1, _OUTGOING), (_RETURN, 0, 0, snap_bytes),
            (_RETURN, 0, 0, 0)]


def tcp(snap_bytes: int, leaving: bool) -> list[Instruction]:
    """So much of every TCP segment, of packets that begin with their IP header (and no fragments but the first);
    leaving: only of those that leave."""
    first = [(_LOAD_HALF, 0, 0, _KIND_OF_PACKET), (_EQUAL, 0, 12, _OUTGOING)] if leaving else []
    return [*first, (_LOAD_BYTE, 0, 0, 0), (_AND, 0, 0, 0xF0), (_EQUAL, 0, 5, 0x40),
            (_LOAD_HALF, 0, 0, 6), (_AND, 0, 0, 0x1FFF), (_EQUAL, 0, 6, 0), (_LOAD_BYTE, 0, 0, 9), (_EQUAL, 3, 4, 6),
            (_EQUAL, 0, 3, 0x60), (_LOAD_BYTE, 0, 0, 6), (_EQUAL, 0, 1, 6),
            (_RETURN, 0, 0, snap_bytes), (_RETURN, 0, 0, 0)]


def outgoing_marked(snap_bytes: int) -> list[Instruction]:
    """So much of every packet that leaves with CE in its IP header (RFC 3168; of IPv6: RFC 2460's traffic class)."""
    return [(_LOAD_HALF, 0, 0, _KIND_OF_PACKET), (_EQUAL, 0, 10, _OUTGOING), (_LOAD_HALF, 0, 0, 12),
            (_EQUAL, 0, 3, 0x0800), (_LOAD_BYTE, 0, 0, 15), (_AND, 0, 0, 0x03), (_EQUAL, 4, 5, 0x03),
            (_EQUAL, 0, 4, 0x86DD), (_LOAD_BYTE, 0, 0, 15), (_AND, 0, 0, 0x30), (_EQUAL, 0, 1, 0x30),
            (_RETURN, 0, 0, snap_bytes), (_RETURN, 0, 0, 0)]


def slot_bytes(snap_bytes: int) -> int:
    """What a packet takes in a ring of which so much is kept."""
    return 1 << (snap_bytes + _FRAME_OVERHEAD_BYTES - 1).bit_length()


class Ring:
    """Copies of what leaves a device, with the kernel's time stamps. Open it in the namespace of the device.

    wanted: a filter; frames: how many packets there is room for (a power of two) between two calls of `drain`;
    path: the file that they go to; ip_only: packets begin with their IP header, whatever the device puts before it.
    """

    def __init__(self, device: str, wanted: Sequence[Instruction], snap_bytes: int, frames: int, path: str,
                 ip_only: bool = False) -> None:
        import ctypes
        self._size = slot_bytes(snap_bytes)
        block = max(_BLOCK_BYTES, self._size)
        self._bytes = frames * self._size
        self._at = 0
        self._file = open(path, "wb")
        # bound later: nothing of other devices
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM if ip_only else socket.SOCK_RAW, 0)
        code = b"".join(struct.pack("=HBBI", *instruction) for instruction in wanted)
        kept = ctypes.create_string_buffer(code, len(code))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER,
                                struct.pack("@HP", len(wanted), ctypes.addressof(kept)))
        self._socket.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_RX_RING, struct.pack(
            "=4I", block, self._bytes // block, self._size, frames))
        self._ring = mmap.mmap(self._socket.fileno(), self._bytes, mmap.MAP_SHARED)
        self._socket.bind((device, _ETH_P_ALL))

    def drain(self) -> None:
        """Move what has been captured to the file."""
        while True:
            status, size, kept, mac, _, seconds, nanoseconds = _FRAME.unpack_from(self._ring, self._at)
            if not status & 1:                  # TP_STATUS_USER
                return
            begin = self._at + mac
            self._file.write(_RECORD.pack(seconds * 1_000_000_000 + nanoseconds, size, kept)
                             + self._ring[begin:begin + kept])
            _STATUS.pack_into(self._ring, self._at, 0)
            self._at = (self._at + self._size) % self._bytes

    def close(self) -> int:
        """The rest; returns the number of packets for which there was no room."""
        self.drain()
        self._file.close()
        lost: int = struct.unpack("=II", self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1]
        self._ring.close()
        self._socket.close()
        return lost


@dataclasses.dataclass(frozen=True)
class SumOptions:
    """interval: what packets are summed up over, once the run is over."""
    interval_us: int = fields.time(default=100_000, least=1000)


def note_clocks(path: str) -> None:
    """Packets are stamped by the wall clock: note by how much it is ahead of the monotonic one."""
    pathlib.Path(path).write_text(str(time.clock_gettime_ns(time.CLOCK_REALTIME) - time.monotonic_ns()))


class RingSampler:
    """A probe that empties its rings, and at the end notes what the clocks said (in the file of that path)."""
    interval_us = LOOK_US

    def __init__(self, clocks: str) -> None:
        self.rings: list[Ring] = []
        self._clocks = clocks

    def open(self) -> None:
        """Rings take packets from their making on."""

    def sample(self, t_us: int) -> None:
        """Write down what has come."""
        for ring in self.rings:
            ring.drain()

    def close(self) -> dict[str, object]:
        """The rest, and how many packets there was no room for."""
        lost = sum(ring.close() for ring in self.rings)
        note_clocks(self._clocks)
        return {"lost_packets": lost}


def noted_ns(path: pathlib.Path) -> int:
    """What `note_clocks` has noted."""
    return int(path.read_text())


def records(path: pathlib.Path) -> Iterator[tuple[int, int, bytes]]:
    """(time in ns of the wall clock, size, beginning) of the packets that a ring has left."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        time_ns, size, kept = _RECORD.unpack_from(data, at)
        at += _RECORD.size + kept
        yield time_ns, size, data[at - kept:at]
