# SPDX-License-Identifier: GPL-2.0-only
"""`testbed bisect` with revisions whose metric is made up: what it says, what it skips, when it stops."""
import csv
import math
import re

import pytest

from testbed import cli, engines
from testbed.cli import _revisions, _runs, bisect as bisect_command
from testbed.cli._revisions import Unusable
from testbed.core.errors import EnvironmentProblem, RunFailed, UsageError
from testbed.runs import queries
from tests.unit.core.simple_plans import SMALL, QuickEngine
from tests.unit.testbed.test_history import commit, git

NOISE = {1: 0.0, 2: 0.2, 3: -0.1, 4: 0.1}


@pytest.fixture
def tree(tmp_path):
    """Ten commits of a module, subjects `change 0` to `change 9`."""
    folder = tmp_path / "tree"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for number in range(10):
        commit(folder, f"change {number}", **{"tcp_mine.c": str(number)})
    return folder


@pytest.fixture
def bisect(tree, tmp_path, monkeypatch):
    """bisect(*words) -> exit code; .means: {number of the change: mean, or an error}; .asked: numbers in order."""
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)

    def measure(bench, one):
        number = int(one.subject.split()[1])
        call.asked.append(number)
        mean = call.means[number]
        if isinstance(mean, Exception):
            raise mean
        bench.folder = tmp_path / "results"
        bench._wanted = queries.Wanted("queueing_delay_p95", "right_to_left", "x")
        return Measured(one, {seed: mean + NOISE[1 + (seed * number) % 4] * call.noise
                              for seed in bench._seeds}, {})

    class Measured(_revisions.Measured):
        def same_as(self, other):
            return call.same and self.values == other.values

    def observe(bench, one, symptom):
        number = int(one.subject.split()[1])
        call.asked.append(number)
        bench.folder = tmp_path / "results"
        shown = call.shown.get(number, 0)
        if isinstance(shown, Exception):
            raise shown
        return _revisions.Observed(one, shown, len(bench._seeds), f"it is {number}" if shown else "")

    def call(*words):
        given = {"--good": "HEAD~9", "--bad": "main", "--module": "tcp_mine.c", "--tree": str(tree),
                 "--metric": "p95_delay", "--seeds": "3"}
        if "--by" in words:
            del given["--metric"]
        given.update(zip(words[::2], words[1::2]))
        return cli.main(["bisect", str(path), *(word for pair in given.items() for word in pair)])
    call.means, call.asked, call.noise, call.same = dict.fromkeys(range(10), 20.0), [], 1, False
    call.means.update(dict.fromkeys(range(6, 10), 40.0))
    call.shown = dict.fromkeys(range(6, 10), 2)
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(engines, "load", lambda name, options: QuickEngine(None))
    monkeypatch.setattr(_runs, "make_engine_ready", lambda engine, scenarios: None)
    monkeypatch.setattr(_revisions.Bench, "measure", measure)
    monkeypatch.setattr(_revisions.Bench, "observe", observe)
    return call


def test_it_says_which_commit(bisect, tree, tmp_path, capsys):
    assert bisect() == 0
    said = capsys.readouterr().out
    culprit = git(tree, "rev-parse", "main~3")
    assert f"first bad commit: {culprit}\n  change 6\n  2026-01-02T03:04:05+00:00\n" in said
    assert bisect.asked[:2] == [0, 9] and len(bisect.asked) <= 6
    rows = list(csv.DictReader((tmp_path / "results/bisect.csv").open()))
    assert [int(row["subject"].split()[1]) for row in rows] == bisect.asked
    assert {row["state"] for row in rows} == {"good", "bad"} and rows[0]["why"] == "as given"
    for row in rows[2:]:
        assert float(row["p"]) < 0.01 and row["n"] == "3" and row["metric"] == "queueing_delay_p95:right_to_left"
        assert (float(row["from_middle"]) > 0) == (row["state"] == "bad")
        assert float(row["ci95_low"]) <= float(row["from_middle"]) <= float(row["ci95_high"])
    table = said[said.index("commit  "):]
    assert all(culprit[:12] in table and row["commit"][:12] in table for row in rows)


def test_what_does_not_build_or_crashes_is_skipped(bisect, capsys):
    words = "tcp_mine.c does not build:\n  tcp_mine.c:3:1: error: expected ;\nmore"
    bisect.means.update({4: Unusable(words), 5: Unusable("not there"), 3: 21.0})
    assert bisect() == 1
    out, err = capsys.readouterr()
    assert "skipped: tcp_mine.c does not build: tcp_mine.c:3:1: error: expected ;\n" in out
    assert "the first bad commit is one of 3, as the others of them could not be measured" in err
    for number in (4, 5, 6):
        assert f"(change {number})" in err


def test_what_is_no_fault_of_the_revision_ends_the_search(bisect, capsys):
    """Else a cluster that is gone would make all that is left look broken."""
    bisect.means.update({4: RunFailed("scheduler gone"), 5: RunFailed("scheduler gone")})
    assert bisect() == RunFailed.exit_code and "scheduler gone" in capsys.readouterr().err


