# SPDX-License-Identifier: GPL-2.0-only
"""What a scenario expects (`expect:`), after its runs: judged, told, and written for continuous integration."""
from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
from collections.abc import Sequence

from testbed.cli._parser import Container
from testbed.core.errors import EnvironmentProblem, ExpectationFailed, UsageError
from testbed.core.progress import print_error


@dataclasses.dataclass(frozen=True)
class Judged:
    """wrong: what results are not as expected, in words; unwritten: why --junit could not be written. '' if nothing."""
    wrong: str
    unwritten: str


def add_arguments(parser: Container) -> None:
    parser.add_argument("--junit", metavar="FILE", type=pathlib.Path,
                        help="write verdicts and expectations as test cases, in JUnit XML")


def check(arguments: argparse.Namespace) -> None:
    """UsageError if --junit names a file that there can be none of, EnvironmentProblem if it cannot be written; before
    anything runs."""
    path = arguments.junit
    if path is None:
        return
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError(f"--junit {path}: " + ("a folder; a file expected" if path.is_dir() else "no such folder"))
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise EnvironmentProblem(f"--junit {path}: cannot be written")


def _expects(folder: pathlib.Path) -> bool:
    """Whether an experiment may expect something. What cannot be read is left to those who say what is wrong."""
    try:
        return bool(json.loads((folder / "experiment.json").read_text(encoding="utf-8")).get("expect"))
    except (OSError, ValueError, AttributeError):
        return True


def judge(arguments: argparse.Namespace, folders: Sequence[pathlib.Path]) -> Judged:
    """Print each expectation of the experiments and write --junit. If that cannot be written, print why, and go on."""
    if arguments.junit is None and not any(_expects(folder) for folder in folders):
        return Judged("", "")           # pandas and all that judges take as long to load as a short run takes to judge
    from analysis.read import expectations, junit
    from analysis.read.experiment import Experiment
    from analysis.read.tables import Results
    judged = []
    wrong = {expectations.NOT_MET: 0, expectations.UNKNOWN: 0}
    for folder in folders:
        experiment = Experiment(folder)
        expected = bool(expectations.of_experiment(experiment))
        if not expected and arguments.junit is None:
            continue
        outcomes = expectations.judge(Results(experiment)) if expected else []
        judged.append((experiment, outcomes))
        for one in outcomes:
            print(f"expected of {one.row.label}: {one.expectation.text}: {one.result}: {one.found}")
            if one.result in wrong:
                wrong[one.result] += 1
    unwritten = ""
    if arguments.junit is not None:
        try:
            junit.write(arguments.junit, judged)
            print(f"test cases: {arguments.junit}")
        except EnvironmentProblem as problem:
            unwritten = f"--junit {problem}"
            print_error(unwritten)
    total = sum(len(outcomes) for _, outcomes in judged)
    wrongs = ", ".join(f"{count} {result}" for result, count in wrong.items() if count)
    return Judged(f"of {total} expectations, {wrongs}" if wrongs else "", unwritten)


def fail(judged: Judged) -> None:
    """ExpectationFailed if something is wrong; EnvironmentProblem if that could not be written."""
    if judged.wrong:
        raise ExpectationFailed(judged.wrong)
    if judged.unwritten:
        raise EnvironmentProblem("all is as expected, but that is not written down")
