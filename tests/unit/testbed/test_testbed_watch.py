# SPDX-License-Identifier: GPL-2.0-only
"""Watching a guest: what it reports, and what happens when it computes without end."""
import contextlib
import errno
import itertools
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from testbed.engines import _arrivals as arrivals, _watch as watch
from testbed.engines._kernel_engine import read_progress

# says that its clock stands still, and where in its memory that clock is
STUCK = """
import ctypes, sys
clock = ctypes.c_uint64(12345)
with open(sys.argv[1], "w") as f:
    f.write(f"{ctypes.addressof(clock):016x} b time_travel_time\\n")
open(sys.argv[1] + ".ready", "w").close()
while True:
    clock.value += MOVES
"""


@pytest.fixture
def start(tmp_path):
    """start(moves) -> (process that computes without end, its System.map)."""
    started = []

    def begin(moves):
        path = tmp_path / "System.map"
        started.append(subprocess.Popen([sys.executable, "-c", STUCK.replace("MOVES", str(moves)), str(path)]))
        while not (tmp_path / "System.map.ready").exists():
            assert started[-1].poll() is None
        return started[-1], path
    yield begin
    for process in started:
        process.kill()
        process.wait()


def test_a_clock_that_stands_still(start, tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "STALL_CPU_S", 1)
    process, system_map = start(0)
    (tmp_path / "progress.json").write_text(json.dumps({"phase": "traffic", "t_us": 4_000_000}))
    seen = []
    words = r"virtual time stands still at 4 s \(traffic\): .* 1 s of CPU time without end"
    with pytest.raises(watch.Stalled, match=words):
        watch.watch(process, system_map, tmp_path, tmp_path / "log.txt", lambda *progress: seen.append(progress))
    assert seen == [("traffic", 4_000_000)] and process.poll() is not None


def test_a_clock_that_moves_while_nothing_is_achieved(start, tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "STALL_CPU_S", 1)
    monkeypatch.setattr(watch, "STALL_S", 3)
    monkeypatch.setattr(watch, "COMPUTES_S", 0.005)
    process, system_map = start(256)
    with pytest.raises(watch.Stalled, match="no progress while starting for 3 s of CPU time"):
        watch.watch(process, system_map, tmp_path, tmp_path / "log.txt", lambda *_: None)


def test_a_clock_that_creeps(start, tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "CREEP_CPU_S", 1)
    process, system_map = start(1)
    (tmp_path / "progress.json").write_text(json.dumps({"phase": "traffic", "t_us": 4_000_000}))
    with pytest.raises(watch.Stalled, match=r"virtual time creeps at 4 s \(traffic\): .* 1 s of CPU time without pro"):
        watch.watch(process, system_map, tmp_path, tmp_path / "log.txt", lambda *_: None)


def test_without_a_map_only_progress_counts(start, tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "STALL_CPU_S", 0.5)
    monkeypatch.setattr(watch, "STALL_S", 2)
    process, _ = start(0)
    with pytest.raises(watch.Stalled, match="no progress"):
        watch.watch(process, tmp_path / "nothing", tmp_path, tmp_path / "log.txt", lambda *_: None)


def test_a_guest_that_waits_for_what_does_not_come(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "STALL_S", 1)
    process = subprocess.Popen(["sleep", "60"])
    try:
        with pytest.raises(watch.Stalled, match="for 1 s of wall time, in which the guest has computed nothing"):
            watch.watch(process, tmp_path / "nothing", tmp_path, tmp_path / "log.txt", lambda *_: None)
    finally:
        process.kill()
        process.wait()


def test_a_guest_that_gets_little_of_the_machine(tmp_path, monkeypatch):
    """It computes for 5 % of the time, and needs longer than the limit."""
    monkeypatch.setattr(watch, "STALL_S", 0.5)
    monkeypatch.setattr(watch, "COMPUTES_S", 0.001)
    computed = itertools.count()
    monkeypatch.setattr(watch._CpuTime, "read_s", lambda self: next(computed) / 100)
    process = subprocess.Popen(["sleep", "1.5"])
    watch.watch(process, tmp_path / "nothing", tmp_path, tmp_path / "log.txt", lambda *_: None)
    assert process.returncode == 0 and next(computed) > 3


