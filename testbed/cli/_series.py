# SPDX-License-Identifier: GPL-2.0-only
"""Several `testbed run` one after the other: what is left of them, how long that takes, and what became of each."""
from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence

from testbed.cli import _estimates, _kernels, _process, _runs, _shared, run
from testbed.cli._experiment import Asked
from testbed.cli._parser import Parser
from testbed.core.errors import ExpectationFailed, RunFailed, TestbedError, UsageError
from testbed.runs import campaign
from testbed.runs.plan import Plan


class NotReady(TestbedError):
    """Which runs there would be is known when a kernel or a simulator has been built."""


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The arguments of `testbed run`; words begin with run."""
    parser = Parser(prog="testbed run")
    run.add_arguments(parser)
    return parser.parse_args([*words[1:], "--yes"])         # nobody is asked


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
    not_run: dict[str, str] = {}
    levels = _kernels.levels(arguments)
    asked.fit(levels)
    for level in levels:
        points = level.points(asked.points)
        if not build and not _runs.is_ready(level.engine, [one for _, one in points]):
            raise NotReady(level.engine.state())
        ready = _runs.prepare(level.engine, asked.subjects, [one for _, one in points], lenient=True)
        can, cannot = campaign.possible(campaign.make_plans(
            points, ready.subjects, asked.seeds, level.engine, _shared.reporter()), points, level.engine)
        found += can
        not_run |= cannot
    if not found and not_run:
        raise UsageError(next(iter(not_run.values())))
    return found


def announce(place: int, count: int, kind: str, name: str, words: Sequence[str],
             still: Sequence[_estimates.Left]) -> None:
    """Before one of several (place: from 0) begins; still: what is left of it and of those behind it."""
    print(f"== {kind} {place + 1} of {count}: {shlex.join(['bin/testbed', *words])}\n"
          f"== {name}: {_estimates.say(still[0])}; all that is left: {_estimates.say(_estimates.total(still))}",
          file=sys.stderr, flush=True)