def test_a_percentile_that_was_not_reached_is_skipped(bisect, capsys):
    bisect.means.update({4: math.inf, 5: math.inf, 3: 21.0})
    assert bisect() == 1 and "skipped: a percentile was not reached" in capsys.readouterr().out


def test_one_that_is_skipped_does_not_keep_it_from_the_end(bisect, capsys):
    bisect.means.update({4: Unusable("does not build")})
    assert bisect() == 0 and "change 6" in capsys.readouterr().out.rpartition("first bad commit")[2]


def test_it_stops_in_the_middle(bisect, capsys):
    bisect.means.update(dict.fromkeys(range(3, 7), 30.0))
    assert bisect() == 1
    err = capsys.readouterr().err
    assert "stopped at " in err and "nearer to neither; a difference like this one would take about " in err
    assert "the first bad commit is one of 9" in err


def test_a_step_on_the_way_is_said_to_be_one(bisect, capsys):
    bisect.means.update(dict.fromkeys(range(3, 7), 33.0))
    assert bisect() == 0
    said = capsys.readouterr().out
    assert "nearer to bad, 65 % of the way from good to bad" in said and "change 3" in said.rpartition("first bad")[2]


@pytest.mark.parametrize("bad, noise, words, says", [
    (20.05, 0.01, (), "is different by less than 5 % and thus counts as equal (20"),
    (20.05, 0.01, ("--margin", "0.1%"), "first bad commit"),
    (20.0, 0, (), "no difference at all in the means")])
def test_ends_that_do_not_differ_enough(bisect, capsys, bad, noise, words, says):
    bisect.noise = noise
    bisect.means.update(dict.fromkeys(range(6, 10), bad))
    assert bisect(*words) == (0 if says == "first bad commit" else 1)
    assert says in "".join(capsys.readouterr())


def test_ends_that_chance_may_have_made(bisect, capsys, monkeypatch):
    measure = _revisions.Bench.measure

    def noisy(bench, one):
        found = measure(bench, one)
        return found._replace(values={seed: value + (3 * (-1) ** seed if one.subject == "change 9" else 0)
                                      for seed, value in found.values.items()})
    bisect.means[9] = 20.6
    monkeypatch.setattr(_revisions.Bench, "measure", noisy)
    assert bisect("--seeds", "4") == 1
    assert "is not distinguishable with 4 seeds; a difference like this one would take about " \
        in capsys.readouterr().err


def test_ends_with_the_same_data(bisect, capsys):
    bisect.means, bisect.same, bisect.noise = dict.fromkeys(range(10), 20.0), True, 0
    assert bisect() == 1 and bisect.asked == [0, 9]
    assert "no change in this scenario, all raw data are the same to the byte" in capsys.readouterr().err


def test_what_the_command_has_wrong_is_no_failure_of_a_run(bisect, capsys):
    bisect.means[0] = problem = Unusable("tcp_mine.c: not in 012345678901")
    problem.__cause__ = UsageError(str(problem))
    assert bisect() == UsageError.exit_code and "tcp_mine.c: not in" in capsys.readouterr().err


@pytest.mark.parametrize("number", [0, 9])
def test_an_end_that_does_not_work_is_an_error(bisect, capsys, number):
    bisect.means[number] = Unusable("does not build")
    assert bisect() == RunFailed.exit_code
    assert f"--{'good' if number == 0 else 'bad'} " in (said := capsys.readouterr().err) and "does not build" in said


@pytest.mark.parametrize("words, says", [
    (("--good", "main", "--bad", "HEAD~9"), "to find what mended something, call the earlier one good"),
    (("--good", "main"), "are the same commit"), (("--good", "nothing"), "--good nothing: "),
    (("--tree", "/proc/self"), "no git tree"), (("--module", "../x.c"), "--module ../x.c: a path inside --tree"),
    (("--module", "/etc/passwd"), "a path inside --tree"), (("--seeds", "5,"), "two at least"),
    (("--kernel", "6.12,7.3"), "one kernel expected"), (("--cca", "reno"), "--cca: with --module"),
    (("--path", "net"), "--path: with --module"), (("--metric", "througput"), "metric througput: there is none of"),
    (("--metric", "p95_delay:"), "metric p95_delay:: NAME or NAME:SCOPE expected")])
def test_what_makes_no_sense_is_one_line(bisect, capsys, words, says):
    assert bisect(*words) == 2 and bisect.asked == []
    err = capsys.readouterr().err
    assert says in err and len(err.strip().splitlines()) == 1


def test_two_commands_do_not_share_a_tree(bisect, tree, capsys):
    with _revisions.work_folder(tree):
        assert bisect() == EnvironmentProblem.exit_code and bisect.asked == []
    assert "another `testbed bisect` works on it" in capsys.readouterr().err
    assert bisect() == 0


