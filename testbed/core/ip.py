# SPDX-License-Identifier: GPL-2.0-only
"""What IPv4 and IPv6 differ in: headers, what a packet has room for, and how endpoints are written.

Only plain values here: guest, traffic, checks and analysis use it. A network (raw/network.json) without `ip_version`
is one of IPv4.
"""
from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import Any

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


def version(network: Mapping[str, Any]) -> int:
    """4 or 6."""
    return int(network.get("ip_version", 4))


def mtu_of(link: Mapping[str, Any]) -> int:
    """The largest packet that a link carries."""
    return int(link.get("mtu_bytes", MTU_BYTES))


def mtu_bytes(network: Mapping[str, Any], crossed: Iterable[str] | None = None) -> int:
    """The largest packet that all links and radios carry, or the links of these names and all radios."""
    if crossed is None:
        return int(network.get("mtu_bytes", MTU_BYTES))
    names = set(crossed)
    return min([mtu_of(link) for link in network["links"] if link["name"] in names]
               + [cell["mtu_bytes"] for cell in network.get("cells", ())], default=MTU_BYTES)


def frame_bytes(network: Mapping[str, Any], crossed: Iterable[str] | None = None) -> int:
    """The same as a link counts it."""
    return mtu_bytes(network, crossed) + ETHERNET_BYTES


def header_bytes(network: Mapping[str, Any]) -> int:
    """Of IP."""
    return _HEADER_BYTES[version(network)]


def more_bytes(network: Mapping[str, Any]) -> int:
    """By how much the header is larger than that of IPv4."""
    return header_bytes(network) - _HEADER_BYTES[4]


def udp_header_bytes(of: str) -> int:
    """Of IP and UDP, to an address."""
    return _HEADER_BYTES[version_of(of)] + UDP_BYTES


def segment_bytes(network: Mapping[str, Any], crossed: Iterable[str] | None = None) -> int:
    """Payload of a full TCP segment with time stamps."""
    return mtu_bytes(network, crossed) - header_bytes(network) - TCP_BYTES - TIMESTAMP_BYTES


def datagram_bytes(network: Mapping[str, Any]) -> int:
    """Payload of a full packet of UDP."""
    return mtu_bytes(network) - header_bytes(network) - UDP_BYTES


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
