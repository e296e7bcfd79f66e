# SPDX-License-Identifier: GPL-2.0-only
"""Several `testbed run` one after the other: what is left of them, how long that takes, and what became of each."""
from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from testbed.cli import _kernels, _process, _runs, _shared, run
from testbed.cli._experiment import Asked
from testbed.cli._parser import Parser
from testbed.core.errors import ExpectationFailed, RunFailed, TestbedError
from testbed.core.units import show_duration
from testbed.runs import campaign
from testbed.runs.plan import Plan
from testbed.runs.store import Store, results_dir


class Left(NamedTuple):
    """Runs, those that are not there yet, and what they take; unknown: why there are others of which this is not known,
    '' if there are none."""
    runs: int
    missing: int
    wall_s: float
    unknown: str = ""


class NotReady(TestbedError):
    """Which runs there would be is known when a kernel or a simulator has been built."""


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The arguments of `testbed run`; words begin with run."""
    parser = Parser(prog="testbed run")
    run.add_arguments(parser)
    return parser.parse_args(words[1:])


def carry_out(words: Sequence[str]) -> tuple[int, str]:
    """(exit code, last error) of a command. What interrupts it ends all of them."""
    return _process.contained(lambda: run.main(parsed(words)))


def failure(kind: str, count: int, codes: Mapping[str, int]) -> TestbedError:
    """The error at the end of `count` commands, of which those in `codes` (name: exit code) failed: of expectations if
    all that is wrong is that results are not as their scenarios expect."""
    what = f"{len(codes)} of {count} {kind} failed: {', '.join(codes)}"
    return (ExpectationFailed if set(codes.values()) == {ExpectationFailed.exit_code} else RunFailed)(what)


def plans(words: Sequence[str], build: bool = True) -> list[Plan]:
    """All runs of a command, with all its engines and kernels. What the command would refuse is raised.

    build: whether kernels and simulators may be built for the answer; else NotReady where that is needed.
    """
    arguments = parsed(words)
    asked = Asked(arguments)
    found: list[Plan] = []
    levels = _kernels.levels(arguments)
    asked.fit(levels)
    for level in levels:
        points = level.points(asked.points)
        if not build and not _runs.is_ready(level.engine, [one for _, one in points]):
            raise NotReady(level.engine.state())
        ready = _runs.prepare(level.engine, asked.subjects, [one for _, one in points], lenient=True)
        found += campaign.possible(campaign.make_plans(
            points, ready.subjects, asked.seeds, level.engine, _shared.reporter()), points, level.engine)[0]
    return found


def left(found: Sequence[Plan], usual_s: Callable[[Plan], float], jobs: int | None) -> Left:
    """What is missing goes as fast as what is there has gone; without any, it takes what usual_s says (wall seconds).

    jobs: runs at a time, None: one for each CPU.
    """
    store = Store(results_dir())
    missing, wall_s = 0, 0.0
    for engine in dict.fromkeys(plan.engine for plan in found):
        mine = [plan for plan in found if plan.engine == engine]
        records = {plan.id: record for plan in mine if (record := store.finished(plan.id))}
        there = [(float(records[plan.id]["wall_s"]), plan.timing["duration_us"]) for plan in mine if plan.id in records]
        todo = [plan for plan in mine if plan.id not in records]
        missing += len(todo)
        if there:
            wall_s += sum(wall for wall, _ in there) / sum(virtual for _, virtual in there) \
                * sum(plan.timing["duration_us"] for plan in todo)
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


def announce(place: int, count: int, kind: str, name: str, words: Sequence[str], still: Sequence[Left]) -> None:
    """Before one of several (place: from 0) begins; still: what is left of it and of those behind it."""
    print(f"== {kind} {place + 1} of {count}: {shlex.join(['bin/testbed', *words])}\n"
          f"== {name}: {say(still[0])}; all that is left: {say(total(still))}", file=sys.stderr, flush=True)
