# SPDX-License-Identifier: GPL-2.0-only
"""Compare two experiments: another kernel, engine, setting or version, the same congestion controls.

  testbed compare access-link-load60 access-link-load60-kernel6.1
  testbed compare access-link-load60 access-link-load60-set1f2e3d4c --margin 10%

The first one is the reference. Runs of the same congestion control, point of a sweep, seed and traffic are compared one
by one; where seeds or traffic differ, their means are. What differs between the two in scenario, engine, kernel and
code is said first. docs/statistics.md says what is computed.
"""
from __future__ import annotations

import argparse
import hashlib
import pathlib
import shlex

from testbed import experiment
from testbed.cli import _shared
from testbed.errors import UsageError
from testbed.store import results_dir

HELP = "compare two experiments: kernels, engines, settings"
_LONGEST_NAME = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reference", help="experiment, by folder or name")
    parser.add_argument("other", help="experiment that is compared with it")
    _shared.add_margin_argument(parser)
    parser.add_argument("--output", metavar="FOLDER", type=pathlib.Path,
                        help="where the page and tables go (default: compare-REFERENCE-OTHER in the results folder)")


def main(arguments: argparse.Namespace) -> int:
    reference, other = experiment.find(arguments.reference), experiment.find(arguments.other)
    if reference == other:
        raise UsageError(f"{arguments.other}: the same experiment as {arguments.reference}; which is the other one?")
    from analysis import versus_report
    from analysis.experiment import Experiment
    from analysis.versus import Versus
    versus = Versus(Experiment(reference), Experiment(other), arguments.margin)
    output = arguments.output or results_dir() / _name(reference.name, other.name)
    path = versus_report.write(versus, output, _command(arguments))
    for line in versus_report.lines(versus):
        print(line)
    print(path)
    return 0


def _name(reference: str, other: str) -> str:
    name = f"compare-{reference}-{other}"
    return name if len(name) <= _LONGEST_NAME else f"compare-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _command(arguments: argparse.Namespace) -> str:
    words = ["bin/testbed", "compare", arguments.reference, arguments.other, "--margin", f"{100 * arguments.margin:g}%"]
    return shlex.join(words + (["--output", str(arguments.output)] if arguments.output else []))
