# SPDX-License-Identifier: GPL-2.0-only
"""Datagrams that overload a link, many for one system call. See sendmmsg(2)."""
import ctypes
import os
import socket
import threading
import time

from traffic.datagrams.batch import Message, Part, libc


def blast(sock: socket.socket, target: tuple[str, int], payload: bytes, stop: threading.Event,
          interval_s: float, at_once: int) -> None:
    """Send the payload until stopped, and close the socket: as fast as it takes them, or one in each interval.

    at_once: how many go at a time. Nothing but what the socket has room for holds back who sends as fast as it can.
    Raises OSError.
    """
    with sock:
        sock.connect(target)
        buffer = ctypes.create_string_buffer(payload, len(payload))
        part = Part(ctypes.addressof(buffer), len(payload))
        messages = (Message * at_once)(*[Message(parts=ctypes.addressof(part), part_count=1)] * at_once)
        fd = sock.fileno()
        while not stop.is_set():
            if libc.sendmmsg(fd, messages, at_once, 0) < 0:
                raise OSError(ctypes.get_errno(), f"overload: {os.strerror(ctypes.get_errno())}")
            if interval_s:
                time.sleep(interval_s * at_once)
