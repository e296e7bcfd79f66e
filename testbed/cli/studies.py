# SPDX-License-Identifier: GPL-2.0-only
"""Repeat the published studies: every scenario that reproduces one, in full, in the engines that its page compares.

  testbed studies                    all of them, as published
  testbed studies --quick            the short versions
  testbed studies --list             what would be run, what is left of it, and how long that takes

Says before each study how much time is left. The same command after an interruption goes on where it was; a study that
fails does not keep the others from running.
"""
from __future__ import annotations

import argparse
import shlex
from typing import NamedTuple

from testbed import engines
from testbed.cli import _series, _shared
from testbed.cli._series import Left
from testbed.core.errors import UsageError
from testbed.runs.store import Store, results_dir

HELP = "repeat the published studies in full, one after the other"


class Study(NamedTuple):
    """A scenario; wall seconds of a run in each engine, taken as long as none of it is there.

    Medians beside other work on two CPUs; ns-2's of h-shape-1 and h-shape-2 are those of h-shape-3.
    """
    scenario: str
    engines: dict[str, float]


STUDIES = (
    Study("h-shape-3", {"ns2": 1.4, engines.DEFAULT: 4.4}),
    Study("tcp-on-off", {engines.DEFAULT: 5.3}),
    Study("two-hosts", {engines.DEFAULT: 3.6}),
    Study("libra-hybrid", {engines.DEFAULT: 4.5}),
    Study("libra-bic", {engines.DEFAULT: 7.9}),
    Study("libra-sweeps", {engines.DEFAULT: 18.7}),
    Study("h-shape-1", {"ns2": 1.4, engines.DEFAULT: 3.4}),
    Study("h-shape-2", {"ns2": 1.4, engines.DEFAULT: 3.7}),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="the short versions of the scenarios")
    parser.add_argument("--only", metavar="A,B", help="only these studies")
    parser.add_argument("--seeds", metavar="N", help="so many seeds instead of each scenario's own")
    parser.add_argument("--list", action="store_true", help="only say what would be run, and what is left of it")
    parser.add_argument("--jobs", type=_shared.positive, metavar="N", help="runs at a time (default: one per CPU)")


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0; 4 if a study could not be run, 6 if results of some are only not as expected."""
    chosen = _chosen(arguments.only)
    commands = {study.scenario: _words(study, arguments) for study in chosen}
    if arguments.list:
        left = {study.scenario: _left(study, commands[study.scenario], arguments.jobs, build=False) for study in chosen}
        for name, words in commands.items():
            print(f"{shlex.join(['bin/testbed', *words])}    {_series.say(left[name])}")
        print(f"all: {_series.say(_series.total(list(left.values())))}")
        return 0
    Store(results_dir()).require_writable()
    failed: dict[str, str] = {}
    codes: dict[str, int] = {}
    for place, study in enumerate(chosen):
        words = commands[study.scenario]
        # what the first runs of a study take is known better when others have run
        still = [_left(one, commands[one.scenario], arguments.jobs) for one in chosen[place:]]
        _series.announce(place, len(chosen), "study", study.scenario, words, still)
        code, message = _series.carry_out(words)
        if code:
            failed[study.scenario], codes[study.scenario] = message, code
    from testbed.cli._overview import build
    print(f"all reports: {build(results_dir(), failed)}")
    if failed:
        raise _series.failure("studies", len(chosen), codes)
    return 0


def _chosen(only: str | None) -> list[Study]:
    known = {study.scenario: study for study in STUDIES}
    names = list(known) if only is None else list(dict.fromkeys(filter(None, map(str.strip, only.split(",")))))
    if not names:
        raise UsageError(f"--only: names of studies expected; there are: {', '.join(known)}")
    for name in names:
        if name not in known:
            raise UsageError(f"--only {name}: no such study; there are: {', '.join(known)}")
    return [known[name] for name in names]


def _words(study: Study, arguments: argparse.Namespace) -> list[str]:
    words = ["run", study.scenario, "--engine", ",".join(study.engines)]
    words += ["--quick"] if arguments.quick else []
    words += ["--seeds", arguments.seeds] if arguments.seeds else []
    return words + (["--jobs", str(arguments.jobs)] if arguments.jobs else [])


def _left(study: Study, words: list[str], jobs: int | None, build: bool = True) -> Left:
    """What is missing takes as long as what is there has taken; without any, what the table says. build: as for
    `_series.plans`; without, the answer may be that it is not known."""
    try:
        found = _series.plans(words, build)
    except _series.NotReady as problem:
        return Left(0, 0, 0, str(problem))
    return _series.left(found, lambda plan: study.engines[plan.engine], jobs)
