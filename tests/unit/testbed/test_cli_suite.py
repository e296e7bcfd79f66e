# SPDX-License-Identifier: GPL-2.0-only
"""`testbed suite`: which commands, in which order, what is left, and what the report is told."""
import io
import json

import pytest

from testbed import cli
from testbed.cli import _estimates, _experiment, _runs, run
from testbed.core import errors
from testbed.runs.campaign import Ready
from testbed.scenario import ccas
from traffic.quic import programs

SUITE = """\
title: Pair
source: a draft
baseline: sack
ccas: [cubic]
seeds: 3
quick: {seeds: 2}
parts:
  - name: one
    section: 4.2
    scenario: access-link
    sweep: {load: [60, 85]}
    quick: {sweep: {load: [60]}}
    speed: 10
    outputs: &outputs [{metric: drop_rate, scope: right_to_left, label: drops, better: lower}]
  - {name: cell, section: 4.2, not_run: no cell}
  - {name: two, section: 5, scenario: rtt-fairness, outputs: *outputs}
"""


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


@pytest.fixture
def pair(tmp_path):
    path = tmp_path / "pair.yaml"
    path.write_text(SUITE)
    return str(path)


@pytest.fixture
def carried_out(monkeypatch, results):
    """[(scenario, cca, seeds, sweeps)] of what was run; `.problems`: {scenario: what it raises}."""

    class Calls(list):
        problems: dict = {}

    calls = Calls()

    def carry_out(self, engine, among_others, say_how_long):
        asked = self.arguments
        calls.append((asked.scenario, asked.cca, asked.seeds, asked.sweeps))
        if asked.scenario in calls.problems:
            raise calls.problems[asked.scenario]
        return _experiment.Done(results / f"of-{asked.scenario}", ["sack", "cubic"], {}, {}, ["1", "2"])

    monkeypatch.setattr(_experiment.Asked, "carry_out", carry_out)
    monkeypatch.setattr(run, "conclude", lambda arguments, done: 0)
    return calls


def described(results, name):
    return json.loads((results / name / "suite.json").read_text())


def test_parts_in_their_order_with_the_baseline_first(carried_out, pair, results, capsys):
    assert cli.main(["suite", "run", pair, "--quick"]) == 0
    assert carried_out == [("access-link", "sack,cubic", "2", ["load=60"]), ("rtt-fairness", "sack,cubic", "2", [])]
    said = capsys.readouterr()
    assert "== part 1 of 2: bin/testbed run access-link --quick --sweep load=60 --cca sack,cubic --seeds 2" in said.err
    assert "cubic against sack: nothing to compare" in said.out
    found = described(results, "suite-pair-quick-cubic")
    assert (found["baseline"], found["subjects"]) == ("sack", ["cubic"])
    assert [(part["name"], part["experiment"]) for part in found["parts"]] == [
        ("one", "of-access-link"), ("cell", None), ("two", "of-rtt-fairness")]
    assert len(found["parts"][0]["runs"]) == 4 and len(set(found["parts"][0]["runs"])) == 4
    assert (results / "index.html").exists()


def test_the_full_version_with_others_and_only_some_parts(carried_out, pair, results):
    assert cli.main(["suite", "run", pair, "--cca", "bbr,sack,vegas", "--seeds", "5,7", "--only", "one, cell"]) == 0
    assert carried_out == [("access-link", "sack,bbr,sack,vegas", "5,7", ["load=60,85"])]
    found = described(results, "suite-pair-bbr-vegas-only-cell-one")
    assert found["subjects"] == ["bbr", "vegas"] and found["left_out"] == ["two"]
    assert found["command"] == ["bin/testbed", "suite", "run", pair, "--cca", "bbr,sack,vegas", "--seeds", "5,7",
                                "--only", "one, cell"]
    assert len(found["parts"][0]["runs"]) == 2 * 3 * 2


def test_another_baseline(carried_out, pair, results):
    assert cli.main(["suite", "run", pair, "--baseline", "reno", "--only", "two"]) == 0
    assert carried_out == [("rtt-fairness", "reno,cubic", "3", [])]
    found = described(results, "suite-pair-cubic-against-reno-only-two")
    assert found["baseline"] == "reno" and found["command"][-4:] == ["--baseline", "reno", "--only", "two"]