@pytest.mark.parametrize("stop", [True, False])
def test_a_guest_that_the_machine_does_not_let_compute(tmp_path, monkeypatch, stop):
    """It was stopped for a hundred looks, 1000 s of wall time each, and goes on; one that waits by itself stalls."""
    clock, looks = itertools.chain(range(0, 100_000, 1000), itertools.repeat(100_000)), itertools.count()
    monkeypatch.setattr(watch.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(watch, "MOST_BETWEEN_LOOKS_S", 1e9)
    monkeypatch.setattr(watch, "LOOK_EVERY_S", 0.001)
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)

    def let_it_go_on(_work_dir):
        if next(looks) == 150:
            process.stdin.close()
            process.send_signal(signal.SIGCONT)
    monkeypatch.setattr(watch, "read_progress", let_it_go_on)
    try:
        if stop:
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            watch.watch(process, tmp_path / "nothing", tmp_path, tmp_path / "log.txt", lambda *_: None)
            assert process.returncode == 0 and next(looks) > 150
        else:
            with pytest.raises(watch.Stalled, match="no progress while starting for 300 s of wall time"):
                watch.watch(process, tmp_path / "nothing", tmp_path, tmp_path / "log.txt", lambda *_: None)
    finally:
        process.kill()
        process.wait()


def test_a_program_in_the_guest_that_wants_to_compute(tmp_path):
    """It is a child of the kernel's process, which waits for it."""
    process = subprocess.Popen(["sh", "-c", "sh -c 'kill -STOP $$'; exit 0"], start_new_session=True)
    try:
        processes = watch._CpuTime(process.pid)
        ends = time.monotonic() + 60
        while not (processes.read_s() >= 0 and processes.wanted() and states(process.pid) == ["S", "T"]):
            assert time.monotonic() < ends
        assert processes.wanted()
        os.killpg(process.pid, signal.SIGCONT)
        process.wait()
        processes.read_s()
        assert not processes.wanted()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def states(pid):
    """Of a process and its children."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [watch._stat(one)[0] for one in (pid, *map(int, file.read().split()))]


@pytest.mark.parametrize("jump_s, stalls", [(10_000, False), (3, True)])
def test_time_in_which_nobody_looked_is_no_time_without_progress(tmp_path, monkeypatch, jump_s, stalls):
    """As after SIGSTOP and SIGCONT: the clock has jumped, and the guest goes on. One that does not still stalls."""
    looks, clock = iter([None] * 3 + [0]), iter([0.0, 0.0, 1.0, 1.0 + jump_s, 1.5 + jump_s, 1.5 + jump_s])

    class Guest:
        pid = os.getpid()

        def wait(self, timeout):
            if next(looks) is None:
                raise subprocess.TimeoutExpired("guest", timeout)
    monkeypatch.setattr(watch.os, "pidfd_open", no_descriptor)
    monkeypatch.setattr(watch, "STALL_S", 4 if stalls else 7)
    monkeypatch.setattr(watch.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(watch, "_ask_for_stack", lambda process: None)
    monkeypatch.setattr(watch._CpuTime, "_find_children", lambda self: [])
    monkeypatch.setattr(watch._CpuTime, "read_s", lambda self: 0.0)
    monkeypatch.setattr(watch._CpuTime, "wanted", lambda self: False)
    if stalls:
        with pytest.raises(watch.Stalled, match="no progress while starting for 4 s"):
            watch.watch(Guest(), tmp_path / "nothing", tmp_path, tmp_path / "log.txt", lambda *_: None)
    else:
        watch.watch(Guest(), tmp_path / "nothing", tmp_path, tmp_path / "log.txt", lambda *_: None)


def no_descriptor(_pid):
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


@pytest.mark.parametrize("descriptor", [True, False])
def test_a_guest_that_ends(tmp_path, monkeypatch, descriptor):
    if not descriptor:                      # as before Linux 5.3
        monkeypatch.setattr(watch.os, "pidfd_open", no_descriptor)
    process = subprocess.Popen([sys.executable, "-c", ""])
    watch.watch(process, tmp_path / "nothing", tmp_path, tmp_path / "log.txt", lambda *_: None)
    assert process.returncode == 0


def test_children_count_too(tmp_path, monkeypatch):
    """A program in a guest is a process of its own: it may be that one which computes without end."""
    monkeypatch.setattr(watch, "STALL_CPU_S", 1)
    monkeypatch.setattr(watch, "LOOK_S", 0.1)
    inner = tmp_path / "inner.py"
    inner.write_text(STUCK.replace("MOVES", "0"))
    outer = ("import ctypes, subprocess, sys; clock = ctypes.c_uint64(12345); path = sys.argv[2]\n"
             "open(path, 'w').write(f'{ctypes.addressof(clock):016x} b time_travel_time\\n')\n"
             "child = subprocess.Popen([sys.executable, sys.argv[1], path + '.child'])\n"
             "open(path + '.ready', 'w').close()\n"
             "try:\n    child.wait()\nfinally:\n    child.kill()\n")
    system_map = tmp_path / "System.map"
    process = subprocess.Popen([sys.executable, "-c", outer, inner, system_map], start_new_session=True)
    try:
        while not (tmp_path / "System.map.ready").exists():
            assert process.poll() is None
        with pytest.raises(watch.Stalled, match="virtual time stands still while starting: .* 1 s of CPU time"):
            watch.watch(process, system_map, tmp_path, tmp_path / "log.txt", lambda *_: None)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("symbols, address", [
    ("ff b other\n00000000606a0 b time_travel_time\n00000000606b0 b time_travel_timer\n", 0x606a0),
    ("10 B time_travel_time\nff b other\n", 0x10), ("ff b xtime_travel_time\n10 b time_travel_time_x\n", None),
    ("time_travel_time\n", None), ("?? b time_travel_time\n", None), ("", None)])
def test_where_the_clock_is(tmp_path, symbols, address):
    (tmp_path / "System.map").write_text(symbols)
    assert watch._VirtualClock(1, tmp_path / "System.map")._address == address
    assert watch._VirtualClock(1, tmp_path / "nothing")._address is None


GUEST = """
import os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
for t_us in range(5):
    (folder / "part").write_text('{"phase": "traffic", "t_us": %d}' % t_us)
    os.rename(folder / "part", folder / "progress.json")
    if t_us < 4:
        while not (folder / f"seen{t_us}").exists():
            time.sleep(0.001)
    if t_us == 2:
        time.sleep(0.3)
