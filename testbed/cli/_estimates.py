# SPDX-License-Identifier: GPL-2.0-only
"""How many runs are left, and about how long they take; the question whether to begin."""
from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from testbed.core import progress
from testbed.core.errors import TestbedError
from testbed.core.units import show_duration
from testbed.runs.plan import Plan
from testbed.runs.store import Store, results_dir

#: a sweep that takes longer is confirmed first
_ASK_FROM_S = 600
#: wall seconds of a run of two hosts before its traffic begins, and after it ends
START_S = 1.0


class Left(NamedTuple):
    """Runs, those that are not there yet, and what they take; unknown: why there are others of which this is not known,
    '' if there are none."""
    runs: int
    missing: int
    wall_s: float
    unknown: str = ""


def left(found: Sequence[Plan], usual_s: Callable[[Plan], float], jobs: int | None) -> Left:
    """What is missing goes as fast as what is there has gone; without any, it takes what usual_s says (wall seconds).

    jobs: runs at a time, None: one for each CPU.
    """
    store = Store(results_dir())
    missing, wall_s = 0, 0.0
    for engine in dict.fromkeys(plan.engine for plan in found):
        mine = [plan for plan in found if plan.engine == engine]
        records = {plan.id: record for plan in mine if (record := store.finished(plan.id))}
        there = [(float(records[plan.id].wall_s or 0), plan.timing.duration_us) for plan in mine if plan.id in records]
        todo = [plan for plan in mine if plan.id not in records]
        missing += len(todo)
        if there:
            wall_s += sum(wall for wall, _ in there) / sum(virtual for _, virtual in there) \
                * sum(plan.timing.duration_us for plan in todo)
        else:
            wall_s += sum(map(usual_s, todo))
    return Left(len(found), missing, wall_s / (jobs or len(os.sched_getaffinity(0))))


def total(parts: Sequence[Left]) -> Left:
    return Left(sum(one.runs for one in parts), sum(one.missing for one in parts), sum(one.wall_s for one in parts),
                "; ".join(dict.fromkeys(one.unknown for one in parts if one.unknown)))


def say(found: Left) -> str:
    words = [found.unknown] if found.unknown else []
    if found.runs or not words:
        words.insert(0, f"{found.missing} of {found.runs} runs, about {show_duration(found.wall_s)}" if found.missing
                     else f"all {found.runs} runs are there")
    return "; besides: ".join(words)


def usual_s(plan: Plan) -> float:
    """Wall seconds of a run of which none like it is there: as long as in real time."""
    return START_S + float(plan.timing.duration_us) / 1e6


def announce(plans: Sequence[Plan], arguments: argparse.Namespace, is_sweep: bool) -> None:
    """Say how many runs are left and about how long they take, and ask before a long sweep."""
    found = Left(len(plans), len(plans), sum(map(usual_s, plans)) / (arguments.jobs or len(os.sched_getaffinity(0)))) \
        if arguments.again else left(plans, usual_s, arguments.jobs)
    if found.missing:
        guess = ", at the pace of real time; runs are often faster" if found.missing == found.runs else ""
        progress.step(f"{say(found)}{guess}")
    if is_sweep:
        confirm(found, arguments.yes)


def confirm(found: Left, yes: bool) -> None:
    """On a terminal, ask before what takes long. TestbedError if the answer is no; yes: nobody is asked."""
    if found.wall_s < _ASK_FROM_S or yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    print("Begin? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise TestbedError("nothing was run (--yes begins without a question)")