def test_the_list_says_what_runs_take_and_runs_nothing(carried_out, pair, capsys):
    """A run of 60 s at ten times real time takes 6 s, and 1 s to begin."""
    assert cli.main(["suite", "list", pair, "--quick", "--jobs", "2", "--only", "one,cell"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "bin/testbed run access-link --quick --sweep load=60 --cca sack,cubic --seeds 2 --jobs 2    "
        "4 of 4 runs, about 14.0 s",
        "cell: not run: no cell", "all: 4 of 4 runs, about 14.0 s"]
    assert carried_out == []


def test_parts_run_where_the_suite_is_told_to(pair, capsys):
    assert cli.main(["suite", "list", pair, "--quick", "--cluster", "local:2", "--only", "one"]) == 0
    assert "--seeds 2 --cluster local:2    4 of 4 runs" in capsys.readouterr().out
    assert cli.main(["suite", "run", pair, "--cluster", "nosuch:x"]) == 2
    assert "--cluster nosuch:x: local, local:N" in capsys.readouterr().err
    assert cli.main(["suite", "run", "bbr-ietf", "--quick", "--cluster", "local:2"]) == 2
    assert "its cases run on this machine" in capsys.readouterr().err


def test_the_list_counts_a_run_once_that_two_parts_have(carried_out, tmp_path, capsys):
    path = tmp_path / "twice.yaml"
    path.write_text("title: Twice\nsource: none\nseeds: 2\nparts:\n"
                    "  - {name: one, scenario: rtt-fairness, ccas: [cubic]}\n"
                    "  - {name: two, scenario: rtt-fairness, ccas: [cubic, reno]}\n")
    assert cli.main(["suite", "list", str(path)]) == 0
    one, two, total = capsys.readouterr().out.splitlines()
    assert " 2 of 2 runs" in one and " 4 of 4 runs" in two and total.startswith("all: 4 of 4 runs")


def test_the_list_builds_no_kernel(carried_out, pair, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path / "cache"))
    assert cli.main(["suite", "list", pair, "--only", "two", "--kernel", "6.12"]) == 0
    line, total = capsys.readouterr().out.splitlines()
    assert "--kernel 6.12    the guest kernel is not built yet" in line and total.startswith("all: the guest kernel is")
    # what apt has said may be remembered
    assert {path.name for path in (tmp_path / "cache").glob("*")} <= {"apt.json"} and carried_out == []


def test_a_part_that_fails_keeps_no_other_from_running_and_the_report_says_so(carried_out, pair, results, capsys):
    carried_out.problems = {"access-link": errors.RunFailed("3 of 4 runs failed <b>")}
    assert cli.main(["suite", "run", pair]) == 4
    assert [name for name, *_ in carried_out] == ["access-link", "rtt-fairness"]
    assert "1 of 2 parts failed: one" in capsys.readouterr().err
    page = (results / "suite-pair-cubic" / "index.html").read_text()
    assert "3 of 4 runs failed &lt;b&gt;" in page and "banner failed" in page


def test_results_that_are_not_as_expected_have_a_code_of_their_own(carried_out, pair, capsys):
    carried_out.problems = {"access-link": errors.ExpectationFailed("of 2 expectations, 1 not met")}
    assert cli.main(["suite", "run", pair]) == 6 and "1 of 2 parts failed: one" in capsys.readouterr().err
    carried_out.problems["rtt-fairness"] = errors.RunFailed("1 of 3 runs failed")
    assert cli.main(["suite", "run", pair]) == 4


def test_a_part_that_cannot_be_planned_is_told_and_the_others_are_run(carried_out, pair, tmp_path, results, capsys):
    (tmp_path / "pair.yaml").write_text(SUITE.replace("load: [60, 85]", "load: [60, 99]"))
    assert cli.main(["suite", "list", pair]) == 2
    assert "one: cannot be run: " in capsys.readouterr().out
    assert cli.main(["suite", "run", pair]) == 4
    assert [name for name, *_ in carried_out] == ["rtt-fairness"]
    assert "load 99: access-link has load 60, 85, 110" in described(results, "suite-pair-cubic")["parts"][0]["problem"]


@pytest.mark.parametrize("old, new, says", [
    ("load: [60, 85]", "load: [60, 99]", "11: parts.1.sweep.load: load 99: access-link has load 60"),
    ("load: [60]", "load: [61]", "12: parts.1.quick.sweep.load: load 61: access-link has load 60"),
    ("sweep: {load: [60]}", "set: {topology.central.rate: 1 Mbt/s}",
     "12: parts.1.quick.set.topology.central.rate: unknown unit 'Mbt/s'"),
    ("sweep: {load: [60, 85]}", "set: {topology.central.rate: 1 Mbt/s}",
     "11: parts.1.set.topology.central.rate: unknown unit 'Mbt/s'"),
    ("sweep: {load: [60, 85]}", "choices: {delay: 4}", "11: parts.1.choices.delay: delay 4: scenario access-link has "),
    ("scenario: rtt-fairness", "scenario: rtt-fairness, set: {traffic: 5}", "16: parts.3.set.traffic: ")])
def test_what_a_part_asks_in_vain_is_told_once_with_file_line_and_field(carried_out, pair, tmp_path, capsys, old, new,
                                                                        says):
    (tmp_path / "pair.yaml").write_text(SUITE.replace(old, new))
    version = ["--quick"] if ".quick." in says else []
    assert cli.main(["suite", "list", pair, *version]) == 2
    said = capsys.readouterr()
    assert said.out.count(f"{pair}:{says}") == 1 and says not in said.err
    assert cli.main(["suite", "run", pair, *version]) == 4
    assert capsys.readouterr().err.count(f"{pair}:{says}") == 1


def test_a_suite_of_which_nothing_can_be_run(carried_out, pair, results, capsys):
    assert cli.main(["suite", "run", pair, "--only", "cell"]) == 2
    assert "nothing to run: cell: no cell" in capsys.readouterr().err and not results.exists()
    assert cli.main(["suite", "list", pair, "--only", "cell"]) == 0


