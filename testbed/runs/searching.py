# SPDX-License-Identifier: GPL-2.0-only
"""The search for a scenario that meets a goal, and for the simplest one, by Hypothesis: targeted search, shrinking, and
its database of examples, with which the next search begins.

A trial's value decides where to look next. Only trials with a valid verdict count. The first that meets the goal is
made simpler as long as the effect stays; in the end each part is taken out in turn, and each value moved to the next
nearer one. What is left needs all of its parts.
"""
from __future__ import annotations

import contextlib
import dataclasses
import math
import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from unittest import mock

from testbed.core.expectations import Expectation
from testbed.scenario.search_space import Candidate, Part, Setting, Space, Step, Steps, in_order

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

#: trials of one round: half of them are random, then Hypothesis climbs
ROUND = 60
#: trials that making a finding simpler may take beyond the budget of the search, before its parts are taken out
MOST_SHRINKING = 100
#: rounds without a new trial after which the whole space counts as tried
_MOST_IN_VAIN = 10
VALID, SHARED, FAILED, REFUSED = "valid", "shared", "failed", "refused"
#: from the best to the worst
VERDICTS = (VALID, SHARED, "suspect", "invalid", FAILED, REFUSED)
#: the database is that of one search
_DATABASE_KEY = b"candidates"


@dataclasses.dataclass(frozen=True)
class Trial:
    """What a candidate did. verdict: valid, shared (a reference meets the goal, too), suspect, invalid, failed, or
    refused (no such scenario); value: None if it is not known; reason: why it is not valid; run_id: of the run that has
    the value; reference: the value of the reference, if there is one and it was run."""
    candidate: Candidate
    verdict: str
    value: float | None = None
    reason: str = ""
    run_id: str = ""
    reference: float | None = None

    def meets(self, goal: Expectation) -> bool:
        """Whether it is a finding."""
        return self.verdict == VALID and self.value is not None and not math.isnan(self.value) \
            and goal.met_by(self.value)


@dataclasses.dataclass(frozen=True)
class Neighbour:
    """A finding with one part taken out (other: None), or with another one in its place that is a little simpler."""
    part: Part
    other: Part | None
    trial: Trial


@dataclasses.dataclass(frozen=True)
class Finding:
    """The simplest trial that meets the goal. after: trials before the first that met it; first: that one."""
    trial: Trial
    neighbours: tuple[Neighbour, ...]
    first: Trial
    after: int


class _Enough(BaseException):
    """The budget is spent. No Exception: Hypothesis takes those for failures of what it tests."""


