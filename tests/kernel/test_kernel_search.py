# SPDX-License-Identifier: GPL-2.0-only
"""`testbed search` with runs: an effect that is certain is found, made as simple as can be, and repeated."""
import pathlib
import re

import pytest

from testbed import cli
from testbed.scenario import scenario

MODULE = pathlib.Path(__file__).parent / "modules/tcp_third.c"
LINK = "topology.central.right_to_left"


@pytest.fixture
def search(tmp_path, monkeypatch, capsys):
    """search(*words) -> what it printed; findings are in tmp_path / out."""
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "results"))

    def run(*words):
        assert cli.main(["search", "search-one-flow", "--out", str(tmp_path / "out"), *words]) == 0
        return capsys.readouterr().out
    return run


def test_losses_with_which_reno_does_not_fill_the_link(search, tmp_path):
    words = ["--cca", "reno", "--goal", "utilisation < 50 %", "--runs", "20", "--set", "search.steps={}",
             "--set", "search.fields={loss: [0.1 %, 5 %, 20 %], limit: [66, 132]}"]
    said = search(*words)
    path, = (tmp_path / "out").glob("found-reno-*.yaml")
    assert path.stat().st_size < 1000
    found = scenario.load(str(path))
    assert found.resolved().content() == scenario.load("search-one-flow", settings=["loss=5 %"]).resolved().content()
    assert re.search(r"found after \d+ trials: utilisation 1\d\.\d+ %", said)
    assert re.search(r"without loss = 5 %: utilisation 99\.\d+ %", said)
    assert "expected of reno: utilisation < 50 %: met" in said
    report = path.with_suffix(".md").read_text()
    assert report.count("| gone |") == 2 and str(path) in report
    # the file and the command that repeat it
    assert cli.main(["run", str(path), "--cca", "reno", "--seed", "1", "--no-report"]) == 0
    # again: all runs are there, and Hypothesis begins with what it found
    again = search(*words)
    assert "found after 0 trials: " in again and "  loss = 5 %" in again


@pytest.mark.parametrize("goal", [["utilisation < 50 %", "--against", "reno"], ["utilisation < 50 % of reno"]])
def test_a_window_that_is_stuck_after_the_third_timeout(search, tmp_path, goal):
    words = ["--cca", str(MODULE), "--goal", *goal, "--runs", "60", "--set", "search.fields={limit: [66]}",
             "--set", f"search.steps={{{LINK}: {{most: 3, at: 2..4/1 s, outage: [500 ms]}}}}"]
    search(*words)
    path, = (tmp_path / "out").glob("found-third-*.yaml")
    found = scenario.load(str(path)).resolved().content()
    schedule, = [link["schedule"] for link in found["network"]["links"] if link.get("schedule")]
    assert [change["up"] for change in schedule] == [False, True] * 3
    # one trial at a time finds the same
    search(*words, "--jobs", "1", "--out", str(tmp_path / "alone"))
    alone, = (tmp_path / "alone").glob("found-third-*.yaml")
    assert (alone.name, alone.read_text()) == (path.name, path.read_text())
