# SPDX-License-Identifier: GPL-2.0-only
"""What all messages of netlink have in common (netlink(7))."""
import os
import socket
import struct

HEADER = struct.Struct("=IHHII")            # struct nlmsghdr
_ATTRIBUTE = struct.Struct("=HH")           # struct nlattr
#: the kernel's traffic control counts times in units of 64 ns
TICK_NS = 64
_SOL_NETLINK, _NETLINK_EXT_ACK = 270, 11
#: flags of an answer: of the request it has but the header; attributes follow. And the attribute with the words
_CAPPED, _TLVS, _MESSAGE = 0x100, 0x200, 1


def ask_for_words(telling: socket.socket) -> None:
    """What the kernel refuses comes with its own words from now on, where it has any (raise_error passes them on)."""
    telling.setsockopt(_SOL_NETLINK, _NETLINK_EXT_ACK, 1)


def raise_error(data: bytes | bytearray | memoryview) -> None:
    """Raise the OSError of an NLMSG_ERROR message that is not an acknowledgement."""
    code, = struct.unpack_from("=i", data, HEADER.size)
    if code:
        words = _words(data)
        raise OSError(-code, f"netlink: {os.strerror(-code)}" + (f": {words}" if words else ""))


def _words(data: bytes | bytearray | memoryview) -> str:
    """What the kernel says of its refusal beside the number, "" for nothing."""
    length, _, flags, _, _ = HEADER.unpack_from(data)
    at = HEADER.size + 4                    # here is the request that was refused
    if not flags & _TLVS or len(data) < at + HEADER.size:
        return ""
    refused_bytes = HEADER.size if flags & _CAPPED else HEADER.unpack_from(data, at)[0]
    found = attributes(bytes(data[at + (refused_bytes + 3 & ~3):length]))
    return found.get(_MESSAGE, b"").rstrip(b"\0").decode("utf-8", "replace")


def attribute(kind: int, payload: bytes) -> bytes:
    """struct nlattr and what is in it, padded to a multiple of four."""
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(payload), kind) + payload + bytes(-len(payload) % 4)


def attributes(data: bytes) -> dict[int, bytes]:
    """{type: value} of what is packed into a message, or into an attribute."""
    found, at = {}, 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        found[kind & 0x3FFF] = data[at + _ATTRIBUTE.size:at + length]
        at += max(_ATTRIBUTE.size, (length + 3) & ~3)
    return found
