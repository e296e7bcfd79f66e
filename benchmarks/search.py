# SPDX-License-Identifier: GPL-2.0-only
"""`python3 -m benchmarks.search SCENARIO --cca NAME --goal GOAL --runs N [--repetitions 10]`: is it worth its name?

`testbed search` and a random search look for the same goal in the same space, with the seeds 1 to 10. After how many
trials each found the goal is printed, or the value that came nearest to it within N trials. A random search changes
each field with a chance of one half, to any of its values, and makes any number of steps that is allowed.
"""
from __future__ import annotations

import math
import pathlib
import random
import statistics
import tempfile
from collections.abc import Callable, Sequence
from typing import NamedTuple

from testbed.cli import search
from testbed.cli._parser import Parser
from testbed.runs.goals import Goal
from testbed.runs.searching import VALID, Search, Trial
from testbed.scenario.search_space import Candidate, Setting, Space, Step, in_order

Evaluate = Callable[[Sequence[Candidate]], Sequence[Trial]]


class Outcome(NamedTuple):
    """trials: until one met the goal, with it; None if none did. nearest: value of the valid trial nearest to it."""
    trials: int | None
    nearest: float


class _Found(BaseException):
    """A trial meets the goal: what comes after is not measured."""


class _Meter:
    """Counts trials and notes the best."""

    def __init__(self, evaluate: Evaluate, goal: Goal) -> None:
        self._evaluate, self._goal = evaluate, goal
        self.trials, self._values = 0, [math.nan]

    def __call__(self, candidates: Sequence[Candidate]) -> Sequence[Trial]:
        found = self._evaluate(candidates)
        self.trials += len(found)
        self._values += [one.value for one in found if one.verdict == VALID and one.value is not None]
        if any(one.meets(self._goal) for one in found):
            raise _Found
        return found

    def outcome(self, found: bool) -> Outcome:
        best = min if self._goal.comparison.startswith("<") else max
        return Outcome(self.trials if found else None, best(self._values[1:], default=math.nan))


def main() -> None:
    parser = Parser(prog="python3 -m benchmarks.search", description=__doc__)
    search.add_arguments(parser)
    parser.add_argument("--repetitions", type=int, default=10, help="seeds of each (default 10)")
    arguments = parser.parse_args()
    if arguments.runs is None:
        parser.error("--runs: how many trials each may have")
    ready = search.make_ready(arguments)
    outcomes: dict[str, list[Outcome]] = {"random": [], "search": []}
    for seed in range(1, arguments.repetitions + 1):
        outcomes["random"].append(_random(ready, arguments.runs, seed))
        outcomes["search"].append(_targeted(ready, arguments.runs, seed))
        print(f"seed {seed}: {', '.join(f'{name} {_words(some[-1])}' for name, some in outcomes.items())}", flush=True)
    for name, some in outcomes.items():
        # what found nothing took more than all
        median = statistics.median(one.trials or math.inf for one in some)
        found = sum(one.trials is not None for one in some)
        print(f"{name}: found by {found} of {len(some)}; median of the trials until "
              f"then {median if median < math.inf else f'more than {arguments.runs}'}")


def _words(one: Outcome) -> str:
    return f"{one.trials} trials" if one.trials is not None else f"nothing (nearest {one.nearest:.4g})"


def _targeted(ready: search.Ready, most: int, seed: int) -> Outcome:
    meter = _Meter(ready.bench, ready.goal)
    with tempfile.TemporaryDirectory(prefix="testbed-bench-") as folder:        # nothing learned from other seeds
        try:
            Search(ready.space, ready.goal, meter, pathlib.Path(folder), lambda text: None).run(
                seed, most, lambda: False)
        except _Found:
            return meter.outcome(found=True)
    return meter.outcome(found=False)


def _random(ready: search.Ready, most: int, seed: int) -> Outcome:
    meter, draws, known = _Meter(ready.bench, ready.goal), random.Random(seed), set[Candidate]()
    try:
        while meter.trials < most:
            candidate = _drawn(ready.space, draws)
            if candidate not in known:
                known.add(candidate)
                meter([candidate])
    except _Found:
        return meter.outcome(found=True)
    return meter.outcome(found=False)


def _drawn(space: Space, draws: random.Random) -> Candidate:
    settings = [Setting(one.name, draws.choice(one.values)) for one in space.fields if draws.random() < 0.5]
    steps: dict[tuple[str, str, str], Step] = {}
    for some in space.steps:
        for _ in range(draws.randint(0, some.most)):
            quantity, at = draws.choice(list(some.quantities)), draws.choice(some.at)
            steps[some.link, quantity, at] = Step(some.link, quantity, at, draws.choice(some.quantities[quantity]))
    return Candidate(tuple(settings), in_order(steps.values()))


if __name__ == "__main__":
    main()
