# SPDX-License-Identifier: GPL-2.0-only
"""What a scenario expects (`expect:`), after its runs: judged, told, and written for continuous integration."""
from __future__ import annotations

import argparse
import pathlib
from collections.abc import Sequence

from testbed.errors import ExpectationFailed, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--junit", metavar="FILE", type=pathlib.Path,
                        help="write verdicts and what the scenario expects as test cases, in JUnit's XML")


def check(arguments: argparse.Namespace) -> None:
    """UsageError if --junit names a file that there can be none of; before anything runs."""
    path = arguments.junit
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise UsageError(f"--junit {path}: " + ("a folder; a file expected" if path.is_dir() else "no such folder"))


def judge(arguments: argparse.Namespace, folders: Sequence[pathlib.Path]) -> str:
    """Tell each expectation of the experiments and write --junit; returns what is wrong, '' if nothing."""
    from analysis import expectations, junit
    from analysis.experiment import Experiment
    from analysis.tables import Results
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
    if arguments.junit is not None:
        junit.write(arguments.junit, judged)
        print(f"test cases: {arguments.junit}")
    total = sum(len(outcomes) for _, outcomes in judged)
    return f"of {total} expectations, " + ", ".join(f"{count} {result}" for result, count in wrong.items() if count) \
        if any(wrong.values()) else ""


def fail(wrong: str) -> None:
    """ExpectationFailed if something is wrong."""
    if wrong:
        raise ExpectationFailed(wrong)
