# SPDX-License-Identifier: GPL-2.0-only
"""Make one page of all experiments in the results folder: to search, with links to their reports.

  testbed site                       results/index.html
  testbed site --output public       public/index.html, with links to where the results are

Experiments that are damaged or not finished are listed as such. Verdicts are those judged last: `testbed judge` and
`testbed report` judge again what other code has judged. docs/reports.md says what the page can do.
"""
from __future__ import annotations

import argparse
import pathlib

from testbed.core.errors import UsageError
from testbed.runs.store import results_dir

HELP = "make one page of all experiments, to search"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", metavar="DIR", type=pathlib.Path,
                        help="where index.html goes (default: the results folder)")


def main(arguments: argparse.Namespace) -> int:
    from testbed.cli._overview import build
    results = results_dir()
    if not results.is_dir():
        raise UsageError(f"{results}: no results folder; `testbed run` makes one, TESTBED_RESULTS names another")
    print(build(results, {}, arguments.output))
    return 0
