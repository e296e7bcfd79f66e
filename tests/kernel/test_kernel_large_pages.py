# SPDX-License-Identifier: GPL-2.0-only
"""A guest's memory comes in pages of 2 MB, and nothing else about it changes (kernel/patches/speed/0016)."""
import ctypes
import hashlib
import mmap
import pathlib
import resource
import tempfile

import pytest

import kernel
from kernel import guest
from tests.kernel.guest_script import result_of
from tests.kernel.small_runs import small_scenario

SCRIPT = pathlib.Path(__file__).with_name("filling_guest.py")
PAGE, CHUNK, MB = mmap.PAGESIZE, 2 << 20, 1 << 20
FILLED_MB = 64
MAP_SHARED, MAP_FIXED, MADV_COLLAPSE = 1, 0x10, 25
#: always: also where this host is slow at it
SETTINGS = {"large": ("large_pages=always",), "as they come": ("large_pages=no",)}


@pytest.fixture
def host_can():
    """Skips where this machine's kernel moves no file in memory into large pages (Linux 6.1, and not set to `deny`), or
    has too few: asked without the code under test."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    size = (FILLED_MB * MB // CHUNK + 8) * CHUNK
    with tempfile.TemporaryFile(dir=guest.memory_dir(256)) as file:
        for at in range(0, size, CHUNK):                # a page of each
            file.seek(at)
            file.write(b"x")
        file.truncate(size)
        room = libc.mmap(None, size + CHUNK, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        aligned = -(-room // CHUNK) * CHUNK
        libc.mmap(aligned, size, mmap.PROT_READ | mmap.PROT_WRITE, MAP_SHARED | MAP_FIXED, file.fileno(), 0)
        refused = libc.madvise(aligned, size, MADV_COLLAPSE)
        libc.munmap(room, size + CHUNK)
    if refused:
        pytest.skip("this host has no large pages for files in memory, or not so many")


def expected():
    """What the guest's process 1 finds in its memory."""
    found = hashlib.sha256()
    for fill in (1, 2):
        for at in range(0, FILLED_MB * MB, PAGE):
            found.update((at + fill).to_bytes(8, "little") + bytes(PAGE - 8))
    return found.hexdigest()


def faults_of_children():
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt


def test_memory_holds_what_was_put_there_and_the_host_is_asked_less_often(host_can, tmp_path):
    program, faults = kernel.ensure().program, {}
    for name, options in SETTINGS.items():
        (folder := tmp_path / name).mkdir()
        before = faults_of_children()
        assert result_of(program, SCRIPT, folder, FILLED_MB, options=options) == expected(), name
        faults[name] = faults_of_children() - before
    # one for each 2 MB instead of each page; the program's own page faults are there in both
    assert faults["as they come"] - faults["large"] > 0.9 * FILLED_MB * MB / PAGE


def test_runs_are_the_same_with_and_without(run_scenario, monkeypatch):
    """All bytes: of greedy flows by an io_uring, whose programs fill memory at once."""
    tree = small_scenario(**{"traffic": {"kind": "greedy", "paths": ["n4->n1"], "flows": 20, "tool": "sockets"}})
    found = {}
    for choice in ("yes", "no"):
        monkeypatch.setenv("TESTBED_HUGE_PAGES", choice)
        found[choice] = run_scenario(tree).json("run.json")["raw_files_sha256"]
    assert found["yes"] == found["no"] and "queue.csv.gz" in found["no"]
