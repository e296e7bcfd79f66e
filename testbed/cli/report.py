# SPDX-License-Identifier: GPL-2.0-only
"""Make a report again: of an experiment, of a suite, or a page of all experiments.

  testbed report                          all experiments: results/index.html
  testbed report access-link-load60 --margin 10%
  testbed report suite-iccrg-quick-mine   the scorecard, and the tables under it
  testbed report two-flows --zoom 2s..4500ms

Verdicts and metrics that are missing or outdated are made again first. Exit
code 1: files of runs are damaged. The report names these runs and all others
that it could not use.
"""
from __future__ import annotations

import argparse
import pathlib

from testbed.cli import _overview, _shared
from testbed.core import units
from testbed.core.errors import RunFailed, UsageError
from testbed.core.progress import print_error
from testbed.runs import experiment
from testbed.runs.store import results_dir

HELP = "make a report again, or a page of all experiments"
GROUP = "Look at results"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", nargs="?", help="folder or name, such as access-link-load60-quick or "
                        "suite-iccrg-quick-mine (default: one page of all experiments)")
    parser.add_argument("--output", metavar="DIR", type=pathlib.Path,
                        help="where the page of all experiments goes (default: the results folder)")
    _shared.add_margin_argument(parser, None)
    parser.add_argument("--zoom", metavar="FROM..TO", type=_span,
                        help="the part of a run that figures of tcp_probe and captures enlarge, such as 2s..4s "
                             "(default: about the first loss)")


def _span(text: str) -> tuple[int, int]:
    """Microseconds of experiment time."""
    try:
        found = [units.parse(one) for one in text.split("..")]
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    times = [int(one[1]) for one in found if one is not None and one[0] == "us"]
    if len(times) != 2 or len(found) != 2 or times[0] >= times[1]:
        raise argparse.ArgumentTypeError(f"{text!r}: two times in order expected, such as 2s..4500ms")
    return times[0], times[1]


def main(arguments: argparse.Namespace) -> int:
    if arguments.experiment is None:
        return _of_all(arguments)
    if arguments.output is not None:
        raise UsageError("--output: only of the page of all experiments, `testbed report` without a name")
    for folder in (pathlib.Path(arguments.experiment), results_dir() / arguments.experiment):
        if (folder / "suite.json").is_file():
            return _of_suite(folder.resolve(), arguments)
    from analysis.pages.report import build_report
    from analysis.read.zooms import Span
    report = build_report(experiment.find(arguments.experiment),
                          _shared.MARGIN if arguments.margin is None else arguments.margin,
                          Span(*arguments.zoom) if arguments.zoom else None)
    print(report.path)
    for name, message in report.problems.items():
        print_error(f"{name}: {message}")
    return 1 if report.problems else 0


def _of_all(arguments: argparse.Namespace) -> int:
    """One page of all experiments. Damaged and unfinished ones are listed as such; verdicts are those judged last."""
    if arguments.zoom or arguments.margin is not None:
        raise UsageError("--zoom and --margin: which experiment? The page of all experiments has neither")
    results = results_dir()
    if not results.is_dir():
        raise UsageError(f"{results}: no results folder; `testbed run` makes one, TESTBED_RESULTS names another")
    print(_overview.build(results, {}, arguments.output))
    return 0


def _of_suite(folder: pathlib.Path, arguments: argparse.Namespace) -> int:
    """The page of a suite; its parts have reports of their own."""
    if arguments.zoom:
        raise UsageError("--zoom: not for a suite: the reports of its parts have the figures")
    from analysis.pages import suite_report
    suite = suite_report.read(folder, arguments.margin)
    if not any(part.experiment for part in suite.parts):
        raise RunFailed("; ".join(f"{part.name}: {part.problem or part.description['not_run']}" for part in suite.parts)
                        + f": the report in {folder} was left as it is")
    print(suite_report.write(suite, folder))
    problems = {part.name: part.problem for part in suite.parts if part.problem}
    problems |= {f"{part.name}: {run}": message for part in suite.parts if part.results
                 for run, message in part.results.problems.items()}
    for name, message in problems.items():
        print_error(f"{name}: {message}")
    return 1 if problems else 0
