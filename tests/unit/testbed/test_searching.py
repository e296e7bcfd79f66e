# SPDX-License-Identifier: GPL-2.0-only
"""The search with made-up trials: a planted effect is found and made as simple as can be, only valid trials count."""
import os

import pytest

from testbed.runs import goals, searching
from testbed.runs.searching import MOST_SHRINKING, Search, Trial
from testbed.scenario.search_space import Candidate, Field, Setting, Space, Step, Steps

LINK = "a.b"
GOAL = goals.parse("utilisation < 50 %")
SPACE = Space(
    tuple(Field(name, tuple(map(str, range(1, 20)))) for name in ("loss", "buffer", "rate")),
    (Steps(LINK, 3, ("1 s", "2 s", "3 s"), {"delay": ("10 ms", "20 ms", "40 ms"), "rate": ("1 Mbit/s", "2 Mbit/s")}),))
#: the simplest that has the planted effect
SIMPLEST = Candidate((Setting("loss", "13"),), (Step(LINK, "delay", "1 s", "40 ms"),))


def planted(candidate):
    """Starves with losses of 13 at least and a long delay; each brings it a little nearer."""
    loss = max((int(one.value) for one in candidate.settings if one.field == "loss"), default=0)
    is_late = any(one.quantity == "delay" and one.value == "40 ms" for one in candidate.steps)
    return 10.0 if loss >= 13 and is_late else 100.0 - loss - 5 * is_late


class Bench:
    """Counts what is asked of it."""

    def __init__(self, value=planted, verdict=lambda candidate: "valid"):
        self.value, self.verdict, self.asked = value, verdict, []

    def __call__(self, candidates):
        self.asked += candidates
        return [Trial(one, self.verdict(one), self.value(one), run_id=str(len(self.asked))) for one in candidates]


@pytest.fixture
def search(tmp_path):
    """search(bench, most_trials=500, seed=1) -> (the search, its finding); .told: what it said."""
    def run(bench, most_trials=500, seed=1, goal=GOAL, is_over=lambda: False, database="examples", at_once=1):
        one = Search(SPACE, goal, bench, tmp_path / database, run.told.append, at_once)
        return one, one.run(seed, most_trials, is_over)
    run.told = []
    return run


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_planted_effect_is_found_and_made_as_simple_as_can_be(search, seed):
    bench = Bench()
    one, finding = search(bench, seed=seed)
    assert finding.trial.candidate == SIMPLEST and finding.trial.value == 10
    assert [(near.part, near.other, near.trial.value) for near in finding.neighbours] == [
        (SIMPLEST.settings[0], None, 95), (SIMPLEST.steps[0], None, 87),
        (SIMPLEST.settings[0], Setting("loss", "12"), 83),
        (SIMPLEST.steps[0], Step(LINK, "delay", "1 s", "20 ms"), 87)]
    assert len(bench.asked) == len(set(bench.asked)) == len(one.trials)     # nothing is carried out twice
    assert planted(finding.first.candidate) == 10 and finding.after < 500
    assert any("found" in line for line in search.told)


def test_the_same_seed_gives_the_same_trials(search):
    first, second = Bench(), Bench()
    search(first, most_trials=80)
    search(second, most_trials=80, database="others")
    assert first.asked == second.asked


def test_examples_are_read_in_an_order_that_no_file_system_decides(tmp_path, monkeypatch):
    """Hypothesis draws some of a list, so its order changes trials."""
    values, listdir = [bytes([value]) for value in range(20)], os.listdir
    examples = searching._examples(tmp_path, lambda: False)
    for value in values:
        examples.save(b"key", value)
    for is_backwards in (False, True):
        monkeypatch.setattr(os, "listdir", lambda path: sorted(listdir(path), reverse=is_backwards))
        assert [*examples.fetch(b"key")] == values


def test_nothing_is_written_of_what_is_guessed(tmp_path):
    searching._examples(tmp_path, lambda: False).save(b"key", b"value")
    guessed = searching._examples(tmp_path, lambda: True)
    guessed.save(b"key", b"other")
    guessed.move(b"key", b"elsewhere", b"value")
    guessed.delete(b"key", b"value")
    assert [*guessed.fetch(b"key")] == [b"value"] and not [*guessed.fetch(b"elsewhere")]


@pytest.mark.parametrize("at_once, value", [
    (2, planted), (2, lambda candidate: 100.0), (4, lambda candidate: 100.0), (5, planted),
    (5, lambda candidate: 100.0)])
def test_trials_side_by_side_are_the_same_trials(search, tmp_path, at_once, value):
    """The same trials in the same order, and the same finding; most of those that ran early were asked for."""
    alone, beside, batches = Bench(value), Bench(value), []

    def evaluate(candidates):
        batches.append(len(candidates))
        return beside(candidates)
    first, finding = search(alone, most_trials=150)
    second, same = search(evaluate, most_trials=150, database="others", at_once=at_once)
    outcome = [[(one.candidate, one.value) for one in some.trials.values()] for some in (first, second)]
    assert outcome[0] == outcome[1] and len(outcome[0]) > 50
    assert (finding and finding.trial.candidate) == (same and same.trial.candidate)
    assert sum(batches) == len(set(beside.asked)) == len(second.trials) + second.in_vain
    assert second.in_vain < len(second.trials) / 2 and len(batches) < 0.8 * len(outcome[0])
    # nor does what a fork guessed change what the database holds
    assert len({frozenset(path.name for path in (tmp_path / name).rglob("*")) for name in ("examples", "others")}) == 1


def test_the_first_finding_alone(search, tmp_path):
    _, finding = search(Bench())
    one = Search(SPACE, GOAL, Bench(), tmp_path / "others", lambda text: None, 3)
    first = one.run(1, 500, lambda: False, only_first=True)
    assert first.trial == first.first and first.trial.candidate == finding.first.candidate
    assert first.after == finding.after == len(one.trials) - 1


