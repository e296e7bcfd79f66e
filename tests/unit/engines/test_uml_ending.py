# SPDX-License-Identifier: GPL-2.0-only
"""How a guest that ended before its job was done is reported."""
import json
import os
import re

import pytest

from testbed.core.errors import EnvironmentProblem, RunFailed
from testbed.engines import _watch
from testbed.engines.uml import ending

# as a kernel said it when the tmpfs of its memory was filled by somebody else
BUS_ERROR = """[    5.037000] queues: loading out-of-tree module taints kernel.
[   27.037000] Bus error - the host /dev/shm or /tmp mount likely just ran out of space
[   27.037000] Kernel panic - not syncing: Kernel mode signal 7
[   27.037000] CPU: 0 UID: 0 PID: 1 Comm: python3 Tainted: G           O       6.12.117-testbed #1
[   27.037000] Received SIGSEGV in SIGSEGV handler, aborting stack trace!
"""
INIT_KILLED = "[    1.000000] Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000{}\n"
FULL = (r"the folder of the guest's memory was full: {} \(\d+ MB are free now that the guest has ended\): free some "
        r"space there, .* \(--jobs\), or set TESTBED_GUEST_MEMORY_DIR to .*$")


@pytest.fixture
def ended(tmp_path):
    """What is said of a guest that left this log, and this last word."""
    def said(log, status=None, kind=RunFailed):
        (tmp_path / "log.txt").write_text(log)
        if status:
            (tmp_path / "status.json").write_text(json.dumps(status))
        with pytest.raises(kind) as problem:
            ending.check(0, tmp_path, tmp_path / "log.txt", str(tmp_path))
        return str(problem.value)
    return said


@pytest.mark.parametrize("log", [BUS_ERROR, INIT_KILLED.format(7)])
def test_memory_without_room_is_no_crash_of_the_kernel(ended, tmp_path, log):
    """Though there is room again: what the guest had is free."""
    assert re.match(FULL.format(tmp_path), ended(log, kind=EnvironmentProblem))


def test_a_program_without_memory(ended, tmp_path):
    said = ended("", {"ok": False, "error": "tmix on n1 ended with status -7"})
    assert re.match(f"inside the guest: tmix on n1 ended with status -7; most likely {FULL.format(tmp_path)}", said)
    for status in ("-77", "-9", "7"):
        assert ended("", {"ok": False, "error": f"it ended with status {status}"}).endswith(f"with status {status}")


def test_a_guest_without_memory(ended):
    log = "[   12.3] Out of memory: Killed process 56 (python3) total-vm:1264752kB, anon-rss:914944kB\n"
    said = ended(log, {"ok": False, "error": "udp on n1 ended with status -9"})
    assert said == "inside the guest: udp on n1 ended with status -9; the guest's memory was full: Out of memory: " \
                   "Killed process 56 (python3)"


def test_other_crashes_are_crashes(ended):
    assert ended(INIT_KILLED.format("b")).startswith("the guest kernel crashed: Kernel panic")


def test_folders_that_are_still_full(ended, tmp_path, monkeypatch):
    full = {str(tmp_path)}

    def statvfs(folder):
        return os.statvfs_result((4096, 4096, 100, 0, 0 if folder in full else 10**6, 0, 0, 0, 0, 255))
    monkeypatch.setattr(ending.os, "statvfs", statvfs)
    assert re.match(FULL.format(tmp_path), ended("", kind=EnvironmentProblem))
    (tmp_path / "memory").mkdir()
    with pytest.raises(EnvironmentProblem, match=f"^No space left on device: {tmp_path}$"):
        ending.check(0, tmp_path, tmp_path / "log.txt", str(tmp_path / "memory"))


def test_what_was_wrong_before_a_kernel_was_made_to_stop(tmp_path):
    log = tmp_path / "log.txt"
    log.write_text("[   22.2] BUG: scheduling while atomic: swapper/0/0x00000100\n[   22.2] Call Trace:\n"
                   "[   22.2]  [<6001dff8>] ? x_avoid+0x10/0x25 [tcp_x]\n")
    said = _watch.last_words(log, lambda place: f" (line of {place})")
    assert said.startswith("; before that the kernel said: BUG: scheduling while atomic: swapper/0/0x00000100 (some")
    assert said.endswith(":\n  in x_avoid+0x10/0x25 [tcp_x] (line of x_avoid+0xf/0x25 [tcp_x])")
    log.write_text("[   22.2] Kernel panic - not syncing: Kernel mode fault at addr 0x0\n")
    assert _watch.last_words(log) == ":\n  "


def test_a_run_whose_kernel_had_a_bug_is_no_result(ended):
    log = "[   22.2] BUG kmalloc-64 (Tainted: G           O): Right Redzone overwritten\n"
    assert ended(log, {"ok": True, "error": "", "failed": False}) == (
        "the guest kernel has a bug, and what it did after that is worth nothing: BUG kmalloc-64 (Tainted: G           "
        "O): Right Redzone overwritten (memory beyond the end of an object was written)")


def test_a_kernel_that_could_say_no_more(tmp_path):
    log = tmp_path / "log.txt"
    log.write_text("[   22.4] RIP: 0033:deep.isra.0+0x45/0x80 [tcp_x]\n")
    with pytest.raises(RunFailed, match=r"killed by SIGSEGV in deep\.isra\.0\+0x45/0x80 \[tcp_x\]; a full stack"):
        ending.check(-11, tmp_path, log, str(tmp_path))
