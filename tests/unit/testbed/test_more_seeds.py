# SPDX-License-Identifier: GPL-2.0-only
"""Seeds that an assessment adds by itself: to what, how many, and how often what it says is wrong."""
import argparse
import itertools

import numpy as np
import pytest

from analysis.compare import assessment
from analysis.compare.assessment import FAILS, MEETS, SEEDS, Assessed, OfSeed
from analysis.pages import assessment_report
from analysis.read.parts import Runs
from testbed import cli
from testbed.cli import _experiment, _more_seeds, _suite_pages, run
from testbed.core.assessed import Criterion, CriterionTest, Threshold
from testbed.core.errors import ScenarioError, UsageError
from testbed.scenario import suites

DELAY = CriterionTest("delay", "delay", "queueing_delay_mean", "all", "value", False, Threshold(20, 40, "."))
#: the first is never decided, the second with 15 seeds
SPREAD = {"undecided": itertools.cycle([5, 32]), "close": itertools.cycle([14, 22, 16, 20, 18]),
          "fails": itertools.cycle([60, 61, 59]), "meets": itertools.cycle([10, 11, 9])}
VALUES = {name: list(itertools.islice(values, 100)) for name, values in SPREAD.items()}


def finding(values, asked=None):
    seeds = [OfSeed(seed, value, [value]) for seed, value in enumerate(values, start=1)]
    return assessment._judged(DELAY, {}, {}, "", "ms", {}, seeds, asked or len(values))


def assessed(name, *findings):
    one = Assessed(Criterion(name, name, "5", "", "", "", [DELAY], []), "mine", [], Runs(None, (), ""))
    vars(one)["alone"] = list(findings)
    return one


def added(first, most, values=None):
    """What is run after the first seeds: [{criterion: seeds}]"""
    counts, asked = dict(first), []

    def carry_out(more):
        asked.append(dict(more))
        counts.update(more)
    _more_seeds.until_decided(first, most, 3, lambda: [
        assessed(name, finding((values or VALUES[name])[:count])) for name, count in counts.items()], carry_out)
    return asked


def test_seeds_are_added_where_a_verdict_needs_them_and_nowhere_else():
    assert [finding(VALUES["close"][:count]).word for count in (5, 10, 15)] == [SEEDS, SEEDS, MEETS]
    assert finding(VALUES["fails"][:5]).word == FAILS and finding(VALUES["meets"][:5]).word == MEETS
    assert added({"close": 5, "fails": 5, "meets": 5}, 45) == [{"close": 10}, {"close": 15}]


def test_no_more_are_added_than_there_may_be(capsys):
    assert finding(VALUES["undecided"][:45]).word == SEEDS
    assert added({"undecided": 15}, 45) == [{"undecided": 30}, {"undecided": 45}]
    assert added({"undecided": 5, "close": 5}, 12) == [{"undecided": 10, "close": 10}, {"undecided": 12, "close": 12}]
    assert added({"undecided": 15}, 15) == []
    said = capsys.readouterr().err.splitlines()[0]
    assert said.startswith("undecided: seeds 16 to 30, as it needs more; delay ") and "seeds would decide" in said


def test_where_more_seeds_do_not_help_none_are_added():
    """Of fifteen runs that are one run, whatever their seeds, one counts."""
    one_run = assessed("same", finding([30], asked=15))
    assert one_run.word == SEEDS and one_run.more_seeds is None
    failed = assessed("failed", finding([14, 22, 16, 20], asked=5))
    assert failed.word == SEEDS and failed.more_seeds


@pytest.mark.parametrize("options, most", [
    ({}, 45), ({"version": "quick"}, 0), ({"seeds": "20"}, 0), ({"version": "quick", "most_seeds": 14}, 14),
    ({"seeds": "20", "most_seeds": 25}, 25)])
def test_how_many_there_may_be(options, most):
    asked = argparse.Namespace(**{"version": "", "seeds": None, "most_seeds": None, **options})
    assert _more_seeds.limit(suites.load("rfc9743"), asked) == most


@pytest.mark.parametrize("suite, options, said", [
    ("iccrg", {"most_seeds": 20}, "--most-seeds: suite iccrg has no criteria"),
    ("rfc9743", {"most_seeds": 20, "seeds": "3,5"}, "--most-seeds 20: --seeds with one number expected, not 3,5"),
    ("rfc9743", {"most_seeds": 20, "seeds": "21"}, "--most-seeds 20: 21 seeds are asked for")])