@pytest.mark.parametrize("answer, options, code", [("n\n", [], 1), ("y\n", [], 0), ("", ["--yes"], 0)])
def test_a_long_suite_asks_on_a_terminal(carried_out, pair, monkeypatch, capsys, answer, options, code):
    monkeypatch.setattr(_estimates, "_ASK_FROM_S", 0)
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert cli.main(["suite", "run", pair, *options]) == code
    assert bool(carried_out) == (code == 0)


def test_an_interruption_ends_it_without_a_report(carried_out, pair, results, capsys):
    carried_out.problems = {"rtt-fairness": KeyboardInterrupt()}
    assert cli.main(["suite", "run", pair]) == 130
    assert len(carried_out) == 2 and not list(results.glob("suite-*"))
    assert "the same command goes on from here" in capsys.readouterr().err


def test_nothing_runs_with_a_module_that_is_broken(carried_out, pair, monkeypatch, capsys):
    monkeypatch.setattr(_runs, "prepare", lambda *_: Ready(ccas.parse("sack"), {"mine": "does not compile"}))
    assert cli.main(["suite", "run", pair]) == 4
    assert "nothing was run, as these cannot be used: mine" in capsys.readouterr().err and carried_out == []


@pytest.mark.parametrize("words, says", [
    (["--cca", "sack"], "--cca: a congestion control besides the baseline, sack, expected"),
    (["--cca", "nosuch/x"], "nosuch/x"),
    (["--only", "three"], "--only three: no such part of pair; there are: one, cell, two"),
    (["--only", ","], "--only: names of parts expected; there are: one, cell, two"),
    (["--seeds", "0"], "--seeds 0: numbers from 1 to 2^63 - 1 expected")])
def test_what_makes_no_sense(carried_out, pair, words, says, capsys):
    assert cli.main(["suite", "run", pair, *words]) == 2
    assert says in capsys.readouterr().err and carried_out == []


def test_a_suite_that_is_not_there(capsys):
    assert cli.main(["suite", "run", "nosuch"]) == 2
    assert "no suite 'nosuch'; there are: all, bbr-ietf, iccrg" in capsys.readouterr().err


@pytest.mark.parametrize("option, value", [("--baseline", "cubic,reno"), ("--kernel", "6.1,6.12")])
def test_one_baseline_and_one_kernel(capsys, option, value):
    assert cli.main(["suite", "list", "iccrg", option, value]) == 2
    assert f"{option} {value}: one " in capsys.readouterr().err


def test_a_suite_is_run_where_no_verb_is_given(capsys):
    assert cli.main(["suite", "published", "--only", "nosuch"]) == 2
    assert "--only nosuch: no such part of published" in capsys.readouterr().err
    assert cli.main(["suite", "published", "--quick", "--cca", "cubic"]) == 2
    assert "--cca: suite published has congestion controls of its own" in capsys.readouterr().err
    assert cli.main(["suite", "publshed"]) == 2
    assert "list, run or a suite expected; did you mean published?" in capsys.readouterr().err


def test_quic_stacks_that_cannot_be_made_are_left_out(carried_out, tmp_path, monkeypatch, capsys):
    """Of a sweep only those; a part that has no other is not run. Others are not touched."""
    suite = tmp_path / "stacks.yaml"
    suite.write_text("""\
title: Stacks
description: Some can be made, some cannot.
parts:
  - {name: swept, scenario: quic, sweep: {traffic.quic.stack: ["quinn:reno", "ngtcp2:reno"]}}
  - {name: all-of-a-sweep, scenario: quic, sweep: {traffic.quic.stack: ["quinn:reno"]}}
  - {name: fixed, scenario: quic-beside-tcp}
  - {name: tcp, scenario: rtt-fairness}
""")
    monkeypatch.setattr(programs, "is_built", lambda name: False)
    monkeypatch.setattr(programs, "missing", lambda name: "no cargo" if name == "quinn" else "")
    assert cli.main(["suite", "list", str(suite), "--quick"]) == 0
    said = capsys.readouterr()
    assert said.err == "quinn is left out: no cargo\n"
    swept, whole, fixed, tcp, _ = said.out.splitlines()
    assert "ngtcp2:reno" in swept and "quinn" not in swept and tcp.startswith("bin/testbed run rtt-fairness")
    assert whole == "all-of-a-sweep: not run: no program of quinn: make quic"
    assert fixed == "fixed: not run: no program of quinn: make quic"


@pytest.mark.parametrize("page, said", [
    ("nosuch", "no page 'nosuch'; there are: stacks"), ("regress", "no page 'regress'")])
def test_a_page_that_there_is_not_is_told_before_anything_runs(carried_out, tmp_path, capsys, page, said):
    suite = tmp_path / "paged.yaml"
    suite.write_text(f"title: T\ndescription: D.\npage: {page}\nparts:\n  - {{name: tcp, scenario: rtt-fairness}}\n")
    assert cli.main(["suite", "run", str(suite), "--quick"]) != 0
    assert said in capsys.readouterr().err and carried_out == []
