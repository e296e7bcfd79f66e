# SPDX-License-Identifier: GPL-2.0-only
"""Make a report again: of an experiment, of a suite, or a page of all experiments.

  testbed report                          all experiments: results/index.html
  testbed report access-link-load60 --margin 10%
  testbed report suite-iccrg-quick-mine   the scorecard, and the tables under it
  testbed report two-flows --zoom 2s..4500ms
  testbed report two-flows --figures paper --figure-font "Times New Roman"

Verdicts and metrics that are missing or outdated are made again first. Exit
code 1: files of runs are damaged. The report names these runs and all others
that it could not use.
"""
from __future__ import annotations

import argparse
import pathlib
import re
from typing import TYPE_CHECKING

from testbed.cli import _overview, _shared
from testbed.core import units
from testbed.core.errors import RunFailed, UsageError
from testbed.core.progress import print_error
from testbed.runs import experiment
from testbed.runs.store import results_dir

if TYPE_CHECKING:
    from analysis.drawing.gnuplot import Paper

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
    parser.add_argument("--figures", choices=("paper",), help="draw figures for papers, too (figures/paper/, as wide "
                        "as a column, 3.5 in, and as two, 7.16 in), and write tables for LaTeX (tables/main.tex)")
    parser.add_argument("--figure-font", metavar="NAME", help="the font of figures for papers (default: DejaVu Sans)")
    parser.add_argument("--figure-size", metavar="POINTS", type=float, help="the size of their text (default: 8)")
    parser.add_argument("--figure-colours", metavar="A,B", help="their colours, such as #000000,#888888, in the order "
                        "of the congestion controls")
    parser.add_argument("--figure-label", metavar="TEXT=TEXT", action="append", default=[],
                        help="say something else in them, such as cubic=CUBIC; may be given several times")


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
        if (folder / "index.html").is_file() and not (folder / "experiment.json").exists():
            raise UsageError(f"{arguments.experiment}: neither an experiment nor a scorecard; the command that made "
                             "its page makes it again")
    from analysis.pages.report import build_report
    from analysis.read.zooms import Span
    report = build_report(experiment.find(arguments.experiment),
                          _shared.MARGIN if arguments.margin is None else arguments.margin,
                          Span(*arguments.zoom) if arguments.zoom else None, _paper(arguments))
    print(report.path)
    if report.unused:
        print_error(report.unused)
    for name, message in report.problems.items():
        print_error(f"{name}: {message}")
    return 1 if report.problems else 0


def _paper(arguments: argparse.Namespace) -> Paper | None:
    """How figures for papers look; None if there are to be none. UsageError for options of none, or that make no
    sense."""
    from analysis.drawing.gnuplot import FONT, Paper
    said = {"--figure-font": arguments.figure_font, "--figure-size": arguments.figure_size,
            "--figure-colours": arguments.figure_colours, "--figure-label": arguments.figure_label}
    if arguments.figures is None:
        for option, value in said.items():
            if value:
                raise UsageError(f"{option}: of figures for papers; say --figures paper, too")
        return None
    colours = tuple(filter(None, (arguments.figure_colours or "").split(",")))
    for colour in colours:
        if not re.fullmatch("#[0-9a-fA-F]{6}", colour):
            raise UsageError(f"--figure-colours {colour}: a colour such as #0072b2 expected")
    font, size = arguments.figure_font or FONT, 8.0 if arguments.figure_size is None else arguments.figure_size
    if not re.fullmatch(r"[\w .-]+", font):
        raise UsageError(f"--figure-font {font}: the name of a font expected")
    if not 4 <= size <= 20:
        raise UsageError(f"--figure-size {size:g}: 4 to 20 points expected")
    labels = {}
    for text in arguments.figure_label:
        old, separator, new = text.partition("=")
        if not separator or not old:
            raise UsageError(f"--figure-label {text}: TEXT=TEXT expected, such as cubic=CUBIC")
        labels[old] = new
    return Paper(font, size, colours, labels)


def _of_all(arguments: argparse.Namespace) -> int:
    """One page of all experiments. Damaged and unfinished ones are listed as such; verdicts are those judged last."""
    if arguments.zoom or arguments.figures or arguments.margin is not None:
        raise UsageError("--zoom, --figures and --margin: which experiment? "
                         "The page of all experiments has none of them")
    results = results_dir()
    if not results.is_dir():
        raise UsageError(f"{results}: no results folder; `testbed run` makes one, --results FOLDER names another")
    print(_overview.build(results, {}, arguments.output))
    return 0


def _of_suite(folder: pathlib.Path, arguments: argparse.Namespace) -> int:
    """The page of a suite; its parts have reports of their own."""
    if arguments.zoom or arguments.figures:
        raise UsageError("--zoom, --figures: not for a suite: the reports of its parts have the figures")
    from analysis.pages import suite_report
    suite = suite_report.read(folder, arguments.margin)
    if not any(part.experiment for part in suite.parts):
        raise RunFailed("; ".join(f"{part.name}: {part.problem or part.description.not_run}" for part in suite.parts)
                        + f": the report in {folder} was left as it is")
    print(suite_report.write(suite, folder))
    problems = {part.name: part.problem for part in suite.parts if part.problem}
    problems |= {f"{part.name}: {run}": message for part in suite.parts if part.results
                 for run, message in part.results.problems.items()}
    for name, message in problems.items():
        print_error(f"{name}: {message}")
    return 1 if problems else 0
