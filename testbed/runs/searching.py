# SPDX-License-Identifier: GPL-2.0-only
"""The search for a scenario that meets a goal, and for the simplest one, by Hypothesis: targeted search, shrinking, and
its database of examples, with which the next search begins.

A trial's value decides where to look next. Only trials with a valid verdict count. The first that meets the goal is
made simpler as long as the effect stays; in the end each part is taken out in turn, and each value moved to the next
nearer one. What is left needs all of its parts.

Several trials are carried out at once without changing which trials there are: a fork of the process goes on with the
search as if the next trial were no better than those before, and says which ones then follow (`Search._scouted`). They
are carried out beside the next one, and count once the search itself asks for them.
"""
from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import pathlib
import pickle
import signal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn
from unittest import mock

from testbed.runs.goals import Goal
from testbed.scenario.search_space import Candidate, Part, Setting, Space, Step, Steps, in_order

if TYPE_CHECKING:
    from hypothesis.database import ExampleDatabase
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
    refused (no such scenario); value: what the goal is about, None if it is not known; reason: why it is not valid;
    run_id: of the run that has the value; reference: the metric of the reference, if there is one and it was run. Of a
    goal that is a share of the reference, own: the metric itself; limit: of the metric, in the mean over all seeds."""
    candidate: Candidate
    verdict: str
    value: float | None = None
    reason: str = ""
    run_id: str = ""
    reference: float | None = None
    own: float | None = None
    limit: float | None = None

    def meets(self, goal: Goal) -> bool:
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


class _Scout:
    """A fork of the search that finds out which trials come next, and ends once it has said so."""

    def __init__(self, mouth: int, count: int) -> None:
        self._mouth, self._count = mouth, count
        self._found: list[Candidate] = []

    def note(self, candidate: Candidate) -> None:
        self._found.append(candidate)
        if len(self._found) == self._count:
            self.end()

    def end(self) -> NoReturn:
        """Say what was found. Nothing of the search that was forked is ended, closed or written."""
        try:
            with os.fdopen(self._mouth, "wb") as pipe:
                pickle.dump(self._found, pipe)
        finally:
            os._exit(0)


class Search:
    """One search. trials: all so far, in order; evaluate: carries out candidates; at_once: how many of them it should
    get, which changes nothing but the time that the search takes."""

    def __init__(self, space: Space, goal: Goal, evaluate: Callable[[Sequence[Candidate]], Sequence[Trial]],
                 database: pathlib.Path, report: Callable[[str], None], at_once: int = 1) -> None:
        self._space, self._goal, self._evaluate = space, goal, evaluate
        self._database, self._report, self._at_once = database, report, at_once
        self.trials: dict[Candidate, Trial] = {}
        #: carried out beside others; the search has not asked for them
        self._ahead: dict[Candidate, Trial] = {}
        self._scout: _Scout | None = None
        self._most_trials: int | None = None
        self._is_over: Callable[[], bool] = lambda: False
        self._only_first = False
        self._first: Trial | None = None
        self._after = 0
        self._closest: float | None = None

    def run(self, seed: int, most_trials: int | None, is_over: Callable[[], bool],
            only_first: bool = False) -> Finding | None:
        """The simplest finding, or None. most_trials: None for any number; is_over: whether the time is; only_first:
        the first finding, not made simpler."""
        self._most_trials, self._is_over, self._only_first = most_trials, is_over, only_first
        number = in_vain = 0
        try:
            while self._first is None and in_vain < _MOST_IN_VAIN:
                before = len(self.trials)
                self._round(seed * 1_000_003 + number)
                in_vain = in_vain + 1 if len(self.trials) == before else 0
                number += 1
        except _Enough:
            pass
        except BaseException:
            if self._scout:
                os._exit(1)
            raise
        finally:
            if self._scout:
                self._scout.end()
        return self.so_far() if only_first else self.simplest()

    @property
    def in_vain(self) -> int:
        """Trials that were carried out beside others and that the search did not ask for."""
        return len(self._ahead)

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
        from hypothesis.errors import NoSuchExample, Unsatisfiable

        def meets(candidate: Candidate) -> bool:
            trial = self._next(candidate)
            if trial.meets(self._goal):
                return True
            if trial.verdict != VALID or trial.value is None or not math.isfinite(trial.value):
                hypothesis.reject()
            hypothesis.target(self._score(trial.value))
            return False

        phases = (hypothesis.Phase.reuse, hypothesis.Phase.generate, hypothesis.Phase.target, hypothesis.Phase.shrink)
        settings = hypothesis.settings(
            max_examples=ROUND, phases=phases, deadline=None, derandomize=False, print_blob=False,
            verbosity=hypothesis.Verbosity.quiet,
            database=_examples(self._database, lambda: self._scout is not None))
        # as --hypothesis-seed of its pytest plugin does: @seed, and `random` of find, switch the database off
        with (contextlib.suppress(NoSuchExample, Unsatisfiable),        # the latter: no trial of this round was valid
              mock.patch.object(hypothesis.core, "global_force_seed", seed)):
            hypothesis.find(strategy(self._space), meets, settings=settings, database_key=_DATABASE_KEY)

    def _score(self, value: float) -> float:
        """Larger for what is nearer to the goal."""
        return -value if self._goal.comparison.startswith("<") else value

    def _next(self, candidate: Candidate) -> Trial:
        """What the next candidate of a round does. _Enough if the budget is spent."""
        if candidate not in self.trials and candidate not in self._ahead and not self._scout and self._at_once > 1:
            self._check_budget()
            left = math.inf if self._most_trials is None else self._most_trials - len(self.trials)
            if (count := int(min(self._at_once, left)) - 1) > 0:
                more = self._scouted(candidate, count)
                if not self._scout:
                    self._carry_out([candidate, *more])
        if self._scout and candidate not in self.trials:
            if candidate not in self._ahead:
                self._scout.note(candidate)
            return self._ahead.get(candidate) or self.trials.setdefault(candidate, self._guess(candidate))
        return self._try([candidate])[0]

    def _scouted(self, candidate: Candidate, count: int) -> list[Candidate]:
        """Up to `count` candidates that follow one unless it is better than those before. In the fork, which goes on
        from here, `_scout` is set."""
        ear, mouth = os.pipe()
        process = os.fork()
        if process:
            os.close(mouth)
            with os.fdopen(ear, "rb") as pipe:
                found = pipe.read()
            _, status = os.waitpid(process, 0)
            if status:
                self._at_once = 1
                self._report(f"trials go on one at a time: what would follow is not known (status {status})")
                return []
            return list(pickle.loads(found)) if found else []
        self._scout = _Scout(mouth, count)                      # first of all: with it, `run` ends the fork
        for number in (signal.SIGINT, signal.SIGTERM):          # what the search does then is not for its fork to do
            signal.signal(number, signal.SIG_DFL)
        os.close(ear)
        self._report = lambda text: None
        self.trials[candidate] = self._guess(candidate)
        return []

    def _guess(self, candidate: Candidate) -> Trial:
        """What most trials do: nothing that is better than before."""
        values = [one.value for one in self.trials.values()
                  if one.verdict == VALID and one.value is not None and math.isfinite(one.value)]
        return Trial(candidate, VALID, min(values, key=self._score)) if values else Trial(candidate, FAILED)

    def _check_budget(self) -> None:
        """_Enough if it is spent."""
        if self._is_over() or self._most_trials is not None and len(self.trials) >= self._most_trials:
            raise _Enough

    def _carry_out(self, candidates: Sequence[Candidate]) -> None:
        """Have trials of candidates at hand."""
        if new := [one for one in dict.fromkeys(candidates) if one not in self.trials and one not in self._ahead]:
            self._ahead.update({trial.candidate: trial for trial in self._evaluate(new)})

    def _try(self, candidates: Sequence[Candidate]) -> list[Trial]:
        """What candidates do; each is carried out once. _Enough if the budget is spent."""
        if new := [one for one in dict.fromkeys(candidates) if one not in self.trials]:
            self._check_budget()
            self._carry_out(new)
        for one in new:
            self.trials[one] = self._ahead.pop(one)
            self._note(self.trials[one])
        return [self.trials[one] for one in candidates]

    def _note(self, trial: Trial) -> None:
        """Tell what is better than all before."""
        if trial.meets(self._goal):
            if self._first is None:
                self._first, self._after = trial, len(self.trials) - 1
                if self._only_first:
                    raise _Enough
                self._report(f"trial {len(self.trials)}: {shown(self._goal, trial.value)}: found; making it simpler")
                self._most_trials, self._is_over = len(self.trials) + MOST_SHRINKING, lambda: False
        elif trial.verdict == VALID and trial.value is not None and math.isfinite(trial.value) and self._first is None:
            score = self._score(trial.value)
            if self._closest is None or score > self._closest:
                self._closest = score
                self._report(f"trial {len(self.trials)}: {shown(self._goal, trial.value)} is the best so far")


def _examples(folder: pathlib.Path, is_guessed: Callable[[], bool]) -> "ExampleDatabase":
    """Hypothesis's database of examples; nothing is written in it of what is only guessed."""
    from hypothesis.database import DirectoryBasedExampleDatabase

    class Examples(DirectoryBasedExampleDatabase):
        def fetch(self, key: bytes) -> list[bytes]:
            # Hypothesis draws some of them, and the files of a folder are in no order
            return sorted(super().fetch(key))

        def save(self, key: bytes, value: bytes) -> None:
            if not is_guessed():
                super().save(key, value)

        def delete(self, key: bytes, value: bytes) -> None:
            if not is_guessed():
                super().delete(key, value)

        def move(self, src: bytes, dest: bytes, value: bytes) -> None:
            if not is_guessed():
                super().move(src, dest, value)

    return Examples(str(folder))


def shown(goal: Goal, value: float | None) -> str:
    """What a goal is about, with its unit: 'utilisation 41.3 %', or 'utilisation 53.1 % of cubic'."""
    if value is None:
        return f"no {goal.metric}"
    return f"{goal.metric} {value:.5g}{goal.unit_words}"


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