def test_what_makes_no_sense(suite, options, said):
    asked = argparse.Namespace(**{"version": "", "seeds": None, **options})
    with pytest.raises(UsageError, match=said):
        _more_seeds.limit(suites.load(suite), asked)


def test_a_suite_without_criteria_has_no_limit(tmp_path):
    (tmp_path / "few.yaml").write_text("title: T\nmost_seeds: 9\nparts: [{name: a, scenario: long-flows}]\n")
    with pytest.raises(ScenarioError, match="most_seeds: only with criteria"):
        suites.read(tmp_path / "few.yaml")


def test_how_often_criteria_are_judged():
    assert [_more_seeds.looks(*asked) for asked in (([15], 45), ([15, 5], 14), ([15], 0), ([], 45))] == [3, 3, 1, 1]


def test_p_counts_as_often_as_it_is_looked_at():
    near = [40, 41.5, 42.5, 43.5, 45]                   # p is 0.0425
    once, thrice = assessed("near", finding(near)), assessed("near", finding(near))
    assessment.correct([once])
    assessment.correct([thrice], 3)
    assert once.word == FAILS and thrice.word == SEEDS
    assert thrice.findings[0].p_holm == pytest.approx(3 * once.findings[0].p_holm)
    assert "1 findings, each judged up to 3 times" in thrice.findings[0].why
    assessment.correct([thrice])
    assert thrice.word == FAILS, "p is corrected again after each round of seeds"


def test_how_often_meets_is_said_of_a_mean_on_the_threshold():
    """2.5 % with as many seeds as at first, 5 % with two times as many again: docs/howto/assess.md"""
    random = np.random.default_rng(1)
    draws, met = 1500, {"first": 0, "added": 0}
    for _ in range(draws):
        values = random.normal(20, 6, 45)
        words = []
        for count in (15, 30, 45):
            words.append(finding(values[:count]).word)
            if words[-1] != SEEDS:
                break
        met["first"] += words[0] == MEETS
        met["added"] += words[-1] == MEETS
    assert 100 * met["first"] / draws == pytest.approx(2.5, abs=1.5)
    assert 100 * met["added"] / draws == pytest.approx(5, abs=1.7)
    assert met["added"] > met["first"]


def test_an_assessment_runs_more_seeds_by_itself(tmp_path, monkeypatch, capsys):
    """The page is of all of them, and the reports of what has enough are not made again."""
    monkeypatch.setenv("TESTBED_RESULTS", str(tmp_path))
    ran, pages = [], []

    def carry_out(self, levels, among_others, say_how_long):
        ran.append((self.arguments.scenario, self.arguments.seeds))
        return _experiment.Done(tmp_path / self.arguments.scenario, ["bbr", "reno", "cubic"], {}, {}, ["1"])

    def assessments(ran_suite):
        counts = {name: int(seeds) for name, seeds in ran}
        return [assessed("collapse", finding(VALUES["undecided"][:counts["lone-flow"]])),
                assessed("feedback-lost", finding(VALUES["meets"][:counts["changing-path"]]))]
    monkeypatch.setattr(_experiment.Asked, "carry_out", carry_out)
    monkeypatch.setattr(run, "conclude", lambda arguments, done: 0)
    monkeypatch.setattr(_suite_pages, "assessments", assessments)
    monkeypatch.setattr(assessment_report, "write", lambda *arguments: pages.append(arguments) or tmp_path / "page")
    words = ["assess", "bbr", "--only", "collapse,feedback-lost"]
    assert cli.main([*words, "--quick"]) == 0
    assert ran == [("lone-flow", "5"), ("changing-path", "5")] and pages.pop()[-1] == 1
    ran.clear()
    assert cli.main(words) == 0
    assert ran == [("lone-flow", "15"), ("changing-path", "15"), ("lone-flow", "30"), ("lone-flow", "45")]
    assert pages.pop()[-1] == 3
    ran.clear()
    assert cli.main([*words, "--quick", "--most-seeds", "12"]) == 0
    assert [seeds for name, seeds in ran if name == "lone-flow"] == ["5", "10", "12"]
    assert pages[-1][2].command[-2:] == ["--most-seeds", "12"]
    assert "needs more seeds" in capsys.readouterr().out
