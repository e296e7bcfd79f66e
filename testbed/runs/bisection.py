# SPDX-License-Identifier: GPL-2.0-only
"""Which commit made the difference: the search itself, whatever a revision is measured by.

Which revision comes next is git's choice (git_history.py), where branches were merged, too. One that cannot be
measured is skipped, and its neighbours are tried.
"""
from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from testbed.runs.git_history import Commit, History

GOOD, BAD, SKIPPED, UNDECIDED = "good", "bad", "skipped", "undecided"


@dataclasses.dataclass(frozen=True)
class Step:
    """A revision and what became of it: good, bad, skipped (why), undecided (why)."""
    commit: Commit
    state: str
    why: str = ""


@dataclasses.dataclass(frozen=True)
class Found:
    """suspects: the first bad commit; several where neighbours could not be measured or the search stopped.

    undecided: the step at which it stopped; None if it came to its end.
    """
    suspects: list[Commit]
    steps: list[Step]
    undecided: Step | None = None


def search(history: History, good: Commit, bad: Commit, paths: list[str], measure: Callable[[Commit], Step],
           tell: Callable[[str], None]) -> Found:
    """Narrow down until one commit is left, or none can be told apart. measure(commit): a step of its own."""
    goods, skipped, steps = [good], set[str](), list[Step]()
    while True:
        candidates = history.candidates(bad, goods, paths)
        choice = next((one for one in candidates if one != bad.hash and one not in skipped), None)
        if choice is None:
            return Found([history.commit(one) for one in candidates], steps)
        left = len(candidates) - 1
        about = math.ceil(math.log2(left + 1))
        tell(f"{left} revision{'s' * (left != 1)} left to tell apart, about {about} step{'s' * (about != 1)}")
        step = measure(history.commit(choice))
        steps.append(step)
        if step.state == UNDECIDED:
            return Found([history.commit(one) for one in candidates], steps, step)
        if step.state == BAD:
            bad = step.commit
        elif step.state == GOOD:
            goods.append(step.commit)
        else:
            skipped.add(choice)
