# SPDX-License-Identifier: GPL-2.0-only
"""Run every scenario of scenarios/ with its own congestion controls and seeds, then make one page of all reports.

  testbed all                    the short version of each that has one
  testbed all --full             as published: hours
  testbed all --smoke            the smallest versions, for a slow virtual machine
  testbed all --list             what would be run

A scenario that fails does not keep the others from running. Where time is real, those whose runs last longer than a
quarter of an hour are left out and named. The same command after an interruption goes on where it
was, with more --seeds adding to what is there.
"""
from __future__ import annotations

import argparse
import shlex
import sys

from testbed import engines
from testbed.cli import _runs, _series, _shared
from testbed.core.units import show_duration
from testbed.runs.store import Store, results_dir
from testbed.scenario import scenario

#: of a run on an engine on whose clock nothing is skipped
LONGEST_REAL_S = 900

HELP = "run every scenario, and make one page of all reports"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    versions = parser.add_mutually_exclusive_group()
    versions.add_argument("--quick", action="store_const", const="quick", dest="version", default="quick",
                          help="short versions (the default)")
    versions.add_argument("--full", action="store_const", const="", dest="version", help="the scenarios as they are")
    versions.add_argument("--smoke", action="store_const", const="smoke", dest="version",
                          help="the smallest versions, of the scenarios that have one")
    parser.add_argument("--seeds", metavar="N|A,B,C", help="so many seeds, or these, instead of each scenario's own")
    parser.add_argument("--list", action="store_true", help="only say what would be run")
    parser.add_argument("--engine", default=engines.DEFAULT, help="where runs take place (default: %(default)s)")
    parser.add_argument("--jobs", type=_shared.positive, metavar="N", help="runs at a time (default: one per CPU)")


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0; 4 if a scenario could not be run, 6 if results of some are only not as expected."""
    if arguments.seeds is not None:
        _runs.seeds(arguments.seeds)                # what is wrong with them is told once
    commands = {name: command(name, arguments.version, arguments.engine, arguments.seeds, arguments.jobs)
                for name in chosen(arguments.version)}
    # of a name that does not exist there is no need to hear so often
    found = engines.load_several(arguments.engine, {})
    if any(engine.capabilities.clock == "real" for engine in found):
        for name in [name for name in commands if duration_s(name, arguments.version) > LONGEST_REAL_S]:
            print(f"{name}: left out, a run lasts {show_duration(duration_s(name, arguments.version))} of real time; "
                  f"{shlex.join(['bin/testbed', *commands.pop(name)])}", file=sys.stderr)
    if arguments.list:
        for words in commands.values():
            print(shlex.join(["bin/testbed", *words]))
        return 0
    store = Store(results_dir())
    store.require_writable()
    failed: dict[str, str] = {}
    codes: dict[str, int] = {}
    for number, (name, words) in enumerate(commands.items(), start=1):
        print(f"== {number} of {len(commands)}: {shlex.join(['bin/testbed', *words])}", file=sys.stderr, flush=True)
        code, message = _series.carry_out(words)
        if code:
            failed[name], codes[name] = message, code
    from testbed.cli._overview import build
    store.create()
    print(f"all reports: {build(store.results, failed)}")
    if failed:
        raise _series.failure("scenarios", len(commands), codes)
    return 0


def chosen(version: str) -> list[str]:
    """Names of the scenarios to run: only those of the smallest versions are left out where there is none."""
    return [name for name in scenario.names() if version != "smoke" or "smoke" in scenario.versions(name)]


def duration_s(name: str, version: str) -> float:
    """How long a run of a scenario with its default choices lasts."""
    quick: bool | str = version if version in scenario.versions(name) else False
    return scenario.load(name, quick=quick).timing.duration_us / 1e6


def command(name: str, version: str, engine: str, seeds: str | None, jobs: int | None) -> list[str]:
    """Arguments of `testbed` that run a scenario; without a version of that kind it is run as it is."""
    words = ["run", name]
    words += [f"--{version}"] if version in scenario.versions(name) else []
    words += ["--engine", engine] if engine != engines.DEFAULT else []
    words += ["--seeds", seeds] if seeds else []
    return words + (["--jobs", str(jobs)] if jobs else [])
