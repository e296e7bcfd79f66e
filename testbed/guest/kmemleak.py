# SPDX-License-Identifier: GPL-2.0-only
"""What a kernel with the option `debug` knows of memory that nobody points to any more: where it was allocated."""
import ctypes
import os
import re
import time
from collections import Counter

_FOLDER = "/sys/kernel/debug"
_FILE = f"{_FOLDER}/kmemleak"
#: it says nothing of what is younger, and wants to see it without a pointer twice
_AGE_S, _SCANS = 6.0, 2
_MOST = 5
_OBJECT = re.compile(r"^unreferenced object 0x[0-9a-f]+ \(size (\d+)\):$")
#: of a module
_CALL = re.compile(r" *(?:\[<[^>]*>\] )?(\S+\+0x[0-9a-f]+/0x[0-9a-f]+ \[\w+\])$")


def leaks() -> list[str]:
    """"4096 B 40 times, allocated in x_init+0x1c/0x30 [tcp_x]" of what modules have allocated, the most frequent first;
    nothing where the kernel does not look for it."""
    if not os.path.exists(_FILE):
        ctypes.CDLL(None).mount(b"debugfs", _FOLDER.encode(), b"debugfs", 0, None)
        if not os.path.exists(_FILE):
            return []
    time.sleep(_AGE_S)
    for _ in range(_SCANS):
        with open(_FILE, "w", encoding="ascii") as file:
            file.write("scan")
    with open(_FILE, encoding="utf-8", errors="replace") as file:
        return found(file.read())


def found(text: str) -> list[str]:
    """The same of what the file says."""
    places: Counter[tuple[int, str]] = Counter()
    size = 0
    for line in text.splitlines():
        if match := _OBJECT.match(line):
            size = int(match[1])
        elif size and (call := _CALL.match(line)):      # what a kernel keeps by itself is its own business
            places[size, call[1]] += 1
            size = 0
    return [f"{size} B {number} times, allocated in {place}" for (size, place), number in places.most_common(_MOST)]
