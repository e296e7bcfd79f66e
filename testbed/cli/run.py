# SPDX-License-Identifier: GPL-2.0-only
"""Run a scenario for one or several congestion controls and make the report.

  testbed run access-link                          every default: 6 congestion controls, 60 % load
  testbed run access-link --cca cubic,bbr --load 85 --seeds 3
  testbed run access-link --quick                  about a minute of virtual time
  testbed run access-link --cca cubic,./tcp_mine.c  your own module: built, loaded, proven active
  testbed run access-link --set topology.central.queue.kind=codel --set topology.central.queue.limit=1000

Runs that are already in the results folder are not repeated: the same command after an
interruption goes on where it was.
"""
import shlex
import sys

from testbed import ccas, engines, results, scenario, sweep
from testbed.cli import _shared
from testbed.errors import EnvironmentProblem, RunFailed, UsageError
from testbed.progress import print_error

HELP = "run a scenario and make its report"
_MOST_SEEDS = 1000


def add_arguments(parser):
    parser.add_argument("scenario", help="name of a scenario (see `testbed list`) or path of a .yaml file")
    parser.add_argument("--cca", metavar="A,B", help="congestion controls, separated by commas: names (see `testbed list ccas`), "
                        "modules (./tcp_mine.c or a folder), variant files (./mine.yaml); a+b: flows take turns")
    parser.add_argument("--load", metavar="PERCENT", help="offered load, where the scenario has a choice of it")
    parser.add_argument("--choose", metavar="NAME=OPTION", action="append", default=[],
                        help="one of the scenario's other choices (see `testbed list scenarios`); may be repeated")
    parser.add_argument("--seeds", metavar="N|A,B,C", help="how many seeds (1..N), or which; repetitions are seeds")
    parser.add_argument("--quick", action="store_true", help="the scenario's short version")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], dest="settings",
                        help="override a field of the scenario file, such as traffic.load=70%%; may be repeated")
    parser.add_argument("--probe", metavar="NAME", action="append", default=[],
                        help="an extra probe, such as tcp_probe; may be repeated")
    _shared.add_engine_arguments(parser)
    parser.add_argument("--jobs", type=_positive, metavar="N", help="runs at a time (default: one per CPU)")
    parser.add_argument("--again", action="store_true", help="repeat runs that are already there")
    parser.add_argument("--keep-work", action="store_true", help="keep each run's intermediate files")
    parser.add_argument("--no-report", action="store_true", help="leave the report for later")


def main(arguments):
    chosen = scenario.load(arguments.scenario, _choices(arguments), arguments.quick,
                           arguments.settings + [f"probes.{name}={{}}" for name in arguments.probe])
    subjects = ccas.parse(arguments.cca or ",".join(chosen.default_ccas))
    seeds = _seeds(arguments.seeds or str(chosen.default_seeds))
    engine = engines.load(arguments.engine)(_shared.engine_options(arguments))
    problems = engine.problems()
    if problems:
        raise EnvironmentProblem("; ".join(f"{p.message} ({p.fix})" for p in problems) + "; see `testbed doctor`")
    engine.prepare(_shared.reporter())
    subjects, broken = _make_ready(subjects, engine)
    names = [subject.name for subject in subjects]
    experiment = results.Experiment(results.results_dir() / results.experiment_name(chosen, arguments.engine, arguments.kernel))
    failures = {}
    if subjects:
        experiment.create(sweep.describe_experiment(chosen, arguments.engine, names, seeds, _command(arguments)))
        print(f"{chosen.title}: {', '.join(names)}; {len(seeds)} seed{'s'[:len(seeds) > 1]}, "
              f"{chosen.timing.duration_us / 1e6:.0f} s of virtual time each -> {experiment.folder}", file=sys.stderr)
        failures = sweep.run_all(experiment, chosen, engine, subjects, seeds, arguments.jobs, arguments.keep_work, arguments.again)
        for name, error in failures.items():
            print_error(f"{name}: {error}")
        if not arguments.no_report:
            from analysis.report import build_report
            print(f"report: {build_report(experiment.folder)}")
    if failures:
        raise RunFailed(f"{len(failures)} of {len(names) * len(seeds)} runs failed; their logs are in {experiment.folder}/runs"
                        + (f"; not run at all: {', '.join(broken)}" if broken else ""))
    if broken:
        raise RunFailed(f"not run: {', '.join(broken)}" + (f"; the others are in {experiment.folder}" if subjects else ""))
    return 0


def _choices(arguments):
    """{choice: option} of --load and --choose."""
    choices = {"load": arguments.load}
    for text in arguments.choose:
        name, separator, option = text.partition("=")
        if not name or not separator:
            raise UsageError(f"--choose {text}: NAME=OPTION expected, such as load=85")
        choices[name] = option
    return choices


def _make_ready(subjects, engine):
    """(ready Subjects, names of those whose module cannot be used). A bad module is reported at once; it
    does not keep the others from running."""
    ready, broken = {}, []
    for subject in subjects:
        try:
            made = ccas.make_ready(subject, engine, _shared.reporter())
        except RunFailed as problem:
            print_error(f"{subject.name}: {problem}")
            broken.append(subject.name)
            continue
        if made.name in ready:
            raise UsageError(f"--cca: two different ones are called {made.name}: give one of them another name")
        ready[made.name] = made
    return list(ready.values()), broken


def _seeds(text):
    """'3' -> [1, 2, 3]; '4,7' -> [4, 7]; '4,' -> [4]."""
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise UsageError(f"--seeds {text}: a number, or numbers separated by commas, expected") from None
    if not numbers or min(numbers) < 1 or max(numbers) >= 2**63:
        raise UsageError(f"--seeds {text}: numbers from 1 expected")
    if "," in text:
        return list(dict.fromkeys(numbers))
    if numbers[0] > _MOST_SEEDS:
        raise UsageError(f"--seeds {text}: that many repetitions? For the one seed {text}, write {text},")
    return list(range(1, numbers[0] + 1))


def _positive(text):
    import argparse
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: a number from 1 expected")
    return int(text)


def _command(arguments):
    """The command as it can be typed again."""
    words = ["bin/testbed", "run", arguments.scenario]
    for name in ("cca", "load", "seeds", "kernel"):
        if getattr(arguments, name):
            words += [f"--{name}", getattr(arguments, name)]
    words += ["--quick"] if arguments.quick else []
    words += ["--engine", arguments.engine] if arguments.engine != "uml" else []
    for choice in arguments.choose:
        words += ["--choose", choice]
    for setting in arguments.settings:
        words += ["--set", setting]
    for probe in arguments.probe:
        words += ["--probe", probe]
    return shlex.join(words)
