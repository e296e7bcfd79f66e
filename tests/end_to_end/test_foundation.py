# SPDX-License-Identifier: GPL-2.0-only
"""Runs are what they were made from; nothing is lost, nothing is repeated."""
import json
import os
import signal
import time

from tests.end_to_end import module_sources

SWEEP = """\
sweep: {axes: {topology.central.queue.limit: [25, 50]}}
"""


def experiment(testbed, name):
    return json.loads((testbed.folder / "results" / name / "experiment.json").read_text())


def records(testbed):
    """{id: run.json} of all runs there are."""
    found = (testbed.folder / "results/runs").glob("*/run.json")
    return {path.parent.name: json.loads(path.read_text()) for path in found}


def test_a_sweep_of_2_x_3_x_2_goes_on_after_kill_nine_with_nothing_repeated(testbed):
    path = testbed.scenario(test="1 s", change=lambda text: text + SWEEP)
    command = ["run", path, "--cca", "reno,cubic,vegas", "--seeds", "2", "--no-report"]
    process = testbed.start(*command)
    testbed.wait_for("run 5 of 12", process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
    end = time.monotonic() + 30
    while testbed.processes() and time.monotonic() < end:
        time.sleep(0.1)
    assert testbed.processes() == []
    before = records(testbed)
    assert 5 <= len(before) < 12 and all(record["status"] == "finished" for record in before.values())

    done = testbed(*command)
    assert done.returncode == 0, done.stderr
    assert f"{len(before)} runs are already there" in done.stderr
    assert f"run {12 - len(before)} of {12 - len(before)}" in done.stderr
    after = records(testbed)
    assert len(after) == 12 and {key: after[key] for key in before} == before
    listed = experiment(testbed, "small-sweep-limit")
    assert {run["id"] for run in listed["runs"]} == after.keys() and len(listed["runs"]) == 12
    assert {json.dumps(run["point"]) for run in listed["runs"]} == {'{"topology.central.queue.limit": "25"}',
                                                                    '{"topology.central.queue.limit": "50"}'}
    testbed.assert_nothing_left()
    again = testbed(*command)
    assert "12 runs are already there" in again.stderr and records(testbed) == after


def test_two_scenarios_of_one_name_and_two_edits_of_a_module_are_four_runs(testbed):
    source = testbed.folder / "tcp_mine.c"
    for factor in ("7", "8"):
        source.write_text(module_sources.GOOD.replace("* 7 / 10", f"* {factor} / 10"))
        for rate in ("20", "30"):
            path = testbed.scenario(test="1 s", change=lambda text: text.replace("20 Mbit/s", f"{rate} Mbit/s"))
            done = testbed("run", path, "--cca", str(source), "--no-report")
            assert done.returncode == 0, done.stderr
    assert len(records(testbed)) == 4
    assert {json.loads((path / "verdict.json").read_text())["verdict"]
            for path in (testbed.folder / "results/runs").glob("[!.]*")} == {"valid"}
    folders = sorted(path.parent.name for path in (testbed.folder / "results").glob("*/experiment.json"))
    assert len(folders) == 2 and folders[0] == "small" and folders[1].startswith("small-")
    for name in folders:
        listed = experiment(testbed, name)
        assert [run["name"] for run in listed["runs"]] == ["mine-seed1"] and len(listed["superseded"]) == 1
        assert (testbed.folder / "results" / name / "runs/mine-seed1/plan.json").is_file()
