# SPDX-License-Identifier: GPL-2.0-only
"""`python3 -m benchmarks.search SCENARIO --cca NAME --goal GOAL --runs N [--repetitions 10]`: is it worth its name?

`testbed search` and a random search look for the same goal in the same space, with the seeds 1 to 10. After how many
trials each found the goal is printed, or the value that came nearest to it within N trials. A random search changes
each field with a chance of one half, to any of its values, and makes any number of steps that is allowed. A rank test
(Mann and Whitney, two-sided) says whether the numbers of trials differ; what found nothing took more than all.

Finished runs are kept, for both searches and all seeds. In a small space most of them are there after some repetitions,
and further ones cost next to nothing.
"""
from __future__ import annotations

import itertools
import math
import pathlib
import random
import statistics
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from scipy.stats import mannwhitneyu

from testbed.cli import search
from testbed.cli._parser import Parser
from testbed.runs.goals import Goal
from testbed.runs.searching import VALID, Search, Trial
from testbed.scenario.search_space import Candidate, Setting, Space, Step, in_order

#: draws in a row that are known already, after which the whole space counts as tried
_MOST_IN_VAIN = 10_000


class Outcome(NamedTuple):
    """trials: until one met the goal, with it; None if none did. nearest: value of the valid trial nearest to it."""
    trials: int | None
    nearest: float


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
    print(_summary(outcomes, arguments.runs))


def _summary(outcomes: Mapping[str, Sequence[Outcome]], most: int) -> str:
    """How often each search found the goal, after how many trials, and whether these numbers differ."""
    trials = {name: [one.trials or math.inf for one in some] for name, some in outcomes.items()}
    lines = []
    for name, some in trials.items():
        median = statistics.median(some)
        lines.append(f"{name}: found by {sum(math.isfinite(one) for one in some)} of {len(some)}; median of the trials "
                     f"until then {median if median < math.inf else f'more than {most}'}")
    return "\n".join([*lines, f"p = {mannwhitneyu(*trials.values()).pvalue:.3g} (Mann and Whitney, two-sided)"])


def _words(one: Outcome) -> str:
    return f"{one.trials} trials" if one.trials is not None else f"nothing (nearest {one.nearest:.4g})"


def _targeted(ready: search.Ready, most: int, seed: int) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="testbed-bench-") as folder:        # nothing learned from other seeds
        one = Search(ready.space, ready.question.goal, ready.bench, pathlib.Path(folder), lambda text: None,
                     ready.at_once)
        one.run(seed, most, lambda: False, only_first=True)
    return _outcome(ready.question.goal, one.trials.values())


def _random(ready: search.Ready, most: int, seed: int) -> Outcome:
    draws, trials = _drawn(ready.space, random.Random(seed)), list[Trial]()
    while len(trials) < most and not any(one.meets(ready.question.goal) for one in trials):
        drawn = list(itertools.islice(draws, min(ready.at_once, most - len(trials))))
        if not drawn:
            break
        trials += ready.bench(drawn)
    return _outcome(ready.question.goal, trials)


def _outcome(goal: Goal, trials: Iterable[Trial]) -> Outcome:
    values = []
    for number, one in enumerate(trials, start=1):
        if one.meets(goal):
            return Outcome(number, one.value if one.value is not None else math.nan)
        if one.verdict == VALID and one.value is not None:
            values.append(one.value)
    best = min if goal.comparison.startswith("<") else max
    return Outcome(None, best(values, default=math.nan))


def _drawn(space: Space, draws: random.Random) -> Iterator[Candidate]:
    """Random candidates, none twice; ends once nothing new comes."""
    known, in_vain = set[Candidate](), 0
    while in_vain < _MOST_IN_VAIN:
        settings = [Setting(one.name, draws.choice(one.values)) for one in space.fields if draws.random() < 0.5]
        steps: dict[tuple[str, str, str], Step] = {}
        for some in space.steps:
            for _ in range(draws.randint(0, some.most)):
                quantity, at = draws.choice(list(some.quantities)), draws.choice(some.at)
                steps[some.link, quantity, at] = Step(some.link, quantity, at, draws.choice(some.quantities[quantity]))
        found = Candidate(tuple(settings), in_order(steps.values()))
        in_vain = in_vain + 1 if found in known else 0
        if not in_vain:
            known.add(found)
            yield found


if __name__ == "__main__":
    main()
