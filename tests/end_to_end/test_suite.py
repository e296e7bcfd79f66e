# SPDX-License-Identifier: GPL-2.0-only
"""A suite of two tiny parts in the guest, which share their runs: ended in its middle, given again, given once more."""
import json
import os
import signal

SUITE = """\
title: Tiny
source: nowhere
baseline: sack
ccas: [cubic]
seeds: 2
parts:
  - name: swept
    section: 1
    scenario: small.yaml
    sweep: {topology.central.queue.limit: [20]}
    outputs:
      - {metric: throughput_mean, scope: right_to_left, label: throughput, better: higher}
      - {metric: queueing_delay_mean, scope: right_to_left, label: delay, better: lower}
    parameters: [{what: test, published: 600 s, run: timing.test_us}]
  - name: set
    section: 2
    scenario: small.yaml
    set: {topology.central.queue.limit: 20}
    outputs: [{metric: drop_rate, scope: right_to_left, label: drops, better: lower}]
"""


def records(testbed):
    """{id: run.json} of all runs there are."""
    found = (testbed.folder / "results/runs").glob("*/run.json")
    return {path.parent.name: json.loads(path.read_text()) for path in found}


def report(testbed):
    """{file: bytes} of the suite's report."""
    folder = testbed.folder / "results/suite-tiny-cubic"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_suite_goes_on_after_an_interruption_and_says_the_same_again(testbed):
    testbed.scenario(test="1 s")
    (testbed.folder / "tiny.yaml").write_text(SUITE)
    command = ["suite", "run", str(testbed.folder / "tiny.yaml"), "--jobs", "1"]
    process = testbed.start(*command)
    testbed.wait_for("run 3 of 4", process)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 130, testbed.stderr()
    assert "the same command goes on from here" in testbed.stderr()
    before = records(testbed)
    assert 3 <= len(before) <= 4 and report(testbed) == {}

    done = testbed(*command)
    assert done.returncode == 0, done.stderr
    after = records(testbed)
    assert len(after) == 4 and {key: after[key] for key in before} == before
    assert f"== swept: {4 - len(before)} of 4 runs" in done.stderr or "== swept: all 4 runs are there" in done.stderr
    assert "== set: all 4 runs are there" in done.stderr
    assert "cubic against sack: " in done.stdout and "of 3 comparisons" in done.stdout
    page = report(testbed)
    assert {"index.html", "suite.json", "tables/scorecard.csv"} <= page.keys()
    assert b"<td>600 s</td><td>1 s</td>" in page["index.html"] and b"8 runs valid" in page["index.html"]
    assert [os.path.exists(testbed.folder / "results" / part["experiment"] / "report/index.html")
            for part in json.loads(page["suite.json"])["parts"]] == [True, True]

    again = testbed(*command)
    assert again.returncode == 0 and records(testbed) == after and report(testbed) == page
    testbed.assert_nothing_left()
