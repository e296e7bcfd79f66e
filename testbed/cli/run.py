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
import sqlite3
import sys

from testbed import campaign, ccas, engines, executors, experiment, index, scenario
from testbed.cli import _precision, _shared
from testbed.errors import EnvironmentProblem, RunFailed, UsageError
from testbed.progress import print_error
from testbed.store import Store, results_dir

HELP = "run a scenario and make its report"
_MOST_SEEDS = 1000
#: failures told one by one; the rest is counted
_MOST_TOLD = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenario", help="name of a scenario (see `testbed list`) or path of a .yaml file")
    parser.add_argument("--cca", metavar="A,B",
                        help="congestion controls, separated by commas: names (see `testbed list ccas`), modules "
                        "(./tcp_mine.c or a folder), variant files (./mine.yaml); a+b: flows take turns")
    parser.add_argument("--load", metavar="PERCENT", help="offered load, where the scenario has a choice of it")
    parser.add_argument("--choose", metavar="NAME=OPTION", action="append", default=[],
                        help="one of the scenario's other choices (see `testbed list scenarios`); may be repeated")
    parser.add_argument("--seeds", metavar="N|A,B,C", help="how many seeds (1..N), or which; repetitions are seeds")
    _precision.add_arguments(parser)
    parser.add_argument("--quick", action="store_true", help="the scenario's short version")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], dest="settings",
                        help="override a field of the scenario file, such as traffic.load=70%%; may be repeated")
    parser.add_argument("--sweep", metavar="KEY=VALUES", action="append", default=[], dest="sweeps",
                        help="run for each value of a field or choice: key=a,b,c or key=from..to/step; several are "
                        "multiplied")
    parser.add_argument("--probe", metavar="NAME", action="append", default=[],
                        help="an extra probe, such as tcp_probe; may be repeated")
    _shared.add_engine_arguments(parser)
    parser.add_argument("--executor", default=executors.DEFAULT,
                        help="who carries the runs out (default: local, on this machine)")
    parser.add_argument("--jobs", type=_shared.positive, metavar="N", help="runs at a time (default: one per CPU)")
    parser.add_argument("--again", action="store_true", help="repeat runs that are already there")
    parser.add_argument("--keep-work", action="store_true", help="keep each run's intermediate files")
    parser.add_argument("--no-report", action="store_true", help="leave the report for later")


def main(arguments: argparse.Namespace) -> int:
    if arguments.cca is not None and not arguments.cca.strip():
        raise UsageError("--cca: at least one congestion control is needed")
    if arguments.seeds is not None and not arguments.seeds.strip():
        raise UsageError("--seeds: a number, or numbers separated by commas, expected")
    choices = _choices(arguments)
    selected = arguments.scenario, choices, arguments.quick, arguments.settings, arguments.probe
    points = scenario.expand(*selected, arguments.sweeps)
    first = points[0][1]
    subjects = ccas.parse(arguments.cca if arguments.cca is not None else ",".join(first.default_ccas))
    seeds = _seeds(arguments.seeds or str(first.default_seeds))
    _precision.check(arguments, seeds)
    executor_class = executors.load(arguments.executor)
    engine = engines.load(arguments.engine, _shared.engine_options(arguments))
    campaign.check_probes(arguments.probe, engine)
    problems = engine.problems()
    if problems:
        raise EnvironmentProblem("; ".join(f"{p.message} ({p.fix})" for p in problems) + "; see `testbed doctor`")
    engine.prepare(_shared.reporter())
    ready = campaign.make_ready(subjects, engine, _shared.reporter())
    for name, reason in ready.broken.items():
        print_error(f"{name}: {reason}")
    if not ready.subjects:
        raise RunFailed(f"not run: {', '.join(ready.broken)}")
    plans = campaign.make_plans(points, ready.subjects, seeds, engine, _shared.reporter())
    store = Store(results_dir())
    store.create()
    axes = {key: list(dict.fromkeys(point[key] for point, _ in points)) for key in points[0][0]}
    base = scenario.load(*selected) if axes else first      # the scenario without what a sweep varies
    labels = base.labels()
    labels["parameters"] = {key: value for key, value in labels["parameters"].items() if key not in axes}
    described = experiment.Description(
        labels=labels, base=base.resolved(), engine=engine.name, kernel_spec=arguments.kernel, hz=arguments.hz,
        kernel_key=engine.kernel_key(), command=_command(arguments), axes=axes)
    folder = experiment.add(store.results, described, plans)
    names = [subject.name for subject in ready.subjects]
    print(f"{first.title}: {', '.join(names)}; " + (f"{len(points)} points, " if axes else "")
          + f"{len(seeds)} seed{'s'[:len(seeds) > 1]}, {first.timing.duration_us / 1e6:.0f} s of virtual time each "
          f"-> {folder}", file=sys.stderr)
    executor = executor_class(engine, store, arguments.jobs)
    failures = campaign.carry_out(plans, executor, store, arguments.again, arguments.keep_work)
    if arguments.precision is not None and not failures:
        def more(added: list[int]) -> dict[str, str]:
            new = campaign.make_plans(points, ready.subjects, added, engine, _shared.reporter())
            experiment.add(store.results, described, new)
            plans.extend(new)
            return campaign.carry_out(new, executor, store, arguments.again, arguments.keep_work)
        failures = _precision.refine(folder, arguments, plans, more)
    _index(store, folder)
    _tell(failures)
    damaged = {} if arguments.no_report else _report(folder, failures)
    if failures or damaged:
        raise RunFailed(f"{len(failures) + len(damaged)} of {len(plans)} runs failed; their logs are in {folder}/runs"
                        + (f"; not run at all: {', '.join(ready.broken)}" if ready.broken else ""))
    if ready.broken:
        raise RunFailed(f"not run: {', '.join(ready.broken)}; the others are in {folder}")
    return 0


