# SPDX-License-Identifier: GPL-2.0-only
"""Write what a link offers over a run of a scenario as a trace in mahimahi's format.

  testbed trace access-link right_to_left --quick
  testbed trace my.yaml r1_to_r2 --output my.trace
"""
from __future__ import annotations

import argparse
import pathlib

from testbed import scenario
from testbed.cli import _runs
from testbed.errors import UsageError
from testbed.files import write_output
from topologies import mahimahi, varying

HELP = "what a link offers over a run, as a trace in mahimahi's format"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _runs.add_choice_arguments(parser, with_ccas=False)
    _runs.add_setting_arguments(parser)
    parser.add_argument("link", help="name of a link direction, such as right_to_left")
    parser.add_argument("--output", metavar="FILE", type=pathlib.Path, help="where to (default: LINK.trace)")


def main(arguments: argparse.Namespace) -> int:
    loaded = scenario.load(arguments.scenario, _runs.choices(arguments), arguments.quick, arguments.settings)
    links = {link["name"]: link for link in loaded.network["links"]}
    if arguments.link not in links:
        raise UsageError(f"{arguments.link}: {loaded.name} has no such link; there are: {', '.join(links)}")
    link, until_us = links[arguments.link], loaded.timing.duration_us
    if varying.mean_rate_bps(link, 0, until_us) * until_us / 8e6 > mahimahi.MOST_LINES * mahimahi.FRAME_BYTES:
        raise UsageError(f"{arguments.link} offers more than {mahimahi.MOST_LINES} opportunities in "
                         f"{until_us / 1e6:g} s: more than a trace may have")
    if link.get("opportunities"):
        times_ms = [at_us // 1000 for at_us, count in varying.opportunities(link, 0, until_us) for _ in range(count)]
    else:
        times_ms = list(mahimahi.of_rates((begin_us, end_us, varying.carries_bps(state))
                                          for begin_us, end_us, state in varying.spans(link, 0, until_us)))
    output = arguments.output or pathlib.Path(f"{arguments.link}.trace")
    write_output(output, mahimahi.text(times_ms))
    print(f"{output}: {len(times_ms)} opportunities in {until_us / 1e6:g} s")
    return 0
