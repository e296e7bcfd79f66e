# SPDX-License-Identifier: GPL-2.0-only
"""`testbed run --precision`: which seeds are added, and what is said."""
import argparse

import pytest

from analysis.read.experiment import Experiment, Row
from analysis.stats import precision
from analysis.stats.precision import Reached
from testbed.cli import _precision
from testbed.core.errors import UsageError
from tests.unit.arguments import parsed

CUBIC = Row("cubic", (), "cubic")


class Plans(list):
    """Seeds stand for plans here; `failures` are those of the stages, in turn."""

    def __init__(self, seeds):
        super().__init__(argparse.Namespace(seed=seed, id=f"{seed:016x}") for seed in seeds)
        self.failures = []

    def more(self, seeds):
        self.extend(Plans(seeds))
        return self.failures.pop(0) if self.failures else {}


@pytest.fixture
def refine(monkeypatch, tmp_path):
    """refine(plans, needed per stage) -> failures, with judge() answering what each stage needs."""
    def call(plans, needed):
        def judge(experiment, target, wanted, ids, of):
            assert ids == {plan.id for plan in plans} and (target, wanted) == (0.05, ["goodput", "drops"])
            return [Reached(CUBIC, f"m{place}", "all", len(plans), 0.1, one) for place, one in enumerate(needed.pop(0))]
        monkeypatch.setattr(precision, "judge", judge)
        monkeypatch.setattr(Experiment, "__init__", lambda self, folder: None)
        arguments = parsed("run", "small", "--precision", "5%", "--precision-metrics", "goodput, drops")
        return _precision.refine(tmp_path, arguments, plans, plans.more)
    return call


def seeds(plans):
    return [plan.seed for plan in plans]


def test_until_it_is_enough(refine, capsys):
    plans = Plans([1, 2])
    assert refine(plans, [[5, 5], [8, 5], [8, 5]]) == {}
    assert seeds(plans) == [1, 2, 3, 4, 5, 6, 7, 8]
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "precision 5 %: 3 more seeds, 3 to 5; m0, cubic: ± 10 % with 2 seeds; about 5 are needed"
    assert said[-1] == "precision 5 % reached with 8 seeds"


def test_seeds_after_those_that_were_named(refine):
    plans = Plans([4, 70, 5, 6, 7])
    refine(plans, [[6], [6]])
    assert seeds(plans) == [4, 70, 5, 6, 7, 71]


def test_until_there_are_as_many_as_there_may_be(refine, capsys):
    plans = Plans(range(1, 6))
    assert refine(plans, [[100]] * 4 + [[100] * 9]) == {}
    assert len(plans) == _precision.MOST_SEEDS
    said = capsys.readouterr().err
    assert "precision 5 % not reached with 30 seeds:\n  m0, cubic: ± 10 % with 30 seeds; about 100 are needed" in said


def test_many_that_are_too_wide_are_counted(refine, capsys):
    plans = Plans(range(1, 31))
    refine(plans, [[100] * 9])
    assert "and 3 more" in capsys.readouterr().err and len(plans) == 30


def test_a_failure_ends_it(refine, capsys):
    plans = Plans([1])
    plans.failures = [{"cubic-seed2": "no route"}]
    assert refine(plans, [[5]]) == {"cubic-seed2": "no route"}
    assert len(plans) == 5 and "no more seeds are added" in capsys.readouterr().err


@pytest.mark.parametrize("given, says", [
    (["--most-seeds", 7], "--most-seeds: says nothing without --precision"),
    (["--precision-metrics", "goodput"], "--precision-metrics: says nothing without"),
    (["--precision", "5%", "--most-seeds", 2], "--most-seeds 2: 3 seeds are asked for"),
    (["--precision", "5%", "--precision-metrics", " , ,"], "--precision-metrics: names of metrics")])
def test_options_that_make_no_sense(given, says):
    with pytest.raises(UsageError, match=says):
        _precision.check(parsed("run", "small", *given), [1, 2, 3])
