# SPDX-License-Identifier: GPL-2.0-only
"""Run packet scripts against the guest kernel: which packets it sends, and when.

  testbed script                            all of packet-scripts/
  testbed script FILE.pkt ...               scripts of your own
  testbed script FILE.pkt --cca ./tcp_mine.c   its sockets use your module
  testbed script FILE.pkt --kernel newest   another kernel
  testbed script FILE.pkt --verbose         show all packets with their times

A script is in the language of packetdrill. It runs in virtual time, where
times are exact (docs/howto/packet-scripts.md).
Exit codes: 0 all pass, 1 a script fails, 2 a script cannot be read.
"""
from __future__ import annotations

import argparse
import pathlib
import re

from testbed.cli import _expectations, _shared

HELP = "run packet scripts against the guest kernel"
GROUP = "Run experiments"
#: it says what it finds, and keeps nothing
NO_RESULTS = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="packet scripts (default: all of packet-scripts/)")
    parser.add_argument("--cca", metavar="CCA", help="congestion control of all sockets: a name, or the path of a "
                        "module (default: what the script says)")
    parser.add_argument("--ip-version", choices=("ipv4", "ipv6", "ipv4-mapped-ipv6"),
                        help="for scripts that do not say it (default: ipv4)")
    parser.add_argument("--tolerance-us", type=_microseconds, metavar="N",
                        help="how far a time may be off, for scripts that do not say it (default: 0)")
    parser.add_argument("--tolerance-percent", metavar="N", help="the same as a share of the time since the event "
                        "before; the larger counts (default: 0)")
    parser.add_argument("--define", action="append", default=[], type=_define, metavar="NAME=VALUE",
                        help="what a name in the scripts stands for; may be repeated")
    parser.add_argument("--junit", metavar="FILE", type=pathlib.Path,
                        help="write the results to this file, too, in the format of JUnit")
    parser.add_argument("--verbose", action="store_true", help="show what scripts print, also of those that pass")
    _shared.add_engine_options(parser, _shared.KERNEL_OPTIONS)


def main(arguments: argparse.Namespace) -> int:
    from testbed.packet_scripts import results, runner
    files = arguments.files or sorted(map(str, runner.FOLDER.glob("*.pkt")))
    given = {name: value for name, value in (("ip_version", arguments.ip_version),
                                             ("tolerance_usecs", arguments.tolerance_us),
                                             ("tolerance_percent", arguments.tolerance_percent)) if value is not None}
    sources = [runner.read(file, given, arguments.define) for file in files]
    _expectations.check(arguments)
    carried_out = runner.runner(_shared.engine_options(arguments), _shared.reporter())
    told = carried_out.run(sources, arguments.cca)
    print("TAP version 13", f"1..{len(sources)}", sep="\n", flush=True)
    outcomes = []
    for number, outcome in enumerate(told, 1):
        outcomes.append(outcome)
        print(*results.lines(number, outcome, arguments.verbose), sep="\n", flush=True)
    failed = sum(not outcome.ok for outcome in outcomes)
    skipped = sum(bool(outcome.skipped) for outcome in outcomes)
    print(f"# Linux {carried_out.kernel.release}: {len(outcomes) - failed - skipped} of {len(outcomes)} pass, "
          f"{failed} fail, {skipped} skipped")
    if arguments.junit:
        results.write_junit(arguments.junit, outcomes, carried_out.kernel.release)
    return 1 if failed else 0


def _microseconds(text: str) -> str:
    if not re.fullmatch(r"\d{1,10}", text):
        raise argparse.ArgumentTypeError(f"{text!r}: a number of microseconds expected")
    return text


def _define(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not re.fullmatch(r"[A-Za-z_]\w*", name) or not re.fullmatch(r"[\w-]{1,200}", value):
        raise argparse.ArgumentTypeError(f"{text!r}: NAME=VALUE expected, such as TFO_COOKIE=b0e1a2c3")
    return name, value
