# SPDX-License-Identifier: GPL-2.0-only
"""Run a scenario for one or several congestion controls and make the report.

  testbed run access-link                     six congestion controls, 60 % load
  testbed run access-link --quick             about a minute of virtual time
  testbed run access-link --cca cubic,bbr --load 85 --seeds 5
  testbed run access-link --cca cubic,./tcp_mine.c        your own module
  testbed run access-link --set topology.central.queue.kind=codel
  testbed run access-link --sweep topology.central.queue.limit=85,170,850
  testbed run access-link --cca cubic,reno --precision 5%   enough seeds
  testbed run access-link --quick --seeds 5 --engine ns2,ns3        two engines
  testbed run access-link --quick --seeds 5 --kernel 6.1,6.12       two kernels

Finished runs are kept, whichever command made them. Run the same command again
to resume.
"""
from __future__ import annotations

import argparse
import json

from testbed.cli import _comparison, _debug, _expectations, _kernels, _precision, _process, _runs
from testbed.cli._experiment import Asked, Done
from testbed.cli._kernels import Level
from testbed.core.errors import RunFailed, TestbedError, UsageError
from testbed.core.progress import print_error, say
from testbed.runs.store import Store, results_dir

HELP = "run a scenario and make its report"
GROUP = "Run experiments"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what to run")
    _runs.add_scenario_arguments(what)
    what.add_argument("--sweep", metavar="KEY=VALUES", action="append", default=[], dest="sweeps",
                      help="run for each value of a field or choice: key=a,b,c or key=from..to/step; several sweeps "
                      "give every combination")
    what.add_argument("--yes", action="store_true", help="begin a long sweep without asking")
    what.add_argument("--probe", metavar="NAME", action="append", default=[],
                      help="add a probe, such as tcp_probe (see `testbed list probes`); may be repeated")
    what.add_argument("--trace", metavar="EVENT[:FILTER]", action="append", default=[],
                      help="record events of the kernel, such as 'tcp_probe: snd_cwnd < 10' "
                      "(docs/howto/debugging.md); may be repeated")
    what.add_argument("--slowdown", action="store_true",
                      help="also replay each seed's connections alone on the idle network, and compare completion "
                      "times")
    _precision.add_arguments(parser.add_argument_group("as many seeds as it takes"))
    _runs.add_execution_arguments(parser.add_argument_group("where to run"))
    _debug.add_arguments(parser.add_argument_group("look into the kernel (docs/howto/debugging.md)"))
    results = parser.add_argument_group("results")
    results.add_argument("--keep-work", action="store_true", help="keep each run's intermediate files")
    _expectations.add_arguments(results)
    results.add_argument("--no-report", action="store_true", help="do not make the report now")


def begin(arguments: argparse.Namespace) -> tuple[Asked, list[Level]]:
    """What is asked for, and the engines or kernels that are to do it. What makes no sense is refused before a kernel
    is built."""
    _expectations.check(arguments)
    if arguments.trace:
        arguments.settings = [*arguments.settings, f"probes.trace.events={json.dumps(arguments.trace)}"]
    asked = Asked(arguments)
    Store(results_dir()).require_writable()
    levels = _kernels.levels(arguments)
    if done := asked.fit(levels):
        say(done)
    return asked, levels


def main(arguments: argparse.Namespace) -> int:
    stop = _debug.asked_for(arguments)
    asked, levels = begin(arguments)
    if stop:
        return _debug.main(asked, levels, stop)
    if len(levels) > 1 and not levels[0].kernel:
        return _in_several(asked, levels)
    return conclude(arguments, asked.carry_out(levels, among_others=False))


def conclude(arguments: argparse.Namespace, done: Done) -> int:
    """Make the report of an experiment. RunFailed if something of it failed or was not run."""
    damaged: dict[str, str] = {}

    def report() -> int:
        damaged.update(_report(arguments, done))
        return 0
    if done.failures:                   # they count, whatever keeps the report from being made, such as a full disk
        _process.contained(report)
    else:
        report()
    unexpected = _expectations.judge(arguments, [done.folder])
    if done.failures or damaged:
        not_run = f"; not run at all: {', '.join(done.not_run)}" if done.not_run else ""
        raise RunFailed(f"{len(done.failures) + len(damaged)} of {done.runs} runs failed; their logs are in "
                        f"{done.folder}/runs{not_run}")
    if done.not_run:
        raise RunFailed(f"not run: {', '.join(done.not_run)}; the others are in {done.folder}")
    _expectations.fail(unexpected)
    return 0


def _in_several(asked: Asked, several: list[Level]) -> int:
    """An experiment in each engine, and their comparison. What goes wrong in one keeps nothing from the others."""
    there: dict[str, Done] = {}
    wrong: list[str] = []
    refusals = 0
    for level in several:
        engine = level.engine
        try:
            done = there[engine.name] = asked.carry_out([level], among_others=True)
            count = len(done.failures) + len(_report(asked.arguments, done))
            if count:
                wrong.append(f"{count} of {done.runs} runs of {engine.name} failed; their logs are in "
                             f"{done.folder}/runs")
        except TestbedError as problem:
            print_error(f"engine {engine.name}: {problem}")
            wrong.append(f"engine {engine.name}")
            refusals += isinstance(problem, UsageError)
    if refusals == len(several):
        raise UsageError("no engine can run this")
    run = {name for done in there.values() for name in done.subjects}
    wrong += [f"{subject.name} ran in no engine" for subject in asked.subjects if there and subject.name not in run]
    if len(there) > 1 and not asked.arguments.no_report:
        try:
            _comparison.make([done.folder for done in there.values()])
        except TestbedError as problem:
            print_error(f"no comparison: {problem}")
            wrong.append("the comparison")
    unexpected = _expectations.judge(asked.arguments, [done.folder for done in there.values()])
    if wrong:
        raise RunFailed(f"{'; '.join(wrong)}" + ("; the others are kept" if there else ""))
    _expectations.fail(unexpected)
    return 0


def _report(arguments: argparse.Namespace, done: Done) -> dict[str, str]:
    """Make the report, if it is wanted; returns what is wrong with runs that are not known to have failed."""
    if arguments.no_report:
        return {}
    from analysis.pages.report import build_report
    report = build_report(done.folder)
    for line in report.kernels:
        print(line)
    print(f"report: {report.path}")
    damaged = {name: message for name, message in report.problems.items() if name not in done.failures}
    for name, message in damaged.items():
        print_error(f"{name}: {message}")
    return damaged
