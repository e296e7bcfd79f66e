# SPDX-License-Identifier: GPL-2.0-only
"""`testbed search` before and after its runs: what is refused, how seeds and a reference count, what a finding's file
holds."""
import re
import types

import pytest

from testbed import cli
from testbed.cli import _search
from testbed.runs import campaign, goals
from testbed.runs.searching import Trial
from testbed.scenario import ccas, scenario, written
from testbed.scenario.search_space import Candidate, Setting

GOAL = goals.parse("utilisation < 50 %")
ONE = Candidate((Setting("loss", "0.1 %"),))


class Bench(_search.Bench):
    """Runs whose outcomes are made up: {(subject, seed): (verdict, value)}."""

    def __init__(self, outcomes, seeds=(1,), reference="reno", goal=GOAL):
        subjects = [types.SimpleNamespace(name=name) if name else None for name in ("mine", reference)]
        super().__init__(_search.Question(None, goal, "", *subjects, None), seeds, None, None, None, False)
        self.outcomes, self.ran = outcomes, []

    def _plans(self, candidate, subject, seeds):
        return [(subject.name, seed) for seed in seeds]

    def _trial(self, candidate, plan):
        self.ran.append(plan)
        verdict, value = self.outcomes[plan]
        return Trial(candidate, verdict, value)


@pytest.fixture(autouse=True)
def _nothing_runs(monkeypatch):
    monkeypatch.setattr(campaign, "carry_out", lambda *arguments: {})


@pytest.mark.parametrize("outcomes, verdict, value, reference", [
    ({("mine", 1): ("valid", 60)}, "valid", 60, None),
    ({("mine", 1): ("suspect", 40)}, "suspect", 40, None),
    ({("mine", 1): ("valid", 40), ("reno", 1): ("valid", 90)}, "valid", 40, 90),
    ({("mine", 1): ("valid", 40), ("reno", 1): ("valid", 45)}, "shared", 40, 45),
    ({("mine", 1): ("valid", 40), ("reno", 1): ("suspect", 90)}, "suspect", 40, None),
])
def test_a_reference_runs_where_the_goal_is_met(outcomes, verdict, value, reference):
    bench = Bench(outcomes)
    trial, = bench([ONE])
    assert (trial.verdict, trial.value, trial.reference) == (verdict, value, reference)
    assert bench.ran == list(outcomes)


def test_a_robust_finding_meets_the_goal_with_each_seed_and_the_reference_with_none():
    mine = {("mine", seed): ("valid", value) for seed, value in ((1, 40), (2, 49), (3, 30))}
    trial, = Bench({**mine, **{("reno", seed): ("valid", value) for seed, value in ((1, 90), (2, 60), (3, 70))}},
                   (1, 2, 3))([ONE])
    assert (trial.verdict, trial.value, trial.reference) == ("valid", 49, 60)       # those that say least for it
    trial, = Bench({**mine, **{("reno", seed): ("valid", value) for seed, value in ((1, 90), (2, 45), (3, 70))}},
                   (1, 2, 3))([ONE])
    assert (trial.verdict, trial.reference) == ("shared", 45)
    trial, = Bench({**mine, ("mine", 3): ("valid", 51)}, (1, 2, 3))([ONE])
    assert (trial.verdict, trial.value) == ("valid", 51) and not trial.meets(GOAL)
    trial, = Bench({**mine, ("mine", 3): ("invalid", 10)}, (1, 2, 3))([ONE])
    assert (trial.verdict, trial.value) == ("invalid", 10)


def test_of_a_goal_with_more_than_the_smallest_value_says_least():
    goal = goals.parse("timeouts >= 3")
    trial, = Bench({("mine", 1): ("valid", 9), ("mine", 2): ("valid", 2)}, (1, 2), None, goal)([ONE])
    assert trial.value == 2


HALF = goals.parse("utilisation < 50 % of reno")


def test_a_goal_that_is_a_share_of_a_reference():
    assert HALF.text == "utilisation < 50 % of reno" and HALF.absolute(40.5).text == "utilisation < 40.5 %"
    assert goals.parse("queueing_delay_p95:right_to_left >= 300 % of cubic").text == \
        "queueing_delay_p95:right_to_left >= 300 % of cubic"
    assert goals.parse("utilisation < 50 %").absolute(None).text == "utilisation < 50 %"


