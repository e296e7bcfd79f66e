# SPDX-License-Identifier: GPL-2.0-only
"""Noticing at once that a file of a folder is complete: it was given its name. inotify(7)."""
from __future__ import annotations

import ctypes
import os
import pathlib
import weakref

_MOVED_TO = 0x80
_EVENTS_BYTES = 1 << 14
_libc = ctypes.CDLL(None, use_errno=True)


class Arrivals:
    """Files that come into a folder by being renamed."""

    def __init__(self, folder: pathlib.Path) -> None:
        #: readable when something has come; -1 where the system can have none (its user has too many of them)
        self.fd = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd >= 0 and _libc.inotify_add_watch(self.fd, os.fsencode(folder), _MOVED_TO) < 0:
            os.close(self.fd)
            self.fd = -1
        if self.fd >= 0:
            weakref.finalize(self, os.close, self.fd)

    def forget(self) -> None:
        """What has come so far is known."""
        try:
            while os.read(self.fd, _EVENTS_BYTES):
                pass
        except BlockingIOError:
            pass
