# SPDX-License-Identifier: GPL-2.0-only
"""What all messages of netlink have in common (netlink(7))."""
import os
import struct

HEADER = struct.Struct("=IHHII")            # struct nlmsghdr


def raise_error(data: bytes | bytearray | memoryview) -> None:
    """Raise the OSError of an NLMSG_ERROR message that is not an acknowledgement."""
    code, = struct.unpack_from("=i", data, HEADER.size)
    if code:
        raise OSError(-code, f"netlink: {os.strerror(-code)}")


def attribute(kind: int, payload: bytes) -> bytes:
    """struct nlattr and what is in it, padded to a multiple of four."""
    return struct.pack("=HH", 4 + len(payload), kind) + payload + bytes(-len(payload) % 4)
