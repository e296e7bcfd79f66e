# SPDX-License-Identifier: GPL-2.0-only
"""What goes wrong ends in one clear message and the right exit code, and leaves nothing behind."""
import json
import os
import signal
import subprocess

import pytest

from command_line import PROJECT


@pytest.mark.parametrize("arguments, words", [
    (["run", "no-such-scenario"], "no scenario 'no-such-scenario'; there are: access-link"),
    (["run", "missing.yaml"], "missing.yaml: no such scenario file"),
    (["run", "access-link", "--cca", "nonsense"], "no congestion control 'nonsense' in this kernel; there are:"),
    (["run", "access-link", "--cca", "a;b"], "is not a name of a congestion control"),
    (["run", "access-link", "--load", "61"], "load 61: access-link has load 60, 85, 110"),
    (["run", "access-link", "--choose", "colour=red"], "access-link has no choice of colour; its choices: load"),
    (["run", "access-link", "--choose", "load"], "--choose load: NAME=OPTION expected"),
    (["run", "access-link", "--seeds", "0"], "--seeds 0: numbers from 1 expected"),
    (["run", "access-link", "--engine", "moon"], "no engine 'moon'; there are: "),
    (["run", "access-link", "--set", "traffic.load"], "key=value expected"),
    (["run", "access-link", "--set", "traffic.load=60"], "--set traffic.load: a value with a unit such as '60 %'"),
    (["run", "access-link", "--set", "topology.central.rate=-5 Mbit/s"],
     "--set topology.central.rate: must be above 0 bit/s"),
    (["run", "access-link", "--probe", "thermometer"], "no such probe; there are: "),
    (["report", "nothing"], "no experiment 'nothing'"),
    (["verify", "nothing"], "not a run folder"),
    (["tmix", "info", "missing.cvec"], "missing.cvec: no such file"),
])
def test_wrong_names_and_values(testbed, arguments, words):
    done = testbed(*arguments)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("change, line, words", [
    (lambda t: t.replace("20 Mbit/s", "-20 Mbit/s"), 4, "topology.central.rate: must be above 0 bit/s"),
    (lambda t: t.replace("20 Mbit/s", "20"), 4, "topology.central.rate: a value with a unit such as '100 Mbit/s'"),
    (lambda t: t.replace("20 Mbit/s", "20 Mbps"), 4, "unknown unit 'Mbps'"),
    (lambda t: t.replace("limit: 50", "limits: 50"), 4, "topology.central.queue.limits: pfifo has no such option"),
    (lambda t: t.replace("kind: dumbbell", "kind: barbell"), 3, "topology.kind: no topology 'barbell'"),
    (lambda t: t.replace("right_to_left", "upwards"), 8, "traffic.target: one of "),
    (lambda t: t.replace("warmup: 1 s", "warmup: -1 s"), 9, "timing.warmup: a time >= 0"),
    (lambda t: t.replace("topology:", "topologie:"), 2, "topologie: unknown section"),
    (lambda t: t.replace("[0 ms, 5 ms]", "[0 ms, 5 ms"), 7, "expected ',' or ']'"),
])
def test_scenario_errors_name_file_line_and_field(testbed, change, line, words):
    path = testbed.scenario(change=change)
    done = testbed("run", path)
    assert done.returncode == 2, done.stderr
    assert f"{path}:{line}: " in done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_unreadable_vector_file(testbed, tmp_path):
    traces = tmp_path / "traces"
    traces.mkdir()
    for number in range(9):
        (traces / f"{number}.cvec").write_text("SEQ 1000 1 1 1\nw 65535 65535\nr 20000\nl 0 0\n> -5\n")
    done = testbed("run", "access-link", "--quick", "--cca", "reno", "--set", f"traffic.traces={traces}")
    assert done.returncode == 2, done.stderr
    assert "0.cvec:5: " in done.stderr
    assert "Traceback" not in done.stderr
    testbed.assert_nothing_left()


def test_no_space_for_the_guests_memory(testbed):
    done = testbed("run", testbed.scenario(), TESTBED_GUEST_MEMORY_DIR="/proc")
    assert done.returncode == 3
    assert "no space for the guest's memory: 1024 MB needed, /proc has 0 MB free" in done.stderr


def test_full_disk(testbed):
    """Results on a file system with less room than a run needs."""
    (testbed.folder / "results").mkdir()
    script = (f"mount -t tmpfs -o size=64k none {testbed.folder}/results && "
              f"{PROJECT}/bin/testbed run {testbed.scenario()} --cca reno; code=$?; "
              f"find {testbed.folder}/results -name '.*' -mindepth 1 >&2; umount {testbed.folder}/results; exit $code")
    # in a chroot the root is no mount point, and its propagation cannot be changed
    unshare = ["unshare", "--mount", "--propagation", "unchanged", *(["--map-root-user"] if os.getuid() else [])]
    done = subprocess.run([*unshare, "sh", "-c", script], env=testbed.environment, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode in (1, 4), done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "partial" not in done.stderr and ".workload" not in done.stderr


def test_interrupt_keeps_finished_runs_and_the_same_command_goes_on(testbed):
    path = testbed.scenario(test="2 s")
    assert testbed("run", path, "--cca", "reno", "--no-report").returncode == 0
    record = testbed.folder / "results/small/runs/reno-seed1/run.json"
    before = record.read_text()

    # long enough to be caught half way: a day of virtual time
    endless = testbed.scenario(test="24 h")
    process = testbed.start("run", endless, "--cca", "vegas")
    testbed.wait_for("traffic 1", process)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert "interrupted; finished runs are kept" in testbed.stderr()
    testbed.assert_nothing_left()
    assert record.read_text() == before

    done = testbed("run", testbed.scenario(test="2 s"), "--cca", "reno,vegas", "--no-report")
    assert done.returncode == 0, done.stderr
    assert "1 runs are already there" in done.stderr
    assert record.read_text() == before
    assert json.loads((testbed.folder / "results/small/runs/vegas-seed1/run.json").read_text())["status"] == "finished"


@pytest.mark.parametrize("victim", ["kernel", "testbed"])
def test_kill_nine(testbed, victim):
    process = testbed.start("run", testbed.scenario(test="24 h"), "--cca", "vegas")
    testbed.wait_for("traffic 1", process)
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