@pytest.mark.parametrize("mine, reno, verdict, value", [
    (("valid", 40), ("valid", 90), "valid", 100 * 40 / 90),
    (("valid", 80), ("valid", 80), "valid", 100),
    (("suspect", 40), ("valid", 90), "suspect", None),
    (("valid", 40), ("invalid", 90), "invalid", None),
    (("valid", 40), ("valid", 0), "valid", None),           # there is no share of nothing
])
def test_the_reference_runs_in_each_network(mine, reno, verdict, value):
    bench = Bench({("mine", 1): mine, ("reno", 1): reno}, goal=HALF)
    trial, = bench([ONE])
    assert (trial.verdict, trial.value) == (verdict, pytest.approx(value)) and bench.ran == [("mine", 1), ("reno", 1)]
    assert trial.meets(HALF) == (value is not None and value < 50)
    if value is not None:
        assert (trial.own, trial.reference, trial.limit) == (mine[1], reno[1], reno[1] / 2)


def test_a_robust_share_is_that_of_the_worst_seed_and_its_limit_that_of_the_mean():
    values = {("mine", 1): 40, ("mine", 2): 30, ("mine", 3): 20, ("reno", 1): 90, ("reno", 2): 100, ("reno", 3): 80}
    bench = Bench({plan: ("valid", value) for plan, value in values.items()}, (1, 2, 3), goal=HALF)
    trial, = bench([ONE])
    assert (trial.value, trial.own, trial.reference, trial.limit) == (pytest.approx(100 * 40 / 90), 40, 90, 45)


@pytest.mark.parametrize("words, says", [
    (["--goal", "utilisation"], "--goal utilisation: METRIC"),
    (["--goal", "utilization < 50 %"], "no metric utilization; close to it are utilisation"),
    (["--goal", "utilisation == 50 %"], "== says not"),
    (["--goal", "utilisation < 50 ms"], "utilisation is in %, not in ms"),
    (["--goal", "utilisation < 0 % of reno"], "a share above 0"),
    (["--goal", "utilisation < 50 % of nobody"], "nobody"),
    (["--goal", "utilisation < 50 % of cubic"], "--goal utilisation < 50 % of cubic: one other"),
    (["--goal", "utilisation < 50 % of reno", "--against", "bbr"], "--against bbr: the goal compares with reno"),
    (["--cca", "reno,cubic"], "--cca reno,cubic: one expected"),
    (["--against", "reno,bbr"], "--against reno,bbr: one other"),
    (["--against", "cubic"], "--against cubic: one other"),
    (["--set", "search.fields.loss=[200 %]"], "--set search.fields.loss: loss = 200 %: .*loss: must be at most 100 %"),
    (["--set", "search.fields={loss: [0 %]}"], "no value but the one"),
    (["--set", "search.fields.topology.central.nothing=[1]"], "nothing: unknown field"),
    (["--set", "search.steps={topology.central.nowhere: {at: [2 s], rate: [1 Mbit/s]}}"], "nowhere: unknown field"),
    (["--set", "search.steps={topology.central.right_to_left: {at: [20 s], rate: [1 Mbit/s]}}"],
     "--set search.steps: .* from 20 s on: .*20 s is not before the end at 10 s"),
])
def test_what_makes_no_sense_is_refused_before_anything_runs(capsys, words, says):
    usual = {"--cca": "cubic", "--goal": "utilisation < 50 %"}
    given = {**usual, **dict(zip(words[::2], words[1::2]))}
    assert cli.main(["search", "search-one-flow", *(word for pair in given.items() for word in pair)]) == 2
    error = capsys.readouterr().err
    assert re.search(says, error), error
    assert error.count("\n") == 1


def test_a_scenario_without_the_section(capsys):
    assert cli.main(["search", "lone-flow", "--goal", "utilisation < 50 %"]) == 2
    assert "section 'search' is missing" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0 s", "soon", "5", "3 Mbit/s"])
def test_a_budget_is_a_time(capsys, text):
    with pytest.raises(SystemExit):
        cli.main(["search", "search-one-flow", "--goal", "utilisation < 50 %", "--budget", text])
    assert "a time such as 10min expected" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["search-one-flow", "search-two-flows"])
def test_a_finding_is_a_file_that_decides_the_same_run(name, tmp_path):
    base = scenario.load(name)
    for _, candidate in base.search.single_parts():
        one = scenario.load(name, settings=candidate.options())
        path = tmp_path / "found.yaml"
        text = written.text(one, "found-x", "x", ["cubic"], [GOAL.text])
        path.write_text(text)
        again = scenario.load(str(path))
        assert again.resolved().content() == one.resolved().content()
        assert len(text) < 1200 and again.expect == (GOAL.absolute(None),) and again.default_ccas == ["cubic"]
        assert again.search is None and not again.choices
    assert ccas.parse(again.default_ccas[0])[0].name == "cubic"
