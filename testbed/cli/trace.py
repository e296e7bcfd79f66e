# SPDX-License-Identifier: GPL-2.0-only
"""Write what a link offers over a run, as a trace in mahimahi's format.

  testbed trace access-link right_to_left --output down.trace
"""
from __future__ import annotations

import argparse
import pathlib

from testbed.cli import _runs
from testbed.core import guesses
from testbed.core.errors import UsageError
from testbed.core.files import write_output
from testbed.scenario import scenario
from topologies.links import mahimahi, varying

HELP = "write what a link offers, as a mahimahi trace"
GROUP = "Set up and explore"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _runs.add_choice_arguments(parser, with_ccas=False)
    _runs.add_setting_arguments(parser)
    parser.add_argument("link", help="name of a link direction, such as right_to_left")
    parser.add_argument("--output", metavar="FILE", type=pathlib.Path, help="(default: LINK.trace)")


def main(arguments: argparse.Namespace) -> int:
    loaded = scenario.load(arguments.scenario, _runs.choices(arguments), arguments.quick, arguments.settings)
    links = {link.name: link for link in loaded.network.links}
    if arguments.link not in links:
        raise UsageError(f"{arguments.link}: {loaded.name} has no such link; "
                         f"{guesses.alternatives(arguments.link, links)}")
    link, until_us = links[arguments.link], loaded.timing.duration_us
    if link.opportunities:
        # an opportunity of a rate is where its frame ends, at the end of the run as well
        times_ms = [at_us // 1000 for at_us, count in varying.opportunities(link, 0, until_us + 1)
                    for _ in range(count)]
    else:
        times_ms = [at_ms for at_ms in mahimahi.of_rates(
            (begin_us, end_us, state.carries_bps)
            for begin_us, end_us, state in varying.spans(link, 0, until_us)) if at_ms * 1000 <= until_us]
    offered, end_ms = len(times_ms), -(-until_us // 1000)
    more = mahimahi.last_line(times_ms, end_ms)
    output = arguments.output or pathlib.Path(f"{arguments.link}.trace")
    write_output(output, mahimahi.text([*times_ms, *more]))
    print(f"{output}: {offered} opportunities in {until_us / 1e6:g} s"
          + "".join(f", and one at {at_ms} ms, after which the trace begins anew" for at_ms in more))
    return 0
