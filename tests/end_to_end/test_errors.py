# SPDX-License-Identifier: GPL-2.0-only
"""What goes wrong while runs go on ends in one clear message and the right exit code, and leaves nothing behind.

What is wrong before any run: tests/hostile.
"""
import json
import os
import signal
import subprocess

import pytest

from tests.end_to_end.command_line import PROJECT


def test_no_space_for_the_guests_memory(testbed):
    done = testbed("run", testbed.scenario(), TESTBED_GUEST_MEMORY_DIR="/proc")
    assert done.returncode == 3
    assert "no space for the guest's memory: 1024 MB needed, /proc has 0 MB free" in done.stderr


def test_full_disk(testbed):
    """Results on a file system with less room than a run needs."""
    (testbed.folder / "results").mkdir()
    script = (f"mount -t tmpfs -o size=64k none {testbed.folder}/results && "
              f"{PROJECT}/bin/testbed run {testbed.scenario()} --cca reno; code=$?; "
              f"find {testbed.folder}/results -mindepth 1 -name '.*' -printf 'left: %p\\n' >&2; "
              f"umount {testbed.folder}/results; exit $code")
    # in a chroot the root is no mount point, and its propagation cannot be changed
    unshare = ["unshare", "--mount", "--propagation", "unchanged", *(["--map-root-user"] if os.getuid() else [])]
    done = subprocess.run([*unshare, "sh", "-c", script], env=testbed.environment, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode in (1, 4), done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "left: " not in done.stderr


def test_interrupt_keeps_finished_runs_and_the_same_command_goes_on(testbed):
    path = testbed.scenario(test="2 s")
    assert testbed("run", path, "--cca", "reno", "--no-report").returncode == 0
    record = testbed.folder / "results/small/runs/reno-seed1/run.json"
    before = record.read_text()

    # long enough to be caught half way: two hours of virtual time
    endless = testbed.scenario(test="2 h")
    process = testbed.start("run", endless, "--cca", "vegas")
    testbed.wait_for("x real time", process)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert "interrupted; finished runs are kept" in testbed.stderr()
    testbed.assert_nothing_left()
    assert record.read_text() == before

    done = testbed("run", testbed.scenario(test="2 s"), "--cca", "reno,vegas", "--no-report")
    assert done.returncode == 0, done.stderr
    assert "1 run is already there" in done.stderr
    assert record.read_text() == before
    assert json.loads((testbed.folder / "results/small/runs/vegas-seed1/run.json").read_text())["status"] == "finished"


@pytest.mark.parametrize("victim", ["kernel", "testbed"])
def test_kill_nine(testbed, victim):
    process = testbed.start("run", testbed.scenario(test="2 h"), "--cca", "vegas")
    testbed.wait_for("x real time", process)
    if victim == "testbed":
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=30)
    else:
        kernels = [pid for pid, executable in testbed.processes() if executable.endswith("/linux")]
        os.kill(min(kernels), signal.SIGKILL)
        assert process.wait(timeout=60) == 4
        assert "vegas-seed1: the guest kernel was killed by SIGKILL" in testbed.stderr()
        record = json.loads((testbed.folder / "results/small/runs/vegas-seed1/run.json").read_text())
        assert record["status"] == "failed"
        testbed.assert_nothing_left()
    end = [p for p in testbed.processes()]
    for _ in range(100):
        if not (end := testbed.processes()):
            break
        __import__("time").sleep(0.1)
    assert end == []


def test_guest_errors_reach_the_user(testbed):
    """A sysctl that does not exist: the guest's own words, and a failed run to look at."""
    path = testbed.scenario(change=lambda t: t + "hosts: {sysctls: {net.ipv4.tcp_no_such_thing: 1}}\n")
    done = testbed("run", path, "--cca", "reno")
    assert done.returncode == 4
    assert "tcp_no_such_thing" in done.stderr
    assert "Traceback" not in done.stderr
    assert (testbed.folder / "results/small/runs/reno-seed1/log.txt").exists()
