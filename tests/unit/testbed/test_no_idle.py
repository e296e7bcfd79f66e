# SPDX-License-Identifier: GPL-2.0-only
"""Processes that keep CPUs from idling, and the priority of whoever measures."""
import os

import pytest

from testbed.core.no_idle import pids, prevent_idle, wanted
from testbed.guest.urgent import urgent


def test_only_a_machine_whose_clock_counts_instructions_wants_it(tmp_path):
    note = tmp_path / "note"
    assert not wanted(note)
    note.write_text("engine: host\n")
    assert not wanted(note)
    note.write_text("engine: host\nclock: instructions\n")
    assert wanted(note)


def test_each_cpu_has_a_process_that_yields_to_all_others_and_ends_with_the_block():
    with prevent_idle(True):
        loops = pids()
        assert set(loops) == os.sched_getaffinity(0)
        for cpu, pid in loops.items():
            assert os.sched_getaffinity(pid) == {cpu}
            assert os.sched_getscheduler(pid) == os.SCHED_IDLE and os.getpriority(os.PRIO_PROCESS, pid) == 19
    assert pids() == {}
    for pid in loops.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_nothing_is_started_where_it_is_not_wanted():
    with prevent_idle(False):
        assert pids() == {}


def test_they_end_when_the_block_fails():
    with pytest.raises(RuntimeError), prevent_idle(True):
        loops = pids()
        raise RuntimeError
    with pytest.raises(ProcessLookupError):
        os.kill(next(iter(loops.values())), 0)


def test_nobody_is_urgent_where_it_is_not_wanted():
    before = os.sched_getscheduler(0)
    with urgent(False):
        assert os.sched_getscheduler(0) == before


def test_whoever_measures_gets_a_cpu_at_once_and_gives_that_back():
    """With the rights that engine host asks for; without them it is an error, and never silently left out."""
    before = os.sched_getscheduler(0)
    if os.geteuid() != 0:
        with pytest.raises(PermissionError), urgent(True):
            pass
        assert os.sched_getscheduler(0) == before
        return
    with urgent(True):
        assert os.sched_getscheduler(0) == os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        read, write = os.pipe()
        if not (child := os.fork()):
            os.write(write, bytes([os.sched_getscheduler(0)]))
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read, 1) == bytes([os.SCHED_OTHER])
        os.close(read)
        os.close(write)
    assert os.sched_getscheduler(0) == before
