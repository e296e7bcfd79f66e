# SPDX-License-Identifier: GPL-2.0-only
"""Analyse the packets that the probe pcap captured in a run.

  testbed run two-hosts --quick --probe pcap
  testbed analyse results/two-hosts-quick/runs/cubic-seed1 --tcptrace

Shows what each end of each TCP connection sent, by its sequence numbers
(docs/howto/captures.md).
"""
from __future__ import annotations

import argparse
import pathlib
from typing import TYPE_CHECKING

from testbed.core.errors import UsageError

if TYPE_CHECKING:
    from analysis.packets.captures import Sequence

HELP = "analyse captured packets"
GROUP = "Look at results"
#: of a capture, those of the ways with most data are drawn
_MOST_DRAWN = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its id")
    parser.add_argument("--tcptrace", action="store_true", help="also print tcptrace's output for each capture")
    parser.add_argument("--graphs", metavar="FOLDER", type=pathlib.Path,
                        help="also write tcptrace's time sequence, throughput and round-trip times, as xplot files "
                        "and pictures")


def main(arguments: argparse.Namespace) -> int:
    from analysis.packets import captures, tcptrace
    from testbed.runs import experiment
    run = experiment.find_run(arguments.run)
    found = captures.files(run)
    if not found:
        raise UsageError(f"{run}: no captures in raw/; they come with --probe pcap")
    if arguments.graphs and arguments.graphs.exists() and not arguments.graphs.is_dir():
        raise UsageError(f"--graphs {arguments.graphs}: not a folder")
    for path in found:
        print(path.name)
        ways = captures.sequences(captures.segments(path))
        for (src, dst), one in ways.items():
            span_us = one.last_us - one.first_us
            rate = f", {one.new_bytes * 8 / span_us:.3f} Mbit/s" if span_us and one.new_bytes else ""
            print(f"  {src} > {dst}: {one.segments} segments, {one.new_bytes} bytes{rate}, "
                  f"{one.sent_again} sent again, {one.gap_bytes} bytes missing"
                  + (f", {one.copies} copies" if one.copies else ""))
        if arguments.tcptrace:
            print(tcptrace.text(path))
        if arguments.graphs:
            _draw(path, ways, arguments.graphs)
    return 0


def _draw(path: pathlib.Path, ways: dict[tuple[str, str], Sequence], folder: pathlib.Path) -> None:
    """Files FOLDER/<capture>-<place>-<graph>.xpl, .csv, .gp, .svg and .png, the way with most data first."""
    from analysis.packets import tcptrace, xplot
    sending = sorted((way for way, one in ways.items() if one.new_bytes), key=lambda way: -ways[way].new_bytes)
    for place, (src, dst) in enumerate(sending[:_MOST_DRAWN], start=1):
        stem = f"{path.name.partition('.')[0]}-{place}-"
        for name, file in tcptrace.graphs(path, src, dst, folder, stem).items():
            meanings = tcptrace.MEANINGS[name]
            graph = xplot.read(file)
            if xplot.draw(graph.only(tcptrace.KINDS[name], meanings), folder, f"{stem}{name}", meanings):
                print(f"  {src} > {dst}: {folder / stem}{name}.svg")
    if len(sending) > _MOST_DRAWN:
        print(f"  of {len(sending)} that send data the {_MOST_DRAWN} with most of it are drawn")
