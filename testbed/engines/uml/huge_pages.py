# SPDX-License-Identifier: GPL-2.0-only
"""A guest's memory in pages of 2 MB, once it has filled so much that looking up pages of 4 kB is what takes the time.

The guest's memory is a file in a tmpfs. madvise(MADV_COLLAPSE) (Linux 6.1, madvise(2)) moves 2 MB of a file into one
page, without a privilege and whatever the machine's settings of transparent huge pages say but `deny`; who has the file
mapped finds the large page there. The guest sees nothing of it. Where the host cannot, nothing happens.
"""
from __future__ import annotations

import ctypes
import errno
import mmap
import os

#: TESTBED_HUGE_PAGES=no leaves all pages as they come
CHOICE = "TESTBED_HUGE_PAGES"
#: memory of a guest from which on it pays: moving 2 MB takes 2 to 10 ms
LEAST_BYTES = 192 << 20
#: how much more there has to be before all of it is looked through again
_MORE_BYTES = 16 << 20
_CHUNK = 2 << 20
_PAGES = _CHUNK // 4096
#: a chunk with fewer pages waits until it has more: what is missing would be filled with zeros
_FULL = _PAGES * 7 // 8
#: chunks that are moved in one look: the guest may have to wait for each
_AT_ONCE = 16
#: times that a chunk is tried of which a page was busy
_MOST_TRIES = 3
#: failures after which this host is taken for one that cannot
_MOST_FAILURES = 8
_MADV_COLLAPSE = 25
_MAP_FIXED, _MAP_SHARED = 0x10, 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]


class HugePages:
    """The memory of one guest. A context manager; look() from time to time does what there is to do."""

    def __init__(self, pid: int, folder: str) -> None:
        """pid: of the guest's kernel; folder: where it keeps its memory, in a file that has no name any more."""
        self._pid, self._folder = pid, os.path.join(os.path.realpath(folder), "")
        self._fd: int | None = None
        self._window = 0
        self._moved: set[int] = set()
        self._waiting: list[int] = []
        self._tries: dict[int, int] = {}
        self._looked_at_bytes = 0
        self._failures = 0
        self._off = os.environ.get(CHOICE) == "no" or mmap.PAGESIZE * _PAGES != _CHUNK

    def __enter__(self) -> HugePages:
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._window:
            _libc.munmap(self._window, _CHUNK)
        if self._fd is not None:
            os.close(self._fd)
        self._fd, self._window, self._off = None, 0, True

    @property
    def moved_bytes(self) -> int:
        """Bytes of the guest's memory that are in large pages."""
        return len(self._moved) * _CHUNK

    def look(self) -> None:
        """Move what has filled up since the last time, a part of it at most; no error if the host cannot."""
        if self._off:
            return
        try:
            self._look()
        except OSError:                 # the guest has just ended, or this host lets nobody look at it
            self._failures += 1
        self._off = self._failures >= _MOST_FAILURES

    def _look(self) -> None:
        if self._fd is None:
            self._open()
        if self._fd is None:
            return
        state = os.fstat(self._fd)
        used = state.st_blocks * 512
        if not self._waiting and used >= max(LEAST_BYTES, self._looked_at_bytes + _MORE_BYTES):
            self._looked_at_bytes = used
            self._waiting = [number for number in range(state.st_size // _CHUNK) if number not in self._moved]
        done, again = 0, []
        while self._waiting and done < _AT_ONCE and self._failures < _MOST_FAILURES:
            number = self._waiting.pop()
            done += self._move(number)
            if self._tries.get(number, _MOST_TRIES) < _MOST_TRIES:
                again.append(number)
        self._waiting += again

    def _move(self, number: int) -> int:
        """1 if 2 MB were moved, or could not be; 0 if there was too little in them."""
        assert self._fd is not None
        if _libc.mmap(self._window, _CHUNK, mmap.PROT_READ | mmap.PROT_WRITE, _MAP_SHARED | _MAP_FIXED, self._fd,
                      number * _CHUNK) != self._window:
            raise _problem()
        present = ctypes.create_string_buffer(_PAGES)
        if _libc.mincore(self._window, _CHUNK, present):
            raise _problem()
        if sum(byte & 1 for byte in present.raw) < _FULL:
            return 0
        if not _libc.madvise(self._window, _CHUNK, _MADV_COLLAPSE):
            self._moved.add(number)
            self._tries.pop(number, None)
            self._failures = 0
        elif ctypes.get_errno() == errno.EAGAIN:        # a page was busy, and may not be the next time
            self._tries[number] = self._tries.get(number, 0) + 1
        else:
            self._failures += 1
        return 1

    def _open(self) -> None:
        """Find the file among those that the guest has open, and 2 MB of addresses at which it can be looked at."""
        if not self._window:
            room = _libc.mmap(None, 2 * _CHUNK, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
            if room in (None, ctypes.c_void_p(-1).value):
                raise _problem()
            self._window = -(-room // _CHUNK) * _CHUNK
            if self._window > room:
                _libc.munmap(room, self._window - room)
            _libc.munmap(self._window + _CHUNK, room + _CHUNK - self._window)
        folder = f"/proc/{self._pid}/fd"
        for name in os.listdir(folder):
            target = os.readlink(f"{folder}/{name}")
            if target.startswith(self._folder) and target.endswith(" (deleted)"):
                fd = os.open(f"{folder}/{name}", os.O_RDWR | os.O_CLOEXEC)
                if os.fstat(fd).st_size >= _CHUNK:
                    self._fd = fd
                    return
                os.close(fd)            # not as large as it will be


def _problem() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
