# SPDX-License-Identifier: GPL-2.0-only
"""Run a scenario for one or several congestion controls and make the report.

  testbed run access-link                          every default: 6 congestion controls, 60 % load
  testbed run access-link --cca cubic,bbr --load 85 --seeds 3
  testbed run access-link --quick                  about a minute of virtual time
  testbed run access-link --cca cubic,./tcp_mine.c  your own module: built, loaded, proven active
  testbed run access-link --set topology.central.queue.kind=codel --set topology.central.queue.limit=1000
  testbed run access-link --quick --sweep topology.central.queue.limit=85,170,850 --seeds 3
  testbed run access-link --cca cubic,reno --precision 5%   as many seeds as it takes

Runs that are already in the results folder are not repeated, whichever command made them: the same
command after an interruption goes on where it was.
"""
from __future__ import annotations

import argparse
import pathlib
import shlex
import sys

from testbed import campaign, ccas, engines, executors, experiment, idle, scenario
from testbed.cli import _precision, _runs, _shared
from testbed.errors import RunFailed
from testbed.plan import Plan
from testbed.progress import print_error
from testbed.store import Store, results_dir

HELP = "run a scenario and make its report"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _runs.add_scenario_arguments(parser)
    _precision.add_arguments(parser)
    _runs.add_setting_arguments(parser)
    parser.add_argument("--sweep", metavar="KEY=VALUES", action="append", default=[], dest="sweeps",
                        help="run for each value of a field or choice: key=a,b,c or key=from..to/step; several are "
                        "multiplied")
    parser.add_argument("--probe", metavar="NAME", action="append", default=[],
                        help="an extra probe, such as tcp_probe; may be repeated")
    _runs.add_execution_arguments(parser)
    parser.add_argument("--slowdown", action="store_true",
                        help="also replay the connections of each seed alone on the idle network: completion times are "
                        "compared with those there")
    parser.add_argument("--keep-work", action="store_true", help="keep each run's intermediate files")
    parser.add_argument("--no-report", action="store_true", help="leave the report for later")


def main(arguments: argparse.Namespace) -> int:
    _runs.check(arguments)
    choices = _runs.choices(arguments)
    selected = arguments.scenario, choices, arguments.quick, arguments.settings, arguments.probe
    points = scenario.expand(*selected, arguments.sweeps)
    first = points[0][1]
    alone = [(point, idle.scenario_of(loaded)) for point, loaded in points] if arguments.slowdown else []
    subjects = ccas.parse(arguments.cca if arguments.cca is not None else ",".join(first.default_ccas))
    seeds = _runs.seeds(arguments.seeds or str(first.default_seeds))
    _precision.check(arguments, seeds)
    executor_class = executors.load(arguments.executor)
    engine = engines.load(arguments.engine, _shared.engine_options(arguments))
    campaign.check_probes(arguments.probe, engine)
    ready = _runs.prepare(engine, subjects)

    def idle_plans(seeds: list[int]) -> list[Plan]:
        """Companion runs, under the first subject."""
        return campaign.make_plans(alone, ready.subjects[:1], seeds, engine, _shared.reporter()) if alone else []
    plans = campaign.make_plans(points, ready.subjects, seeds, engine, _shared.reporter())
    companions = idle_plans(seeds)
    store = Store(results_dir())
    store.create()
    axes = {key: list(dict.fromkeys(point[key] for point, _ in points)) for key in points[0][0]}
    base = scenario.load(*selected) if axes else first      # the scenario without what a sweep varies
    labels = base.labels()
    labels["parameters"] = {key: value for key, value in labels["parameters"].items() if key not in axes}
    described = experiment.Description(
        labels=labels, base=base.resolved(), engine=engine.name, kernel_spec=arguments.kernel, hz=arguments.hz,
        kernel_key=engine.kernel_key(), command=_command(arguments), axes=axes)
    folder = experiment.add(store.results, described, plans, companions)
    names = [subject.name for subject in ready.subjects]
    print(f"{first.title}: {', '.join(names)}; " + (f"{len(points)} points, " if axes else "")
          + f"{len(seeds)} seed{'s'[:len(seeds) > 1]}, {first.timing.duration_us / 1e6:.0f} s of "
          f"{engine.capabilities.clock} time each -> {folder}", file=sys.stderr)
    executor = executor_class(engine, store, arguments.jobs)
    failures = campaign.carry_out([*plans, *companions], executor, store, arguments.again, arguments.keep_work)
    if arguments.precision is not None and not failures:
        def more(added: list[int]) -> dict[str, str]:
            new = campaign.make_plans(points, ready.subjects, added, engine, _shared.reporter())
            more_idle = idle_plans(added)
            experiment.add(store.results, described, new, more_idle)
            plans.extend(new)
            return campaign.carry_out([*new, *more_idle], executor, store, arguments.again, arguments.keep_work)
        failures = _precision.refine(folder, arguments, plans, more)
    _runs.note_experiment(store, folder)
    _runs.tell(failures)
    damaged = {} if arguments.no_report else _report(folder, failures)
    if failures or damaged:
        raise RunFailed(f"{len(failures) + len(damaged)} of {len(plans)} runs failed; their logs are in {folder}/runs"
                        + (f"; not run at all: {', '.join(ready.broken)}" if ready.broken else ""))
    if ready.broken:
        raise RunFailed(f"not run: {', '.join(ready.broken)}; the others are in {folder}")
    return 0


def _report(folder: pathlib.Path, failures: dict[str, str]) -> dict[str, str]:
    """Make the report; returns what is wrong with runs that are not known to have failed."""
    from analysis.report import build_report
    report = build_report(folder)
    print(f"report: {report.path}")
    damaged = {name: message for name, message in report.problems.items() if name not in failures}
    for name, message in damaged.items():
        print_error(f"{name}: {message}")
    return damaged


def _command(arguments: argparse.Namespace) -> list[str]:
    """The command as it can be typed again, word by word."""
    words = ["bin/testbed", "run", arguments.scenario]
    for name in ("cca", "load", "seeds", "kernel", "hz"):
        if getattr(arguments, name):
            words += [f"--{name}", str(getattr(arguments, name))]
    words += _precision.words(arguments)
    words += _runs.version_words(arguments)
    words += ["--slowdown"] if arguments.slowdown else []
    words += ["--engine", arguments.engine] if arguments.engine != engines.DEFAULT else []
    for option, values in (("choose", arguments.choose), ("set", arguments.settings), ("sweep", arguments.sweeps),
                           ("probe", arguments.probe)):
        for value in values:
            words += [f"--{option}", value]
    return shlex.split(shlex.join(words))