def test_a_branch_beside_says_where_to_begin(bisect, tree, capsys):
    git(tree, "checkout", "-q", "-b", "side", "main~5")
    commit(tree, "change 0", other="x")
    assert bisect("--good", "side") == 2
    assert f"both come from {git(tree, 'rev-parse', 'main~5')[:12]}: is that one good?" in capsys.readouterr().err


@pytest.mark.parametrize("symptom", ["crash", "warning", "verdict"])
def test_by_a_symptom(bisect, tree, tmp_path, capsys, symptom):
    assert bisect("--by", symptom) == 0
    said = capsys.readouterr().out
    assert f"first bad commit: {git(tree, 'rev-parse', 'main~3')}\n  change 6\n" in said
    assert re.search(rf"^{git(tree, 'rev-parse', 'main~3')[:12]} bad: {symptom} in 2 of 3 runs: it is 6$", said, re.M)
    rows = list(csv.DictReader((tmp_path / "results/bisect.csv").open()))
    assert [row["why"] for row in rows[:2]] == ["as given", "as given: it is 9"]
    assert {(row["state"], row["metric"], row["mean"], row["n"], row["p"]) for row in rows} == {
        ("good", symptom, "0", "3", ""), ("bad", symptom, "2", "3", "")}


def test_by_a_symptom_one_seed_is_enough_and_the_default(bisect, capsys):
    assert bisect("--by", "crash", "--seeds", "1") == 0 and " in 2 of 1 runs" in capsys.readouterr().out


def test_what_cannot_say_is_skipped(bisect, capsys):
    bisect.shown[4] = Unusable("does not build")
    assert bisect("--by", "crash") == 0
    assert "skipped: does not build" in (said := capsys.readouterr().out) and "change 6" in said.rpartition("first")[2]


@pytest.mark.parametrize("shown, says", [
    ({0: 1, 9: 1}, "shows it, too: it is 0"), ({}, "no crash in 3 runs; another scenario or other seeds may show it")])
def test_ends_that_do_not_differ_in_a_symptom(bisect, capsys, shown, says):
    bisect.shown = shown
    assert bisect("--by", "crash") == 1 and says in capsys.readouterr().err


def test_an_unknown_symptom(bisect, capsys):
    assert bisect("--by", "smell") == 2 and "--by smell: crash, warning, verdict expected" in capsys.readouterr().err


@pytest.fixture
def by_script(tree, tmp_path, monkeypatch):
    """by_script(*words) -> exit code of a bisection by a packet script; .fails: {number of the change: why}."""
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    (tmp_path / "results").mkdir()
    script = tmp_path / "small.pkt"
    script.write_text("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n")

    class Bench(_revisions.ScriptBench):
        def observe(self, one):
            number = int(one.subject.split()[1])
            if isinstance(call.fails.get(number), Exception):
                raise call.fails[number]
            self.folder.mkdir(exist_ok=True)
            return _revisions.Observed(one, int(number in call.fails), 1, call.fails.get(number, ""))

    def call(*words):
        return cli.main(["bisect", str(script), "--tree", str(tree), "--good", "HEAD~9", "--bad", "main", *words])
    call.fails = {number: f"small.pkt:{number}: no packet" for number in range(4, 10)}
    monkeypatch.setattr(bisect_command, "ScriptBench", Bench)
    return call


def test_by_a_packet_script(by_script, tree, tmp_path, capsys):
    by_script.fails[2] = Unusable("does not build")
    assert by_script("--path", "tcp_mine.c") == 0
    said = capsys.readouterr().out
    assert "bad: failure in 1 of 1 runs: small.pkt:4: no packet\n" in said
    assert f"first bad commit: {git(tree, 'rev-parse', 'main~5')}\n  change 4\n" in said
    assert (tmp_path / "results/small-bisect-tree/bisect.csv").is_file()


@pytest.mark.parametrize("words, says", [
    (("--metric", "drops"), "--metric drops: a packet script passes or fails"),
    (("--by", "crash"), "--by crash: a packet script passes or fails"),
    (("--seeds", "3"), "--seeds 3: a packet script passes or fails"),
    (("--kernel", "6.1"), "--kernel 6.1: the kernels are those of --tree"),
    (("--module", "../x.c"), "--module ../x.c: a path inside --tree"),
    (("--module", "tcp_mine.c", "--cca", "reno"), "--cca: with --module")])
def test_what_a_packet_script_has_no_use_for(by_script, capsys, words, says):
    assert by_script(*words) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1


def test_a_scenario_needs_what_bad_revisions_are_known_by(tree, tmp_path, capsys):
    (tmp_path / "small.yaml").write_text(SMALL)
    assert cli.main(["bisect", str(tmp_path / "small.yaml"), "--tree", str(tree), "--good", "HEAD~9", "--bad",
                     "main"]) == 2
    assert "--metric or --by expected" in capsys.readouterr().err
