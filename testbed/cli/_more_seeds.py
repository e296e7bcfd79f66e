# SPDX-License-Identifier: GPL-2.0-only
"""Seeds that an assessment adds by itself: as many again as at first, up to a limit, where a verdict needs more."""
from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from testbed.core.errors import UsageError
from testbed.core.progress import say
from testbed.scenario import suites

if TYPE_CHECKING:
    from analysis.compare.assessment import Assessed


def limit(suite: suites.Suite, arguments: argparse.Namespace) -> int:
    """How many seeds a criterion has at most; 0 if none are added: for a number of seeds that somebody chose, and the
    short version, unless somebody chose the limit, too. UsageError."""
    asked = arguments.most_seeds
    if asked is not None and not suite.criteria:
        raise UsageError(f"--most-seeds: suite {suite.name} has no criteria, whose verdicts may need more seeds")
    if asked is not None and arguments.seeds is not None:
        if not arguments.seeds.isdigit():
            raise UsageError(f"--most-seeds {asked}: --seeds with one number expected, not {arguments.seeds}")
        if int(arguments.seeds) > asked:
            raise UsageError(f"--most-seeds {asked}: {arguments.seeds} seeds are asked for")
    if asked is not None:
        return int(asked)
    return 0 if arguments.seeds is not None or arguments.version else suite.most_seeds or 0


def looks(first: Collection[int], most: int) -> int:
    """How often criteria are judged at most. first: how many seeds each has at first."""
    return max((math.ceil(most / count) for count in first), default=1) if most else 1


def until_decided(first: Mapping[str, int], most: int, times: int, judge: Callable[[], list[Assessed]],
                  carry_out: Callable[[Mapping[str, int]], None]) -> None:
    """Add seeds to each criterion as long as its verdict is that it needs more, and there are fewer than `most`.

    first: how many each has at first, by its name; times: how often they are judged at most; carry_out: runs criteria
    with these numbers of seeds.
    """
    from analysis.compare import assessment
    counts = dict(first)
    while any(count < most for count in counts.values()):
        found = judge()
        assessment.correct(found, times)
        more: dict[str, int] = {}
        for one in found:
            name, finding = one.about.name, one.more_seeds
            if finding is None or counts.get(name, most) >= most:
                continue
            more[name] = min(counts[name] + first[name], most)
            say(f"{name}: seeds {counts[name] + 1} to {more[name]}, as it needs more; {assessment.say(finding)}")
        if not more:
            return
        carry_out(more)
        counts |= more
