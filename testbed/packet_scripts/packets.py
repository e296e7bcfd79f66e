# SPDX-License-Identifier: GPL-2.0-only
"""Packets of scripts as bytes, and bytes that the kernel sent as packets of scripts. scapy knows the headers.

Scripts count sequence numbers from those of the two SYNs, and timestamps from the first of each side.
"""
from __future__ import annotations

import dataclasses
import logging
import struct

from testbed.packet_scripts import options as tcp_options
from testbed.packet_scripts.language import Icmp, IpFields, Option, Packet, Tcp, Udp, Way

# scapy warns of devices without addresses, on the standard error, when it is imported
logging.getLogger("scapy").setLevel(logging.ERROR)
from scapy.layers.inet import ICMP, IP, TCP, UDP  # noqa: E402 # isort: skip
from scapy.layers.inet6 import ICMPv6Unknown, IPv6  # noqa: E402 # isort: skip
from scapy.packet import Raw  # noqa: E402 # isort: skip

_BITS = {"F": 1, "S": 2, "R": 4, "P": 8, ".": 16, "U": 32, "E": 64, "W": 128, "A": 256}
#: the order in which scripts write flags
_ORDER = "FSREWAPU."
_WRAP = 1 << 32
_TCP, _UDP, _ICMP, _ICMPV6 = 6, 17, 1, 58
#: router and neighbour discovery, and listeners of multicast: the device's business, and none of a socket's
_NOT_OF_SOCKETS = range(130, 155)


@dataclasses.dataclass(frozen=True)
class Ends:
    """Addresses and ports: of the kernel under test, and of the other side, whose part the script plays."""
    local_ip: str
    local_port: int
    remote_ip: str
    remote_port: int

    @property
    def six(self) -> bool:
        return ":" in self.local_ip


class Connection:
    """How the numbers of a script are those of a connection. Of the remote side sequence numbers are as written."""

    def __init__(self, ends: Ends) -> None:
        self.ends = ends
        self.local_start: int | None = None
        self.script_local_start = 0
        self.remote_start: int | None = None
        #: of a SYN that arrived when there was a connection already
        self.other_start: int | None = None
        #: file descriptor of the socket, once there is one
        self.fd: int | None = None
        self._sent: dict[int, int] = {}
        self.first_stamp: tuple[int, int] | None = None

    def local(self, number: int, syn: bool) -> int:
        """A number of the local side, as headers have it."""
        return (number + (self.local_start or 0) - (self.script_local_start if syn else 0)) % _WRAP

    def remote(self, number: int, syn: bool) -> int:
        return number if syn else (number + (self.remote_start or 0)) % _WRAP

    def script_local(self, number: int, syn: bool) -> int:
        return (number - (self.local_start or 0) + (self.script_local_start if syn else 0)) % _WRAP

    def script_remote(self, number: int, syn: bool) -> int:
        return number if syn else (number - (self.remote_start or 0)) % _WRAP

    def echo(self, stamp: int) -> int:
        """What is echoed to the kernel where a script echoes `stamp`."""
        if stamp in self._sent:
            return self._sent[stamp]
        if stamp and self.first_stamp:
            return (stamp - self.first_stamp[0] + self.first_stamp[1]) % _WRAP
        return stamp

    def script_stamp(self, stamp: int) -> int:
        """A timestamp of the kernel, as a script counts them."""
        return (stamp - self.first_stamp[1] + self.first_stamp[0]) % _WRAP if self.first_stamp else stamp

    def note_stamp(self, script: int, sent: int) -> None:
        self.first_stamp = self.first_stamp or (script, sent)
        self._sent[script] = sent


# --- towards the kernel ----------------------------------------------------------------------------------------------


def composed(packet: Packet, connection: Connection) -> bytes:
    """The bytes of a packet that arrives."""
    ends, what = connection.ends, packet.transport
    header = _ip_header(packet.ip, ends)
    if isinstance(what, Tcp):
        return _segment(header, what, connection)
    if isinstance(what, Udp):
        return bytes(header / UDP(sport=ends.remote_port, dport=ends.local_port) / Raw(bytes(what.length)))
    return bytes(header / _icmp(what, connection))


