# SPDX-License-Identifier: GPL-2.0-only
"""What a congestion control that is not the kernel's own keeps of connections that are over.

A run may have two connections, whose few kilobytes nobody finds among what a kernel allocates by itself. So when all
else has been read a thousand more are opened and closed.
"""
import socket
import struct
from collections.abc import Callable

_TCP_CONGESTION = 13                        # include/uapi/linux/tcp.h
_CONNECTIONS = 1000
#: of a connection: what the kernel has by itself differs by less
_STEP_BYTES = 512
#: a reset leaves nothing that waits for stragglers
_RESET = struct.pack("ii", 1, 0)


def kept_bytes(cca: str, kept_kb: Callable[[], int]) -> int:
    """Of each connection, over the loopback of the current namespace; in whole steps, so that runs leave the same
    bytes. kept_kb: the memory that the kernel has."""
    _connect(cca)                               # what is allocated once is there from now on
    before_kb = kept_kb()
    _connect(cca)
    return round((kept_kb() - before_kb) * 1024 / _CONNECTIONS / _STEP_BYTES) * _STEP_BYTES


def _connect(cca: str) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, cca.encode())
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        for _ in range(_CONNECTIONS):
            with socket.socket() as client:
                client.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, cca.encode())
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                client.connect(listener.getsockname())
                listener.accept()[0].close()