def _index(store: Store, folder: pathlib.Path) -> None:
    try:
        index.note_experiment(store.results, folder)
    except (sqlite3.Error, OSError) as problem:
        print_error(f"index.sqlite: {problem}")


def _tell(failures: dict[str, str]) -> None:
    """Each distinct error once, with the runs that had it."""
    by_error: dict[str, list[str]] = {}
    for name, error in failures.items():
        by_error.setdefault(error, []).append(name)
    for error, names in list(by_error.items())[:_MOST_TOLD]:
        print_error(f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}: {error}")
    if len(by_error) > _MOST_TOLD:
        print_error(f"and {len(by_error) - _MOST_TOLD} other errors")


def _report(folder: pathlib.Path, failures: dict[str, str]) -> dict[str, str]:
    """Make the report; returns what is wrong with runs that are not known to have failed."""
    from analysis.report import build_report
    report = build_report(folder)
    print(f"report: {report.path}")
    damaged = {name: message for name, message in report.problems.items() if name not in failures}
    for name, message in damaged.items():
        print_error(f"{name}: {message}")
    return damaged


def _choices(arguments: argparse.Namespace) -> dict[str, str | None]:
    """{choice: option} of --load and --choose."""
    choices: dict[str, str | None] = {}
    if arguments.load is not None:
        choices["load"] = arguments.load
    for text in arguments.choose:
        name, separator, option = text.partition("=")
        if not name or not separator or not option:
            raise UsageError(f"--choose {text}: NAME=OPTION expected, such as load=85")
        if choices.get(name, option) != option:
            raise UsageError(f"--choose {text}: {name} {choices[name]} is asked for, too; which of them?")
        choices[name] = option
    return choices


def _seeds(text: str) -> list[int]:
    """'3' -> [1, 2, 3]; '4,7' -> [4, 7]; '4,' -> [4]."""
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise UsageError(f"--seeds {text}: a number, or numbers separated by commas, expected") from None
    if not numbers or min(numbers) < 1 or max(numbers) >= 2**63:
        raise UsageError(f"--seeds {text}: numbers from 1 to 2^63 - 1 expected")
    if "," in text:
        return list(dict.fromkeys(numbers))
    if numbers[0] > _MOST_SEEDS:
        raise UsageError(f"--seeds {text}: that many repetitions? For the one seed {text}, write {text},")
    return list(range(1, numbers[0] + 1))


def _command(arguments: argparse.Namespace) -> list[str]:
    """The command as it can be typed again, word by word."""
    words = ["bin/testbed", "run", arguments.scenario]
    for name in ("cca", "load", "seeds", "kernel", "hz"):
        if getattr(arguments, name):
            words += [f"--{name}", str(getattr(arguments, name))]
    words += _precision.words(arguments)
    words += ["--quick"] if arguments.quick else []
    words += ["--engine", arguments.engine] if arguments.engine != engines.DEFAULT else []
    for option, values in (("choose", arguments.choose), ("set", arguments.settings), ("sweep", arguments.sweeps),
                           ("probe", arguments.probe)):
        for value in values:
            words += [f"--{option}", value]
    return shlex.split(shlex.join(words))
