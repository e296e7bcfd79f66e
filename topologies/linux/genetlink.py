# SPDX-License-Identifier: GPL-2.0-only
"""Generic netlink (include/uapi/linux/genetlink.h): a command with attributes, and what it is answered by."""
import socket
import struct
from collections.abc import Iterator, Mapping

from topologies.linux.rtnetlink import HEADER, attribute, attributes, raise_error

_NETLINK_GENERIC = 16
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_GENERIC = struct.Struct("=BBxx")               # struct genlmsghdr
_CONTROL, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 3, 1, 2

#: what values of attributes are made of: numbers of so many bits, flags, bytes as they are
u8, u16, u32, u64 = (struct.Struct(f"={kind}").pack for kind in "BHIQ")
FLAG = b""


class Family:
    """A family of commands such as nl80211. Open it in the namespace in which they are to be carried out."""

    def __init__(self, name: str) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_GENERIC)
        self._socket.bind((0, 0))
        self._number = _CONTROL
        found, = self.ask(_GET_FAMILY, {_FAMILY_NAME: name.encode() + b"\0"})
        self._number, = struct.unpack("=H", found[_FAMILY_ID])

    def __enter__(self) -> "Family":
        return self

    def __exit__(self, *_exc: object) -> None:
        self._socket.close()

    def tell(self, command: int, values: Mapping[int, bytes]) -> None:
        """Have a command carried out. OSError if the kernel refuses."""
        for _ in self._exchange(command, values, _ACK):
            pass

    def ask(self, command: int, values: Mapping[int, bytes], dump: bool = False) -> Iterator[dict[int, bytes]]:
        """{attribute: value} of each answer. OSError if the kernel refuses."""
        yield from self._exchange(command, values, _DUMP if dump else _ACK)

    def _exchange(self, command: int, values: Mapping[int, bytes], flags: int) -> Iterator[dict[int, bytes]]:
        body = _GENERIC.pack(command, 0) + b"".join(attribute(kind, value) for kind, value in values.items())
        self._socket.send(HEADER.pack(HEADER.size + len(body), self._number, _REQUEST | flags, 1, 0) + body)
        while True:
            data, at = self._socket.recv(1 << 17), 0
            while at < len(data):
                length, kind, *_ = HEADER.unpack_from(data, at)
                if kind == _NLMSG_ERROR:
                    raise_error(data[at:])
                    return
                if kind == _NLMSG_DONE:
                    return
                yield attributes(data[at + HEADER.size + _GENERIC.size:at + length])
                at += (length + 3) & ~3
