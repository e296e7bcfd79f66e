# SPDX-License-Identifier: GPL-2.0-only
"""Make the report of an experiment (again) from its run folders.

  testbed report access-link-load60 --margin 10%      differences below 10 % of the reference count as none

Verdicts and metrics that are missing, or that other code or another hand made, are made again first. The exit
code is 1 if files of runs are damaged; the report names these runs and all others that it could not use.
"""
from __future__ import annotations

import argparse

from testbed import experiment
from testbed.cli import _shared
from testbed.progress import print_error

HELP = "make the report of an experiment"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", help="folder or name, such as access-link-load60-quick")
    _shared.add_margin_argument(parser)


def main(arguments: argparse.Namespace) -> int:
    from analysis.report import build_report
    report = build_report(experiment.find(arguments.experiment), arguments.margin)
    print(report.path)
    for name, message in report.problems.items():
        print_error(f"{name}: {message}")
    return 1 if report.problems else 0
