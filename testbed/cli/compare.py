# SPDX-License-Identifier: GPL-2.0-only
"""Compare experiments: other kernels, engines, settings or versions.

  testbed compare access-link-load60 access-link-load60-kernel6.1
  testbed compare access-link-load60-quick access-link-load60-quick-ns3
  testbed compare access-link-load60 access-link-load60-limit50 --margin 10%

The first experiment is the reference. Runs with the same congestion control,
point of a sweep, seed and traffic are compared one by one. Where seeds or
traffic differ, means are compared. The page begins with what differs in
scenario, engine, kernel and code (docs/explanation/statistics.md).
"""
from __future__ import annotations

import argparse
import pathlib

from testbed.cli import _comparison, _shared
from testbed.core.errors import UsageError
from testbed.runs import experiment

HELP = "compare experiments: kernels, engines, settings"
GROUP = "Look at results"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reference", help="experiment, by folder or name")
    parser.add_argument("others", metavar="other", nargs="+", help="experiments to compare with it")
    _shared.add_margin_argument(parser)
    parser.add_argument("--output", metavar="FOLDER", type=pathlib.Path,
                        help="where the page and tables go (default: compare-REFERENCE-OTHER in the results folder)")


def main(arguments: argparse.Namespace) -> int:
    folders: list[pathlib.Path] = []
    for name in (arguments.reference, *arguments.others):
        folder = experiment.find(name)
        if folder in folders:
            raise UsageError(f"{name}: the same experiment as {folder.name}; "
                             "which is the other one?")
        folders.append(folder)
    _comparison.make(folders, arguments.margin, arguments.output)
    return 0
