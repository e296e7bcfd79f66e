# SPDX-License-Identifier: GPL-2.0-only
"""Make the report of an experiment (again) from its run folders."""
from testbed import results

HELP = "make the report of an experiment"


def add_arguments(parser):
    parser.add_argument("experiment", help="folder or name, such as access-link-load60-quick")


def main(arguments):
    from analysis.report import build_report
    print(build_report(results.find_experiment(arguments.experiment)))
    return 0
