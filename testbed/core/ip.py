# SPDX-License-Identifier: GPL-2.0-only
"""What IPv4 and IPv6 differ in: headers, what a packet has room for, and how endpoints are written.

Only plain values here: guest, traffic, checks and analysis use it.
"""
from __future__ import annotations

import socket

VERSIONS = (4, 6)
ETHERNET_BYTES, UDP_BYTES, TCP_BYTES, TIMESTAMP_BYTES = 14, 8, 20, 12
#: of a link that says nothing of it; RFC 791 has hosts take 576 bytes, RFC 8200 has links carry 1280; a frame of more
#: than 65535 bytes would not be counted as one everywhere
MTU_BYTES, LEAST_MTU_BYTES, MOST_MTU_BYTES = 1500, {4: 576, 6: 1280}, 65535 - ETHERNET_BYTES
LEAST_FRAME_BYTES = LEAST_MTU_BYTES[4] + ETHERNET_BYTES
#: RFC 791 without options, RFC 8200 without extension headers
_HEADER_BYTES = {4: 20, 6: 40}
#: of the networks of links
_PREFIX_BITS = {4: 24, 6: 64}


def header_bytes(version: int = 4) -> int:
    """Of IP."""
    return _HEADER_BYTES[version]


def udp_header_bytes(of: str) -> int:
    """Of IP and UDP, to an address."""
    return _HEADER_BYTES[version_of(of)] + UDP_BYTES


def segment_bytes(version: int = 4, packet_bytes: int = MTU_BYTES) -> int:
    """Payload of a full TCP segment with time stamps."""
    return packet_bytes - header_bytes(version) - TCP_BYTES - TIMESTAMP_BYTES


def datagram_bytes(version: int = 4, packet_bytes: int = MTU_BYTES) -> int:
    """Payload of a full packet of UDP."""
    return packet_bytes - header_bytes(version) - UDP_BYTES


def version_of(address: str) -> int:
    """Of an address."""
    return 6 if ":" in address else 4


def family(address: str) -> socket.AddressFamily:
    """Of sockets for an address."""
    return socket.AF_INET6 if version_of(address) == 6 else socket.AF_INET


def link_network(of_version: int, number: int) -> str:
    """The network of a link, by its number from 1: 10.0.1.0/24, or fd00:0:0:1::/64 (RFC 4193)."""
    return f"fd00:0:0:{number:x}::/64" if of_version == 6 else f"10.{number >> 8}.{number & 255}.0/24"


def with_prefix(of: str) -> str:
    """An address with the length of its network's prefix, as `ip` reads it."""
    return f"{of}/{_PREFIX_BITS[version_of(of)]}"


def alone(of: str) -> str:
    """An address as a network that has nobody else."""
    return f"{of}/{128 if version_of(of) == 6 else 32}"


def endpoint(of: str, port: int) -> str:
    """10.0.1.2:5000 or [fd00:0:0:1::2]:5000 (RFC 5952, section 6)"""
    return f"[{of}]:{port}" if version_of(of) == 6 else f"{of}:{port}"


def split_endpoint(text: str) -> tuple[str, int]:
    """(address, port) of an endpoint."""
    of, _, port = text.rpartition(":")
    return of.strip("[]"), int(port)
