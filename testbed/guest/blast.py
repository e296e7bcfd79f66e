# SPDX-License-Identifier: GPL-2.0-only
"""Datagrams that overload a link, many for one system call. See sendmmsg(2)."""
import ctypes
import os
import socket
import threading
import time

from testbed.guest.overload import AT_ONCE
from traffic.datagrams.batch import Message, Part, libc


def blast(sock: socket.socket, target: tuple[str, int], payload: bytes, stop: threading.Event,
          interval_s: float) -> None:
    """Send the payload until stopped, and close the socket: as fast as it takes them, or one in each interval.

    Nothing but what the socket has room for holds back who sends as fast as it can. Raises OSError.
    """
    with sock:
        sock.connect(target)
        if interval_s:
            while not stop.is_set():
                sock.send(payload)
                time.sleep(interval_s)
            return
        buffer = ctypes.create_string_buffer(payload, len(payload))
        part = Part(ctypes.addressof(buffer), len(payload))
        messages = (Message * AT_ONCE)(*[Message(parts=ctypes.addressof(part), part_count=1)] * AT_ONCE)
        fd = sock.fileno()
        while not stop.is_set():
            if libc.sendmmsg(fd, messages, AT_ONCE, 0) < 0:
                raise OSError(ctypes.get_errno(), f"overload: {os.strerror(ctypes.get_errno())}")