def _ip_header(fields: IpFields, ends: Ends) -> IP | IPv6:
    tos = (fields.tos or 0) & 0xFC | (fields.ecn if fields.ecn is not None else (fields.tos or 0) & 3)
    ttl = 255 if fields.ttl is None else fields.ttl
    if ends.six:
        return IPv6(src=ends.remote_ip, dst=ends.local_ip, tc=tos, hlim=ttl)
    return IP(src=ends.remote_ip, dst=ends.local_ip, tos=tos, ttl=ttl, flags="DF")


def _segment(header: IP | IPv6, what: Tcp, connection: Connection) -> bytes:
    syn = "S" in what.flags
    raw = tcp_options.encoded(what.options or (), lambda number: connection.local(number, syn), connection.echo)
    ends = connection.ends
    segment = TCP(sport=ends.remote_port, dport=ends.local_port, seq=connection.remote(what.start, syn),
                  ack=0 if what.ack is None else connection.local(what.ack, syn), flags=_flag_bits(what),
                  window=what.window or 0, urgptr=what.urgent or 0, options=[], dataofs=5 + len(raw) // 4)
    # the options by themselves: scapy would read and write some of them in another way
    return bytes(header / segment / Raw(raw + bytes(what.length)))


def _flag_bits(what: Tcp) -> int:
    return sum(_BITS[flag] for flag in what.flags)


def _icmp(what: Icmp, connection: Connection) -> Raw:
    """The message, with the beginning of the packet that it is about."""
    ends = connection.ends
    inner: TCP | UDP
    if isinstance(what.quoted, Udp):
        inner = UDP(sport=ends.local_port, dport=ends.remote_port, len=8 + what.quoted.length)
        size = 8 + what.quoted.length
    else:
        start = what.quoted.start if what.quoted else 0
        length = what.quoted.length if what.quoted else 0
        # in a SYN's number there is none to count from
        syn = start == connection.script_local_start and connection.remote_start is None
        inner = TCP(sport=ends.local_port, dport=ends.remote_port, seq=connection.local(start, syn), flags="A")
        size = 20 + length
    if ends.six:
        about = bytes(IPv6(src=ends.local_ip, dst=ends.remote_ip, plen=size) / inner)
        return ICMPv6Unknown(type=what.type, code=what.code, msgbody=struct.pack("!I", what.mtu) + about)
    about = bytes(IP(src=ends.local_ip, dst=ends.remote_ip, len=20 + size, flags="DF") / inner)
    return ICMP(type=what.type, code=what.code, reserved=0, length=0, nexthopmtu=what.mtu) / Raw(about) \
        if (what.type, what.code) == (3, 4) else ICMP(type=what.type, code=what.code) / Raw(about)


# --- from the kernel -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Seen:
    """A packet that the kernel sent, with the numbers of its headers."""
    ends: Ends
    ip: IpFields
    tcp: TCP | None = None
    #: options of TCP as bytes, and length of the data
    options: bytes = b""
    length: int = 0
    icmp: tuple[int, int] | None = None

    @property
    def is_syn(self) -> bool:
        return self.tcp is not None and bool(int(self.tcp.flags) & _BITS["S"])

    @property
    def begins(self) -> bool:
        """Whether it is the first packet of a connection."""
        return self.is_syn and self.tcp is not None and not int(self.tcp.flags) & _BITS["."]


def parsed(data: bytes) -> Seen | None:
    """What the kernel sent; None if no socket did."""
    six = data[:1] and data[0] >> 4 == 6
    packet = IPv6(data) if six else IP(data)
    protocol = packet.nh if six else packet.proto
    tos, ttl = (packet.tc, packet.hlim) if six else (packet.tos, packet.ttl)
    ip, body = IpFields(tos & 3, tos, ttl), bytes(packet.payload)
    if protocol == _TCP and TCP in packet:
        tcp = packet[TCP]
        size = tcp.dataofs * 4
        ends = Ends(packet.src, tcp.sport, packet.dst, tcp.dport)
        return Seen(ends, ip, tcp, body[20:size], len(body) - size)
    if protocol == _UDP and UDP in packet:
        return Seen(Ends(packet.src, packet[UDP].sport, packet.dst, packet[UDP].dport), ip, length=len(body) - 8)
    if protocol in (_ICMP, _ICMPV6) and len(body) >= 4 and not (protocol == _ICMPV6 and body[0] in _NOT_OF_SOCKETS):
        return Seen(Ends(packet.src, 0, packet.dst, 0), ip, length=len(body), icmp=(body[0], body[1]))
    return None


def scripted(seen: Seen, connection: Connection) -> Packet:
    """As a script would write it. options.BadOptions."""
    if seen.icmp:
        kind, code = seen.icmp
        return Packet(Way.OUT, seen.ip, Icmp(f"type {kind} code {code}", kind, code))
    if seen.tcp is None:
        return Packet(Way.OUT, seen.ip, Udp(seen.length))
    tcp, syn = seen.tcp, seen.is_syn
    bits = int(tcp.flags)
    start = connection.script_local(tcp.seq, syn)
    return Packet(Way.OUT, seen.ip, Tcp(
        frozenset(flag for flag, bit in _BITS.items() if bits & bit), start, (start + seen.length) % _WRAP,
        connection.script_remote(tcp.ack, syn) if bits & _BITS["."] else None, tcp.window,
        tcp.urgptr if bits & _BITS["U"] else None,
        tuple(tcp_options.decoded(seen.options, lambda number: connection.script_remote(number, syn)))))


def differences(wanted: Packet, seen: Packet, ticks_off: int | None) -> list[str]:
    """Names of what differs; what the script does not say is as it likes. ticks_off: by how much timestamps may differ;
    None: they are not compared."""
    found = [name for name, asked, there in (
        ("ECN", wanted.ip.ecn, seen.ip.ecn), ("tos", wanted.ip.tos, seen.ip.tos), ("ttl", wanted.ip.ttl, seen.ip.ttl))
        if asked is not None and asked != there]
    one, other = wanted.transport, seen.transport
    if isinstance(one, Tcp) and isinstance(other, Tcp):
        return found + _tcp_differences(one, other, ticks_off)
    if isinstance(one, Udp) and isinstance(other, Udp):
        return found + (["length"] if one.length != other.length else [])
    if isinstance(one, Icmp) and isinstance(other, Icmp):
        return found + [name for name, asked, there in (
            ("type", one.type, other.type), ("code", one.code, other.code)) if asked != there]
    return [*found, "protocol"]


def _tcp_differences(wanted: Tcp, seen: Tcp, ticks_off: int | None) -> list[str]:
    found = []
    if wanted.flags != seen.flags:
        found.append("flags")
    if wanted.start != seen.start:
        found.append("sequence number")
    if wanted.length != seen.length:
        found.append("length")
    if wanted.ack != seen.ack:
        found.append("ack")
    if wanted.window is not None and wanted.window != seen.window:
        found.append("win")
    if wanted.urgent != seen.urgent:
        found.append("urg")
    if wanted.options is not None and not _same_options(wanted.options, seen.options or (), ticks_off):
        found.append("options")
    return found


def _same_options(wanted: tuple[Option, ...], seen: tuple[Option, ...], ticks_off: int | None) -> bool:
    return len(wanted) == len(seen) and all(
        one.kind == other.kind if one.any_data else
        tcp_options.without_value(one) == tcp_options.without_value(other) and _near(one, other, ticks_off)
        for one, other in zip(wanted, seen))


def _near(wanted: Option, seen: Option, ticks_off: int | None) -> bool:
    """Whether two timestamps are as near as they should be."""
    if ticks_off is None or wanted.kind != tcp_options.TIMESTAMP:
        return True
    apart = (wanted.numbers[0] - seen.numbers[0]) % _WRAP
    return min(apart, _WRAP - apart) <= ticks_off


def words(packet: Packet) -> str:
    """As a script writes it, without the sign of its way."""
    what, parts = packet.transport, [packet.ip.words()]
    if isinstance(what, Tcp):
        flags = "".join(flag for flag in _ORDER if flag in what.flags)
        parts += [flags or "-", f"{what.start}:{what.end}({what.length})"]
        parts += [f"{name} {value}" for name, value in (
            ("ack", what.ack), ("win", what.window), ("urg", what.urgent)) if value is not None]
        parts.append(tcp_options.words(what.options))
    elif isinstance(what, Udp):
        parts.append(f"udp ({what.length})")
    else:
        parts.append(f"icmp {what.words}")
    return " ".join(part for part in parts if part)
