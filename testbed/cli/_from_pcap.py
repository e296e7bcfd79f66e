# SPDX-License-Identifier: GPL-2.0-only
"""`testbed tmix from-pcap`: connection vectors of a capture, and an account of what was in it."""
from __future__ import annotations

import argparse
import os
from collections import Counter

from testbed.core import units
from testbed.core.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="pcap or pcapng, taken at one place of the network; compressed or not")
    parser.add_argument("--output", metavar="FILE", required=True, help="compressed if it ends in .gz")
    parser.add_argument("--format", choices=("original", "alternate"), default="alternate")
    parser.add_argument("--quiet-time", metavar="TIME", default="500 ms", dest="quiet",
                        help="a side that is silent for longer begins another data unit (default: %(default)s)")


def carry_out(arguments: argparse.Namespace) -> None:
    """Write the vectors. UsageError for a file that is no capture, or of which no connection is left."""
    from analysis import packets
    from analysis.packets import conversations
    from analysis.read.runs import AnalysisError
    from traffic.tmix.writer import write_vectors
    if os.path.exists(arguments.file) and os.path.exists(arguments.output) \
            and os.path.samefile(arguments.file, arguments.output):
        raise UsageError(f"--output {arguments.output}: is the capture itself")
    counts: Counter[str] = Counter()
    try:
        found = conversations.vectors(packets.tcp_packets(arguments.file, counts), counts, _quiet_ns(arguments.quiet))
    except AnalysisError as problem:
        text = str(problem)
        raise UsageError(text if arguments.file in text else f"{arguments.file}: {text}") from None
    if found:
        try:
            write_vectors(arguments.output, found, arguments.format)
        except ValueError as problem:
            raise UsageError(f"{arguments.file}: a connection that no vector can hold: {problem}") from None
        print(f"{arguments.output}: {len(found)} connections")
    for name, count in counts.items():
        if count:
            print(f"  {name}: {count}")
    if not found:
        raise UsageError(f"{arguments.file}: no connection whose beginning and data are there: nothing written")


def _quiet_ns(text: str) -> int:
    try:
        parsed = units.parse(text)
    except ValueError as problem:
        raise UsageError(f"--quiet-time: {problem}") from None
    if parsed is None or parsed[0] != "us" or parsed[1] < 1:
        raise UsageError(f"--quiet-time {text}: a time such as '500 ms' expected")
    return int(parsed[1]) * 1000
