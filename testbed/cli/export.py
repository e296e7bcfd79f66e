# SPDX-License-Identifier: GPL-2.0-only
"""Write runs in the formats of other programs.

  testbed export access-link-load60-quick --format flent --output out
  testbed export results/captured/runs/cubic-seed1 --format pcapng,xplot \\
      --output out

flent has throughput, delay, windows and queues over time; pcapng and xplot have
the packets that the probe pcap captured, trace the events of --trace
(docs/howto/exports.md).
"""
from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import tempfile
from typing import TYPE_CHECKING

from testbed.core import guesses
from testbed.core.errors import EnvironmentProblem, UsageError
from testbed.core.files import why_unwritable
from testbed.core.progress import print_error
from testbed.runs import experiment

if TYPE_CHECKING:
    from analysis.read.runs import Run

HELP = "write runs for flent, Wireshark, xplot"
GROUP = "Look at results"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="EXPERIMENT|RUN", help="an experiment (its folder or name) or a run")
    parser.add_argument("--format", required=True, metavar="A,B", help="flent, pcapng, trace, xplot, or several")
    parser.add_argument("--output", metavar="FOLDER", type=pathlib.Path, required=True, help="where files are written")


def main(arguments: argparse.Namespace) -> int:
    from analysis import exports
    from analysis.read.runs import AnalysisError
    if not all(map(str.strip, arguments.format.split(","))):
        raise UsageError(f"--format {arguments.format}: formats separated by commas expected, of: "
                         f"{', '.join(exports.names())}")
    formats = [_known(name.strip(), exports.names()) for name in arguments.format.split(",")]
    runs, problems = _runs(arguments.what)
    folder: pathlib.Path = arguments.output
    was_there = folder.is_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(f"--output {folder}: " + ("a file; a folder expected" if isinstance(problem, FileExistsError)
                                                   else str(problem.strerror))) from None
    if why := why_unwritable(folder):
        raise EnvironmentProblem(f"--output {why}")
    written = 0
    for stem, run in runs:
        for name in dict.fromkeys(formats):
            try:
                made = _write(name, run, folder, stem)
            except AnalysisError as problem:
                problems.append(str(problem))
                continue
            except OSError as problem:
                what = problem.filename2 or problem.filename or folder
                raise EnvironmentProblem(f"{what}: {problem.strerror}") from None
            written += len(made)
            for path in made:       # whoever reads this may have enough of it: no error of the files
                print(path)
    if not written and not was_there:
        with contextlib.suppress(OSError):      # what could be written of a file that failed stays
            folder.rmdir()
    for text in dict.fromkeys(problems):
        print_error(text)
    if not written and not problems:
        raise UsageError(f"{arguments.what}: no run in it")
    return 1 if problems else 0


def _write(name: str, run: Run, folder: pathlib.Path, stem: str) -> list[pathlib.Path]:
    """A run's files in a format; they are in their place when all of them are whole."""
    from analysis import exports
    with tempfile.TemporaryDirectory(prefix=".export-", dir=folder) as scratch:
        made: list[pathlib.Path] = exports.module(name).export(run, pathlib.Path(scratch), stem)
        for path in made:
            os.replace(path, folder / path.name)
    return [folder / path.name for path in made]


def _known(name: str, names: list[str]) -> str:
    if name == "parquet":
        raise UsageError("--format parquet: pandas needs pyarrow or fastparquet for it, which Debian does not have; "
                         "raw tables are CSV (docs/howto/exports.md)")
    if name not in names:
        raise UsageError(f"--format {name}: no such format; {guesses.alternatives(name, names)}")
    return name


def _runs(name: str) -> tuple[list[tuple[str, Run]], list[str]]:
    """([(how its files begin, run)], what is wrong with others): of an experiment, those that finished."""
    from analysis.read.experiment import Experiment
    from analysis.read.runs import Run
    try:
        folder = experiment.find(name)
    except UsageError as no_experiment:
        try:
            path = experiment.find_run(name)
        except UsageError:
            raise no_experiment from None
        run = Run(path)
        if not run.finished:
            raise UsageError(f"{path}: {run.state.message}") from None
        return [(pathlib.Path(name).name, run)], []
    runs = Experiment(folder).runs
    return ([(f"{folder.name}-{run.name}", run) for run in runs if run.finished],
            [f"{run.name}: {run.state.message.splitlines()[0] if run.state.message else run.state.kind}"
             for run in runs if not run.finished])