class Search:
    """One search. trials: all so far, in order; evaluate: carries out candidates."""

    def __init__(self, space: Space, goal: Expectation, evaluate: Callable[[Sequence[Candidate]], Sequence[Trial]],
                 database: pathlib.Path, report: Callable[[str], None]) -> None:
        self._space, self._goal, self._evaluate = space, goal, evaluate
        self._database, self._report = database, report
        self.trials: dict[Candidate, Trial] = {}
        self._most_trials: int | None = None
        self._is_over: Callable[[], bool] = lambda: False
        self._first: Trial | None = None
        self._after = 0
        self._closest: float | None = None

    def run(self, seed: int, most_trials: int | None, is_over: Callable[[], bool]) -> Finding | None:
        """The simplest finding, or None. most_trials: None for any number; is_over: whether the time is."""
        self._most_trials, self._is_over = most_trials, is_over
        number = in_vain = 0
        try:
            while self._first is None and in_vain < _MOST_IN_VAIN:
                before = len(self.trials)
                self._round(seed * 1_000_003 + number)
                in_vain = in_vain + 1 if len(self.trials) == before else 0
                number += 1
        except _Enough:
            pass
        return self.simplest()

    def simplest(self) -> Finding | None:
        """The simplest of what was found so far; takes parts out of it until each is needed."""
        if self._first is None:
            return None
        self._most_trials, self._is_over = None, lambda: False
        trial = min((one for one in self.trials.values() if one.meets(self._goal)),
                    key=lambda one: self._space.size(one.candidate))
        while True:
            neighbours = self._neighbours(trial)
            simpler = [one.trial for one in neighbours if one.trial.meets(self._goal)]
            if not simpler:
                return Finding(trial, tuple(neighbours), self._first, self._after)
            trial = min(simpler, key=lambda one: self._space.size(one.candidate))

    def so_far(self) -> Finding | None:
        """The simplest of what was found so far, as it is: neighbours are those that were tried."""
        if self._first is None:
            return None
        trial = min((one for one in self.trials.values() if one.meets(self._goal)),
                    key=lambda one: self._space.size(one.candidate))
        return Finding(trial, tuple(Neighbour(part, other, self.trials[one]) for part, other, one
                                    in self._around(trial.candidate) if one in self.trials), self._first, self._after)

    def _around(self, candidate: Candidate) -> list[tuple[Part, Part | None, Candidate]]:
        """(part, other, candidate) of all neighbours."""
        return [*((part, None, candidate.without(part)) for part in candidate.parts),
                *((part, other, changed) for part in candidate.parts for other in self._space.simpler(part)
                  if (changed := candidate.replaced(part, other)) is not None)]

    def _neighbours(self, trial: Trial) -> list[Neighbour]:
        asked = self._around(trial.candidate)
        trials = self._try([one for _, _, one in asked])
        return [Neighbour(part, other, one) for (part, other, _), one in zip(asked, trials)]

    def _round(self, seed: int) -> None:
        """One search of Hypothesis. _Enough."""
        import hypothesis.core
        from hypothesis.database import DirectoryBasedExampleDatabase
        from hypothesis.errors import NoSuchExample, Unsatisfiable

        def meets(candidate: Candidate) -> bool:
            trial = self._try([candidate])[0]
            if trial.meets(self._goal):
                return True
            if trial.verdict != VALID or trial.value is None or not math.isfinite(trial.value):
                hypothesis.reject()
            hypothesis.target(self._score(trial.value))
            return False

        phases = (hypothesis.Phase.reuse, hypothesis.Phase.generate, hypothesis.Phase.target, hypothesis.Phase.shrink)
        settings = hypothesis.settings(
            max_examples=ROUND, phases=phases, deadline=None, derandomize=False, print_blob=False,
            verbosity=hypothesis.Verbosity.quiet, database=DirectoryBasedExampleDatabase(str(self._database)))
        # as --hypothesis-seed of its pytest plugin does: @seed, and `random` of find, switch the database off
        with (contextlib.suppress(NoSuchExample, Unsatisfiable),        # the latter: no trial of this round was valid
              mock.patch.object(hypothesis.core, "global_force_seed", seed)):
            hypothesis.find(strategy(self._space), meets, settings=settings, database_key=_DATABASE_KEY)

    def _score(self, value: float) -> float:
        """Larger for what is nearer to the goal."""
        return -value if self._goal.comparison.startswith("<") else value

    def _try(self, candidates: Sequence[Candidate]) -> list[Trial]:
        """What candidates do; each is carried out once. _Enough if the budget is spent."""
        new = [one for one in dict.fromkeys(candidates) if one not in self.trials]
        if new and (self._is_over() or self._most_trials is not None and len(self.trials) >= self._most_trials):
            raise _Enough
        for trial in self._evaluate(new) if new else ():
            self.trials[trial.candidate] = trial
            self._note(trial)
        return [self.trials[one] for one in candidates]

    def _note(self, trial: Trial) -> None:
        """Tell what is better than all before."""
        if trial.meets(self._goal):
            if self._first is None:
                self._first, self._after = trial, len(self.trials) - 1
                self._report(f"trial {len(self.trials)}: {shown(self._goal, trial.value)}: found; making it simpler")
                self._most_trials, self._is_over = len(self.trials) + MOST_SHRINKING, lambda: False
        elif trial.verdict == VALID and trial.value is not None and self._first is None:
            score = self._score(trial.value)
            if self._closest is None or score > self._closest:
                self._closest = score
                self._report(f"trial {len(self.trials)}: {shown(self._goal, trial.value)} is the best so far")


def shown(goal: Expectation, value: float | None) -> str:
    """A value of the goal's metric with its unit: 'utilisation 41.3 %'."""
    if value is None:
        return f"no {goal.metric}"
    unit = "" if goal.unit == "1" else f" {goal.unit}"
    return f"{goal.metric} {value:.5g}{unit}"


def strategy(space: Space) -> "SearchStrategy[Candidate]":
    """All candidates of a space. Shrinking leads to fewer parts, and to values nearer to the usual ones."""
    from hypothesis import strategies as st
    settings = [st.none() | st.sampled_from([Setting(one.name, value) for value in one.values]) for one in space.fields]
    steps = [st.lists(_step(one), max_size=one.most, unique_by=lambda step: (step.quantity, step.at))
             for one in space.steps]
    return st.builds(
        lambda settings, lists: Candidate(tuple(one for one in settings if one is not None),
                                          in_order(one for some in lists for one in some)),
        st.tuples(*settings), st.tuples(*steps))


def _step(steps: Steps) -> "SearchStrategy[Step]":
    from hypothesis import strategies as st
    return st.one_of([st.builds(Step, st.just(steps.link), st.just(name), st.sampled_from(steps.at),
                                st.sampled_from(values)) for name, values in steps.quantities.items()])