"""


@pytest.mark.parametrize("lacking", [None, "inotify_init1", "inotify_add_watch"])
def test_progress_is_noticed_when_it_comes(tmp_path, monkeypatch, lacking):
    """With events no look comes too late, and none without need; without, those come that come by themselves. The last
    progress comes together with the end."""
    if lacking:
        monkeypatch.setattr(arrivals._libc, lacking, lambda *_: -1)
    else:
        monkeypatch.setattr(watch, "LOOK_EVERY_S", 20)
    looks = []
    monkeypatch.setattr(watch, "read_progress", lambda folder: looks.append(1) or read_progress(folder))
    process = subprocess.Popen([sys.executable, "-c", GUEST, str(tmp_path)])
    seen, began = [], time.monotonic()

    def note(phase, t_us):
        seen.append((phase, t_us))
        (tmp_path / f"seen{t_us}").touch()
    try:
        watch.watch(process, tmp_path / "nothing", tmp_path, tmp_path / "log.txt", note)
    finally:
        process.kill()
        process.wait()
    assert seen == [("traffic", t_us) for t_us in range(5)] and len(looks) <= 20
    assert lacking or time.monotonic() - began < 20


def test_a_watch_that_is_refused_leaves_nothing_open(tmp_path):
    before = os.listdir("/proc/self/fd")
    assert arrivals.Arrivals(tmp_path / "nowhere").fd == -1 and os.listdir("/proc/self/fd") == before


def test_a_kernel_that_says_that_it_has_a_bug_is_not_waited_for(start, tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "BUG_S", 0.3)
    process, system_map = start(0)
    (tmp_path / "progress.json").write_text(json.dumps({"phase": "traffic", "t_us": 4_000_000}))
    (tmp_path / "log.txt").write_text("[    1.0] fine\n[    2.0] BUG: scheduling while atomic: x\n")
    with pytest.raises(watch.Buggy, match=r"^the guest kernel has a bug at 4 s \(traffic\)$"):
        watch.watch(process, system_map, tmp_path, tmp_path / "log.txt", lambda *_: None)


def test_a_log_is_read_as_it_grows(tmp_path):
    bugs = watch._Bugs(tmp_path / "log.txt")
    assert not bugs.found()
    with open(tmp_path / "log.txt", "a", encoding="utf-8") as log:
        for words, found in (("WARNING: CPU: 0 at x.c\n", False), ("[ 1.0] BU", False), ("G: bad page\n", True)):
            log.write(words)
            log.flush()
            assert bugs.found() is found
    assert 0 < bugs.since <= time.monotonic()
