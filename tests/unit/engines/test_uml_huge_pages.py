# SPDX-License-Identifier: GPL-2.0-only
"""A guest's memory is moved into pages of 2 MB while it is in use, with nothing changed in it."""
import errno
import hashlib
import mmap
import re
import subprocess
import sys
import tempfile

import pytest

from testbed.engines.uml import huge_pages
from testbed.engines.uml.huge_pages import HugePages

MB = 1 << 20
# like a guest: a file without a name, mapped and filled up to FULL of SIZE; answers a line with what is in it
GUEST = """
import hashlib, mmap, sys, tempfile
folder, size, full = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with tempfile.TemporaryFile(dir=folder) as file:
    file.truncate(size)
    memory = mmap.mmap(file.fileno(), size)
    for start in range(0, full, 4096):
        memory[start:start + 8] = start.to_bytes(8, "little")
    print("ready", flush=True)
    for _ in sys.stdin:
        print(hashlib.sha256(memory).hexdigest(), flush=True)
"""


def contents(size, full):
    return hashlib.sha256(b"".join((start.to_bytes(8, "little") if start < full else bytes(8)) + bytes(4088)
                                   for start in range(0, size, 4096))).hexdigest()


@pytest.fixture
def guest():
    """start(folder, size, full) -> process that has so much of a file of `size` bytes filled."""
    started = []

    def start(folder, size, full):
        started.append(subprocess.Popen([sys.executable, "-c", GUEST, str(folder), str(size), str(full)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        assert started[-1].stdout.readline() == "ready\n"
        return started[-1]
    yield start
    for process in started:
        process.communicate()


@pytest.fixture(autouse=True)
def small_guests(monkeypatch):
    monkeypatch.setattr(huge_pages, "LEAST_BYTES", 4 * MB)
    monkeypatch.setattr(huge_pages, "_MORE_BYTES", MB)
    monkeypatch.delenv(huge_pages.CHOICE, raising=False)


def large_memory():
    """Bytes of files in memory that are in large pages, of the whole machine."""
    with open("/proc/meminfo", encoding="ascii") as file:
        return 1024 * int(re.search(r"ShmemHugePages: *(\d+) kB", file.read())[1])


@pytest.fixture
def host_can():
    """Skips where this machine's kernel moves no file in memory into large pages (6.1, and not set to `deny`): asked
    without the code under test."""
    size = 2 * MB
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        file.write(bytes(size))
        file.flush()
        room = huge_pages._libc.mmap(None, 2 * size, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        aligned = -(-room // size) * size
        huge_pages._libc.mmap(aligned, size, mmap.PROT_READ | mmap.PROT_WRITE, 0x11, file.fileno(), 0)
        refused = huge_pages._libc.madvise(aligned, size, 25)
        huge_pages._libc.munmap(room, 2 * size)
    if refused:
        pytest.skip("this host's kernel has no large pages for files in memory")


def test_what_is_full_is_moved_and_stays_what_it_was(guest, host_can):
    size, full = 16 * MB, 9 * MB        # four chunks, and half of a fifth
    process = guest("/dev/shm", size, full)
    before = large_memory()
    with HugePages(process.pid, "/dev/shm") as pages:
        for _ in range(huge_pages._MOST_TRIES):     # a page may be busy
            pages.look()
        assert pages.moved_bytes == 8 * MB
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline().strip() == contents(size, full)
        assert large_memory() - before >= 8 * MB
        for _ in range(huge_pages._MOST_TRIES):     # what was read is there now
            pages.look()
        assert pages.moved_bytes == size
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline().strip() == contents(size, full)


def test_some_at_a_time(guest, host_can, monkeypatch):
    monkeypatch.setattr(huge_pages, "_AT_ONCE", 3)
    process, seen = guest("/dev/shm", 16 * MB, 16 * MB), []
    with HugePages(process.pid, "/dev/shm") as pages:
        for _ in range(3 + huge_pages._MOST_TRIES):
            pages.look()
            seen.append(pages.moved_bytes // (2 * MB))
    assert max(later - one for one, later in zip([0, *seen], seen)) <= 3 and seen[-1] == 8


@pytest.mark.parametrize("error, size_mb, times", [
    (errno.EAGAIN, 4, 2 * huge_pages._MOST_TRIES),      # a busy page: each of two chunks again, but not for ever
    (errno.EINVAL, 32, huge_pages._MOST_FAILURES),      # a host that cannot: asked a few times
])
def test_what_is_refused_is_tried_a_few_times(guest, monkeypatch, error, size_mb, times):
    asked = []

    def refuse(*arguments):
        asked.append(arguments)
        huge_pages.ctypes.set_errno(error)
        return -1
    monkeypatch.setattr(huge_pages._libc, "madvise", refuse)
    process = guest("/dev/shm", size_mb * MB, size_mb * MB)
    with HugePages(process.pid, "/dev/shm") as pages:
        for _ in range(9):
            pages.look()
    assert (pages.moved_bytes, len(asked)) == (0, times)


@pytest.mark.parametrize("choice, size, full", [("no", 16, 16), ("", 16, 3)])
def test_not_when_told_so_nor_for_little(guest, monkeypatch, choice, size, full):
    monkeypatch.setenv(huge_pages.CHOICE, choice)
    process = guest("/dev/shm", size * MB, full * MB)
    with HugePages(process.pid, "/dev/shm") as pages:
        pages.look()
        assert pages.moved_bytes == 0


def test_a_guest_that_is_gone_is_no_error(guest):
    process = guest("/dev/shm", 4 * MB, 4 * MB)
    process.communicate()
    with HugePages(process.pid, "/dev/shm") as pages:
        for _ in range(20):
            pages.look()
        assert pages.moved_bytes == 0


def test_a_file_elsewhere_is_not_touched(guest, tmp_path):
    process = guest("/dev/shm", 16 * MB, 16 * MB)
    with HugePages(process.pid, str(tmp_path)) as pages:
        pages.look()
        assert pages.moved_bytes == 0
