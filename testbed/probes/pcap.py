# SPDX-License-Identifier: GPL-2.0-only
"""Packets as they leave a node and arrive at it, for tcpdump, tcptrace and wireshark (-> capture-*.pcap.gz).

    pcap: {nodes: [n1, n4], snap: 96 B}     default: all hosts

Packet sockets with rings, into which the kernel copies what there is at once: a packet that waited to be read would be
a clone, which a receiver does not merge with others, and windows would differ. No process is started. What leaves is
seen behind the queue of its device, what arrives behind the wire (docs/captures.md).
"""
import dataclasses
import mmap
import pathlib
import socket
import struct
import time
from typing import Any

from testbed import fields

Json = dict[str, Any]

_ETH_P_ALL = 3
_SO_ATTACH_FILTER = 26
#: include/uapi/linux/if_packet.h
_SOL_PACKET, _PACKET_RX_RING, _PACKET_STATISTICS, _PACKET_VERSION, _TPACKET_V2 = 263, 5, 6, 10, 1
_STATUS = struct.Struct("=I")
#: struct tpacket2_hdr: status, len, snaplen, mac, net, sec, nsec
_FRAME = struct.Struct("=IIIHHII")
_FRAME_OVERHEAD_BYTES, _BLOCK_BYTES, _FRAMES = 96, 1 << 16, 1 << 14
#: of a packet in the work folder: time in ns, its size, how much of it follows
_RECORD = struct.Struct("=qII")
#: https://www.ietf.org/archive/id/draft-gharris-opsawg-pcap-01.html: nanoseconds, Ethernet
_PCAP_HEADER, _PCAP_RECORD = struct.Struct("<IHHiIII"), struct.Struct("<IIII")
_NANOSECONDS, _ETHERNET = 0xA1B23C4D, 1


@dataclasses.dataclass(frozen=True)
class Options:
    """nodes: whose devices; snap: how much of a packet; interval: between two looks at what has come."""
    nodes: tuple[str, ...] = fields.listing(fields.word(pattern="[A-Za-z0-9_-]+", example="n1"), default=(),
                                            single=True, distinct=True)
    snap_bytes: int = fields.size(default=96, least=34, most=1514)
    interval_us: int = fields.time(default=10_000, least=1000)


class _Ring:
    """Copies of what leaves a device, with the kernel's time stamps."""

    def __init__(self, device: str, snap: int, path: str) -> None:
        import ctypes
        self._size = 1 << (snap + _FRAME_OVERHEAD_BYTES - 1).bit_length()
        self._at = 0
        self._file = open(path, "wb")
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)      # bound later: nothing of other devices
        # classic BPF: so much of packets that leave (SKF_AD_PKTTYPE is PACKET_OUTGOING), nothing of others
        code = b"".join(struct.pack("=HBBI", *instruction) for instruction in (
            (0x28, 0, 0, 0xFFFFF004), (0x15, 0, 1, 4), (0x06, 0, 0, snap), (0x06, 0, 0, 0)))
        kept = ctypes.create_string_buffer(code, len(code))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER,
                                struct.pack("@HP", len(code) // 8, ctypes.addressof(kept)))
        self._socket.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_RX_RING, struct.pack(
            "=4I", _BLOCK_BYTES, _FRAMES * self._size // _BLOCK_BYTES, self._size, _FRAMES))
        self._ring = mmap.mmap(self._socket.fileno(), _FRAMES * self._size, mmap.MAP_SHARED)
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
            self._at = (self._at + self._size) % (_FRAMES * self._size)

    def close(self) -> int:
        """The rest; returns the number of packets for which there was no room."""
        self.drain()
        self._file.close()
        lost: int = struct.unpack("=II", self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1]
        self._ring.close()
        self._socket.close()
        return lost


class Sampler:
    """Two rings for each device of the nodes: what leaves it, and what its wire brings."""

    def __init__(self, settings: Json, network: Any, description: Json, work_dir: str) -> None:
        from topologies.network import wire_device
        self.interval_us = settings.get("interval_us", 10_000)
        self._work_dir = work_dir
        self._rings: list[_Ring] = []
        wanted = _nodes(settings, description)
        for link in description["links"]:
            if link["from"] in wanted:
                with network.in_namespace(link["from"]):
                    self._rings += [_Ring(device, settings.get("snap_bytes", 96), f"{work_dir}/capture-{device}")
                                    for device in (link["device"], wire_device(link["device"]))]

    def open(self) -> None:
        pass

    def sample(self, t_us: int) -> None:
        for ring in self._rings:
            ring.drain()

    def close(self) -> Json:
        lost = sum(ring.close() for ring in self._rings)
        # packets are stamped by the wall clock
        ahead_ns = time.clock_gettime_ns(time.CLOCK_REALTIME) - time.monotonic_ns()
        pathlib.Path(self._work_dir, "capture.ahead").write_text(str(ahead_ns))
        return {"lost_packets": lost}


def _nodes(settings: Json, description: Json) -> set[str]:
    """The nodes whose devices are captured. ValueError if the network has no such node."""
    known = {node["name"]: node["role"] for node in description["nodes"]}
    wanted = settings.get("nodes") or [name for name, role in known.items() if role == "host"]
    for name in wanted:
        if name not in known:
            raise ValueError(f"probes.pcap.nodes: no node {name}; there are: {', '.join(known)}")
    return set(wanted)


def collect(work_dir: pathlib.Path, raw_dir: pathlib.Path, context: Json) -> None:
    """One file for each device, of both its ways, in experiment time; packets from before traffic are left out."""
    from testbed.raw_files import packed
    from topologies.network import wire_device
    t0_ns = context["t0_ns"] + int((work_dir / "capture.ahead").read_text())
    snap = context["settings"].get("snap_bytes", 96)
    for link in context["network"]["links"]:
        device = link["device"]
        # of one instant what arrives is the first
        paths = [work_dir / f"capture-{one}" for one in (wire_device(device), device)]
        if not paths[0].exists():
            continue
        packets = sorted((one for path in paths for one in _records(path) if one[0] >= t0_ns), key=lambda one: one[0])
        with packed(raw_dir / f"capture-{device}.pcap.gz") as file:
            file.write(_PCAP_HEADER.pack(_NANOSECONDS, 2, 4, 0, 0, snap, _ETHERNET))
            for time_ns, size, data in packets:
                file.write(_PCAP_RECORD.pack(*divmod(time_ns - t0_ns, 1_000_000_000), len(data), size) + data)


def _records(path: pathlib.Path) -> list[tuple[int, int, bytes]]:
    """(time in ns of the wall clock, size, beginning) of the packets of one way."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        time_ns, size, kept = _RECORD.unpack_from(data, at)
        at += _RECORD.size + kept
        found.append((time_ns, size, data[at - kept:at]))
    return found
