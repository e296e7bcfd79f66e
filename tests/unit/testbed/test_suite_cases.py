# SPDX-License-Identifier: GPL-2.0-only
"""Suites of test cases: their files, and the command up to the first run."""
import pytest

from testbed import cli
from testbed.cli import _cases
from testbed.core.errors import ScenarioError
from testbed.scenario import suites

SUITE = """title: Cases
cases: bbr
grid: {rates: [1 Mbit/s, 10 Mbit/s], rtts: [10 ms, 1 s], most_bdp: 1 MB}
quick: {grid: {rates: [1 Mbit/s], rtts: [10 ms]}}
"""


def read(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return suites.read(path)


def test_a_grid(tmp_path):
    suite = read(tmp_path, SUITE)
    assert suite.grid.paths() == [(1_000_000, 10_000), (1_000_000, 1_000_000), (10_000_000, 10_000)]
    assert suite.quick.grid.paths() == [(1_000_000, 10_000)]


@pytest.mark.parametrize("was, becomes, message", [
    ("cases: bbr\ngrid: {rates: [1 Mbit/s, 10 Mbit/s], rtts: [10 ms, 1 s], most_bdp: 1 MB}\n", "cases: bbr\n",
     "cases and grid belong together"),
    ("cases: bbr\n", "", "one of parts, results, criteria and cases expected"),
    ("cases: bbr\n", "cases: bbr\nbaseline: reno\n", "cases have no baseline"),
    ("[10 ms, 1 s]", "[10, 1 s]", "10"),
    ("[10 ms, 1 s]", "[]", "rtts"),
    ("most_bdp", "mots_bdp", "mots_bdp"),
])
def test_what_makes_no_sense(tmp_path, was, becomes, message):
    with pytest.raises(ScenarioError, match=message):
        read(tmp_path, SUITE.replace(was, becomes))


def test_the_list_of_cases(capsys):
    assert cli.main(["suite", "list", "bbr-ietf", "--quick", "--only", "14,16"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["14  Correctly Managing Sub-Packet BDPs", "    1 Mbit/s, 1 ms; 10 Mbit/s, 1 ms",
                     "16  Decreasing Bandwidth 10x and Ensuring Max Bandwidth Adapts Down", "    10 Mbit/s, 100 ms"]


@pytest.mark.parametrize("words, message", [
    (["--only", "99"], "--only 99: no such case"), (["--only", "x"], "--only x: no such case"),
    (["--seeds", "5"], "--seeds: a case of bbr-ietf is one run"),
    (["--smoke"], "has a --quick version"), (["--cca", "nosuch"], "no congestion control 'nosuch'")])
def test_what_cannot_be_asked(capsys, tmp_path, monkeypatch, words, message):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    assert cli.main(["suite", "run", "bbr-ietf", *words]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_folders_of_cases(tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    path.write_text(SUITE.replace("cases: bbr", "cases: nosuch"), encoding="utf-8")
    assert cli.main(["suite", "list", str(path)]) == 2
    assert "no cases 'nosuch'" in capsys.readouterr().err


def test_a_run_that_is_wanted_again_is_carried_out_and_told_once(tmp_path, monkeypatch):
    asked = []

    class Carried:
        failures, ids = {}, ["run-1"]

        def __init__(self, words):
            asked.append(words)

        def carry_out(self, levels, among_others):
            return self
    monkeypatch.setattr(_cases, "Asked", Carried)
    monkeypatch.setattr(_cases._series, "parsed", lambda words: words)
    monkeypatch.setattr(_cases._kernels, "levels", lambda parsed: [])
    bench = _cases._Bench(None, tmp_path)
    assert [bench._carry_out(words) for words in (["a"], ["b"], ["a"])] == [tmp_path / "runs/run-1"] * 3
    assert asked == [["a"], ["b"]]
