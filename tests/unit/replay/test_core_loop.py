# SPDX-License-Identifier: GPL-2.0-only
"""What core_loop.py and the library in C have to agree upon, and what they do when they are stopped or fail."""
import ctypes
import os
import socket
import time
from pathlib import Path

import pytest

from tests.c_declarations import fields, numbers, read
from tests.unit.replay.plans import PORT, make_plan
from traffic.io import payload, sockets, uring
from traffic.replay import core_loop, options, records
from traffic.replay.core_loop import LIBRARY, CoreLoop
from traffic.replay.endpoint import End
from traffic.replay.records import NOT_STARTED, UNFINISHED

HEADERS = read("replay/core/core.h", "io/ring.h")
# numbers that have other names in Python
OTHER_NAMES = {"GET_OPTION": "GETSOCKOPT", "SET_OPTION": "SETSOCKOPT"}


@pytest.fixture
def core(core_command):
    """The library's path."""
    return str(Path(core_command[-1]).with_name(LIBRARY))


@pytest.fixture
def make_loop(request, core, tmp_path):
    """make_loop(role) -> (loop, its end) of a connection that is to begin after ten seconds."""
    make_plan(tmp_path / "plan", [(10_000_000, [(0, 0, 1)], [])])

    def make(role):
        end = End({"source": 0, "role": role, "plan": str(tmp_path / "plan"), "local": "127.0.0.1",
                   "peer": "127.0.0.1", "port": PORT}, "n")
        loop = CoreLoop([end], "/none", core)
        request.addfinalizer(loop.close)
        return loop, end
    return make


def test_told_to_stop_before_it_waits(make_loop):
    """Between its signal handler and the first wait a replay may be told to stop, too."""
    loop, end = make_loop("initiator")
    loop.stopping = True
    before_ns = time.monotonic_ns()
    loop.run(before_ns, 3_000_000_000)
    assert time.monotonic_ns() < before_ns + 1_000_000_000
    assert loop.stopping is True and end.records.status[0] == NOT_STARTED


def test_a_ring_that_fails(make_loop):
    """The records are as they were then."""
    loop, end = make_loop("initiator")
    loop._ring._fd = -1
    with pytest.raises(OSError, match=r"^\[Errno 9\] io_uring_enter$"):
        loop.run(time.monotonic_ns(), 1_000_000_000)
    assert (end.records.status[0], end.records.start_us[0]) == (UNFINISHED, 10_000_000)


def test_a_listener_that_fails(make_loop):
    loop, end = make_loop("acceptor")
    with socket.socket(fileno=os.dup(loop._shared_ends[0].listener)) as same:
        same.shutdown(socket.SHUT_RD)
    with pytest.raises(OSError, match=rf"^\[Errno 22\] accept at 127.0.0.1 port {PORT}: Invalid argument$"):
        loop.run(time.monotonic_ns(), 1_000_000_000)


@pytest.mark.parametrize("name, value", numbers(HEADERS))
def test_the_same_numbers(name, value):
    """Of those that Python has, too."""
    python = OTHER_NAMES.get(name, name)
    found = {getattr(module, spelt) for module in (payload, sockets, uring, core_loop, options, records)
             for spelt in (python, f"_{python}", f"_{python.removeprefix('OP_')}") if hasattr(module, spelt)}
    assert found <= {value}


def test_some_of_them_are_found():
    """What is above would not notice names that changed."""
    both = {name for name, _ in numbers(HEADERS)} & set().union(*(vars(module) for module in (
        payload, sockets, uring, options, records)))
    assert {"PERIOD", "STEP", "LINK", "QUIET", "LONGEST_CHAIN", "SEND_BUFFER_BYTES", "MOST_MSS", "UNFINISHED"} <= both


@pytest.mark.parametrize("struct, python", [
    ("shared_cca", core_loop._Cca), ("shared_end", core_loop._End), ("shared_ring", core_loop.SharedRing),
    ("shared_loop", core_loop._Loop)])
def test_the_same_fields(struct, python):
    assert fields(HEADERS, struct) == [name for name, _ in python._fields_]


def test_a_library_of_other_code_is_refused(core, monkeypatch):
    class Longer(core_loop.SharedRing):
        _fields_ = [("more", ctypes.c_int64)]
    monkeypatch.setattr(core_loop, "SharedRing", Longer)
    with pytest.raises(ImportError, match="do not agree"):
        CoreLoop([], "/none", core)


def test_what_is_no_library_is_refused(tmp_path):
    """And is no reason to replay by epoll, which nobody would notice."""
    path = tmp_path / LIBRARY
    path.write_bytes(b"not ELF")
    with pytest.raises(ImportError, match=LIBRARY):
        CoreLoop([], "/none", str(path))
