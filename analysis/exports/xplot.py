# SPDX-License-Identifier: GPL-2.0-only
"""tcptrace's graphs of the connections in the captures of a run, as files for xplot."""

from __future__ import annotations

from pathlib import Path

from analysis.packets import captures, tcptrace
from analysis.read.runs import AnalysisError, Run

WHAT = "time sequence, throughput and round-trip times of each capture's connections, by tcptrace, for xplot"
#: of a capture, those of the ways with most data
MOST_WAYS = 8


def export(run: Run, folder: Path, stem: str) -> list[Path]:
    """STEM-DEVICE-NUMBER-GRAPH.xpl, of up to eight ways of each capture, that with most data first."""
    found = captures.files(run.path)
    if not found:
        raise AnalysisError(f"{run.path}: no captures in raw/; they come with --probe pcap")
    written: list[Path] = []
    for path in found:
        device = path.name.removeprefix("capture-").partition(".pcap")[0]
        ways = captures.sequences(captures.segments(path))
        sending = sorted((way for way, one in ways.items() if one.new_bytes), key=lambda way: -ways[way].new_bytes)
        for place, (src, dst) in enumerate(sending[:MOST_WAYS], start=1):
            written += tcptrace.graphs(path, src, dst, folder, f"{stem}-{device}-{place}-").values()
    if not written:
        raise AnalysisError(f"{run.path}: its captures have no TCP connection with data")
    return written
