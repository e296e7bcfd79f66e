# SPDX-License-Identifier: GPL-2.0-only
"""Captures of connections that are written down segment by segment."""
import ipaddress
import struct
from collections import Counter

from analysis import packets
from analysis.packets import conversations

SYN, FIN, RST, ACK = 2, 1, 4, 16
_ISN = (0xFFFFFF00, 7)          # the initiator's wraps after 255 bytes
_ENDS = (("10.0.0.1", 40000), ("10.0.0.2", 80))
_SIX = (("fd00::1", 40000), ("fd00::2", 80))


def segment(side, begin, size, acked, flags=ACK, ends=_ENDS, window=500, options=b"", isn=_ISN,
            ident=0):
    """The IP packet with bytes [begin, begin + size) of a side, which has `acked` bytes of the other; of the payload
    nothing is kept. Of a SYN the bytes stand behind it."""
    (src, sport), (dst, dport) = ends if side == 0 else ends[::-1]
    seq = (isn[side] + (0 if flags & SYN else 1 + begin)) % 2**32
    ack = (isn[1 - side] + 1 + acked) % 2**32 if flags & ACK else 0
    tcp = struct.pack("!HHIIBBHHH", sport, dport, seq, ack, (20 + len(options)) << 2, flags, window, 0, 0) + options
    one, other = (ipaddress.ip_address(text).packed for text in (src, dst))
    if len(one) == 4:
        return struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp) + size, ident, 0, 64, 6, 0) + one + other + tcp
    # with a hop-by-hop header, which some networks have
    hops = bytes([6, 0, 1, 4, 0, 0, 0, 0])
    return struct.pack("!IHBB", 6 << 28, len(hops) + len(tcp) + size, 0, 64) + one + other + hops + tcp


def opening(t_us=0, to_initiator_us=5_000, to_acceptor_us=10_000, mss=(1460, 1460), **how):
    """[(time, packet)] of a handshake, captured so far from both ends."""
    options = [struct.pack("!BBHBBBB", 2, 4, one, 1, 3, 3, 7) for one in mss]
    answer_us = t_us + 2 * to_acceptor_us
    return [(t_us, segment(0, 0, 0, 0, SYN, options=options[0], window=64_000, **how)),
            (answer_us, segment(1, 0, 0, 0, SYN | ACK, options=options[1], window=65_000, **how)),
            (answer_us + 2 * to_initiator_us, segment(0, 0, 0, 0, **how))]


def six(packets):
    """What `opening` and `segment` take for IPv6."""
    return {"ends": _SIX, **packets}


def ethernet(packet):
    return bytes(12) + (b"\x08\x00" if packet[0] >> 4 == 4 else b"\x86\xdd") + packet


def pcap(timed, frame=ethernet, link=1, order="<", magic=0xA1B2C3D4, snap=None):
    """The content of a file of [(time in us, packet)], of each of which `snap` bytes are kept."""
    unit = 1000 if magic == 0xA1B23C4D else 1
    content = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 96, link)
    for t_us, packet in timed:
        data = frame(packet)
        content += struct.pack(f"{order}IIII", t_us // 10**6, t_us % 10**6 * unit, len(data[:snap]), len(data))
        content += data[:snap]
    return content


def block(kind, body, order="<"):
    """A block of pcapng."""
    body += bytes(-len(body) % 4)
    return struct.pack(f"{order}II", kind, 12 + len(body)) + body + struct.pack(f"{order}I", 12 + len(body))


def pcapng(timed, order="<", resolution=None, offset_s=None, kinds=(6,)):
    """The same as pcapng. resolution: the option's byte, as microseconds without it; kinds: of blocks of packets, in
    turn."""
    option = struct.pack(f"{order}HHBxxx", 9, 1, resolution) if resolution is not None else b""
    option += struct.pack(f"{order}HHq", 14, 8, offset_s) if offset_s is not None else b""
    ticks = {None: 10**6, 9: 10**9, 0x80 | 20: 2**20}[resolution]
    content = block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)
    content += block(1, struct.pack(f"{order}HHI", 1, 0, 96) + option, order)
    for number, (t_us, packet) in enumerate(timed):
        data, time, kind = ethernet(packet), t_us * ticks // 10**6, kinds[number % len(kinds)]
        size, head = struct.pack(f"{order}I", len(data)), b""
        if kind != 3:           # a simple one has neither an interface nor a time; an obsolete one counts drops
            head = struct.pack(order + ("HH" if kind == 2 else "I"), *((0, 7) if kind == 2 else (0,)))
            head += struct.pack(f"{order}II", time >> 32, time & 0xFFFFFFFF) + size
        content += block(kind, head + size + data, order)
    return content


def copied(timed, after_us=1, change=lambda packet: packet):
    """Each packet twice."""
    return sorted([*timed, *((t_us + after_us, change(packet)) for t_us, packet in timed)], key=lambda one: one[0])


def read(tmp_path, content, quiet_ns=conversations.QUIET_NS):
    """(vectors, the account) of the content of a file."""
    path = tmp_path / "some.pcap"
    path.write_bytes(content)
    counts = Counter()
    return conversations.vectors(packets.tcp_packets(path, counts), counts, quiet_ns), counts
