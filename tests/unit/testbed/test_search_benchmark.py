# SPDX-License-Identifier: GPL-2.0-only
"""The benchmark of `testbed search` against a random search, with made-up trials."""
import itertools
import math
import random
import types

import pytest

from benchmarks import search as benchmark
from benchmarks.search import Outcome
from testbed.runs import goals
from testbed.runs.searching import Trial
from testbed.scenario.search_space import Candidate, Field, Setting, Space, Step, Steps

GOAL = goals.parse("utilisation < 50 %")
LINK = "a.b"
SPACE = Space((Field("loss", ("1 %", "2 %")),),
              (Steps(LINK, 2, ("1 s", "2 s"), {"rate": ("1 Mbit/s",), "delay": ("10 ms", "20 ms")}),))


def candidate(loss):
    return Candidate((Setting("loss", f"{loss} %"),))


def trial(value, verdict="valid"):
    return Trial(Candidate(), verdict, value)


def ready(value, verdict="valid", at_once=1, space=SPACE):
    """What the searches get; .asked: batches of candidates."""
    asked = []

    def bench(candidates):
        asked.append(candidates)
        return [Trial(one, verdict, value(one)) for one in candidates]
    question = types.SimpleNamespace(goal=GOAL)
    return types.SimpleNamespace(space=space, question=question, bench=bench, at_once=at_once, asked=asked)


def test_a_random_search_draws_the_whole_space_and_nothing_twice():
    drawn = list(benchmark._drawn(SPACE, random.Random(1)))
    # of rate and delay at two times: none, six single steps, and pairs of another quantity or time
    steps = [Step(LINK, quantity, at, value) for quantity, value in
             (("rate", "1 Mbit/s"), ("delay", "10 ms"), ("delay", "20 ms")) for at in ("1 s", "2 s")]
    pairs = [pair for pair in itertools.combinations(steps, 2)
             if (pair[0].quantity, pair[0].at) != (pair[1].quantity, pair[1].at)]
    assert len(drawn) == len(set(drawn)) == 3 * (1 + len(steps) + len(pairs))


def test_a_random_search_depends_on_its_seed_only():
    first, same, other = (list(itertools.islice(benchmark._drawn(SPACE, random.Random(n)), 20)) for n in (1, 1, 2))
    assert first == same != other


@pytest.mark.parametrize("trials, outcome", [
    ([trial(90), trial(40), trial(30)], Outcome(2, 40)),
    ([trial(90), trial(40, "suspect"), trial(60)], Outcome(None, 60)),      # nearest of the valid ones
    ([trial(None), trial(70)], Outcome(None, 70)),
])
def test_the_outcome_is_the_first_valid_trial_that_meets_the_goal(trials, outcome):
    assert benchmark._outcome(GOAL, trials) == outcome


def test_of_a_goal_with_more_than_the_largest_value_is_nearest():
    assert benchmark._outcome(goals.parse("timeouts > 5"), [trial(1), trial(4), trial(2)]) == Outcome(None, 4)


@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize("run", [benchmark._random, benchmark._targeted])
def test_both_searches_end_with_their_budget_or_with_the_goal(run, at_once):
    one = ready(lambda candidate: 100.0, at_once=at_once)
    assert run(one, 10, 1) == Outcome(None, 100.0)
    assert sum(map(len, one.asked)) >= 10 if run is benchmark._targeted else sum(map(len, one.asked)) == 10
    found = run(ready(lambda one: 40.0 if candidate(2).settings[0] in one.settings else 90.0, at_once=at_once), 60, 1)
    assert found.trials and found.nearest == 40


@pytest.mark.parametrize("run", [benchmark._random, benchmark._targeted])
def test_both_searches_end_when_a_small_space_is_tried(run):
    one = ready(lambda candidate: 100.0, space=Space((Field("loss", ("1 %", "2 %")),), ()))
    assert run(one, 1000, 1) == Outcome(None, 100.0) and sum(map(len, one.asked)) == 3


def test_what_found_nothing_took_more_trials_than_all():
    found, nothing = [Outcome(number, 40.0) for number in range(1, 11)], [Outcome(None, 60.0)] * 10
    said = benchmark._summary({"random": nothing, "search": found}, 60).splitlines()
    assert said[0] == "random: found by 0 of 10; median of the trials until then more than 60"
    assert said[1] == "search: found by 10 of 10; median of the trials until then 5.5"
    # all of one before all of the other: the smallest p that ten of each can have, with ties
    assert float(said[2].split()[2]) < 1e-4
    same = benchmark._summary({"random": found, "search": found}, 60).splitlines()
    assert math.isclose(float(same[2].split()[2]), 1)


def test_an_outcome_in_words():
    assert benchmark._words(Outcome(3, 40.0)) == "3 trials"
    assert benchmark._words(Outcome(None, 12.3456)) == "nothing (nearest 12.35)"