def test_a_budget_holds_for_trials_side_by_side(search):
    bench = Bench(lambda candidate: 100.0)
    one, finding = search(bench, most_trials=7, at_once=4)
    assert finding is None and len(one.trials) == 7 == len(bench.asked) - one.in_vain


def test_an_interruption_ends_the_search_and_not_its_fork(search):
    """It is told once, though forks of the search came by there."""
    bench = Bench(lambda candidate: 100.0)

    def evaluate(candidates):
        if len(bench.asked) > 20:
            raise KeyboardInterrupt
        return bench(candidates)
    with pytest.raises(KeyboardInterrupt):
        search(evaluate, at_once=4)
    assert 20 < len(bench.asked) <= 24


def test_the_next_search_begins_with_what_the_one_before_found(search):
    search(Bench())
    one, finding = search(Bench(), seed=99)
    assert finding.trial.candidate == SIMPLEST and finding.after == 0


@pytest.mark.parametrize("verdict", ["suspect", "invalid", "failed", "refused"])
def test_what_is_not_valid_is_no_finding(search, verdict):
    bench = Bench(verdict=lambda candidate: verdict if planted(candidate) < 50 else "valid")
    one, finding = search(bench, most_trials=400)
    assert finding is None and len(one.trials) == 400


def test_a_finding_is_made_simpler_through_valid_trials_only(search):
    """Without its delay it would do, too, but for the verdict."""
    def value(candidate):
        return 10.0 if any(one.field == "loss" and int(one.value) >= 13 for one in candidate.settings) else 90.0
    bench = Bench(value, lambda one: "valid" if any(step.quantity == "delay" for step in one.steps) else "invalid")
    _, finding = search(bench)
    assert finding.trial.candidate == Candidate((Setting("loss", "13"),), (Step(LINK, "delay", "1 s", "10 ms"),))
    assert [one.trial.verdict for one in finding.neighbours] == ["valid", "invalid", "valid"]


@pytest.mark.parametrize("most", [1, 7, 60, 130])
def test_the_budget_of_trials(search, most):
    one, finding = search(Bench(lambda candidate: 100.0), most_trials=most)
    assert finding is None and len(one.trials) == most


def test_the_budget_of_time(search):
    bench = Bench(lambda candidate: 100.0)
    one, finding = search(bench, most_trials=None, is_over=lambda: len(bench.asked) >= 25)
    assert finding is None and len(one.trials) == 25


def test_making_it_simpler_has_a_budget_of_its_own(search):
    """It goes on after the search's budget, and ends though each candidate would be simpler than the one before."""
    one, finding = search(Bench(), most_trials=500)
    assert len(one.trials) <= finding.after + 1 + MOST_SHRINKING + 50


def test_a_small_space_is_exhausted(tmp_path):
    bench = Bench(lambda candidate: 100.0)
    one = Search(Space((Field("loss", ("1", "2")),), ()), GOAL, bench, tmp_path, lambda text: None)
    assert one.run(1, None, lambda: False) is None
    assert set(bench.asked) == {Candidate(), Candidate((Setting("loss", "1"),)), Candidate((Setting("loss", "2"),))}


def test_nearly_all_of_a_space_is_tried(tmp_path):
    bench = Bench(lambda candidate: 100.0)
    space = Space((Field("loss", tuple(map(str, range(9)))), Field("rate", tuple(map(str, range(9))))), ())
    assert Search(space, GOAL, bench, tmp_path, lambda text: None).run(1, None, lambda: False) is None
    assert len(set(bench.asked)) == 100


def test_no_trial_is_valid(search):
    one, finding = search(Bench(verdict=lambda candidate: "suspect"), most_trials=30)
    assert finding is None and len(one.trials) == 30


def test_an_interruption_leaves_what_was_found(search, tmp_path):
    bench = Bench()

    def interrupted(candidates):
        found = bench(candidates)
        if any(planted(one) == 10 for one in bench.asked[:-1]):
            raise KeyboardInterrupt
        return found
    one = Search(SPACE, GOAL, interrupted, tmp_path / "examples", lambda text: None)
    with pytest.raises(KeyboardInterrupt):
        one.run(1, 500, lambda: False)
    finding = one.so_far()
    assert finding.trial == finding.first and finding.trial.value == 10
    _, finding = search(Bench())            # goes on from there
    assert finding.after == 0 and finding.trial.candidate == SIMPLEST


def test_goals_with_more_than(search):
    goal = goals.parse("timeouts >= 5")
    _, finding = search(Bench(lambda one: sum(int(part.value) for part in one.settings if part.field == "buffer") / 2),
                        goal=goal)
    assert finding.trial.candidate == Candidate((Setting("buffer", "10"),)) and finding.trial.value == 5


def test_a_value_that_was_not_reached_guides_nothing(search):
    bench = Bench(lambda candidate: float("inf") if planted(candidate) > 50 else 10.0)
    search(bench, most_trials=50)
    assert search.told and not any("inf" in line for line in search.told if "found" not in line)


def test_a_look_ahead_that_fails_is_told_once_and_costs_nothing_else(search, monkeypatch):
    """Trials then go on one at a time, and are the same."""
    def fails(_self, _candidate):
        raise RuntimeError("planted")
    one, found = search(Bench(), database="alone")
    search.told.clear()
    monkeypatch.setattr(Search, "_guess", fails)
    other, same = search(Bench(), database="side-by-side", at_once=4)
    assert list(other.trials) == list(one.trials) and same.trial == found.trial
    assert sum("one at a time" in line for line in search.told) == 1
