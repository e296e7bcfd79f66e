# SPDX-License-Identifier: GPL-2.0-only
"""tcptrace on a capture: which connections it sees, what it says of them, and its graphs as xplot files.

https://manpages.debian.org/tcptrace: time sequence (-S), throughput (-T), round-trip times (-R).
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from analysis.read.runs import AnalysisError
from testbed.core import pcap_files

#: what the graphs of one direction are called: tcptrace's end of the file's name -> ours
GRAPHS = {"tsg": "time-sequence", "tput": "throughput", "rtt": "rtt"}
#: {graph: {xplot's colour: what it stands for}}, and which kinds of its elements are drawn: the others would hide them
MEANINGS = {"time-sequence": {"white": "sent", "red": "sent again", "green": "acknowledged", "yellow": "window",
                              "purple": "SACK"},
            "throughput": {"yellow": "of one segment", "red": "of ten", "blue": "average"},
            "rtt": {"red": "samples"}}
KINDS = {"time-sequence": ("line",), "throughput": ("dot",), "rtt": ("dot",)}
_CONNECTION = re.compile(r"^\s*(\d+): (\S+):(\S+) - (\S+):(\S+) \(([a-z]+)2([a-z]+)\)\s+(\d+)>\s+(\d+)<", re.M)


class MissingProgram(AnalysisError):
    """tcptrace is not there."""


class Connection(NamedTuple):
    """number: tcptrace's; one, other: address:port, names: tcptrace's letters for these; packets: both ways."""

    number: int
    one: str
    other: str
    names: tuple[str, str]
    packets: int


def _run(words: list[str], capture: Path, folder: str) -> str:
    """What tcptrace says of a capture; it reads plain files, and writes others into its working directory."""
    try:
        Path(folder, "capture.pcap").write_bytes(pcap_files.as_pcap(capture))
    except (OSError, EOFError, ValueError) as problem:
        raise AnalysisError(f"{capture}: no capture that can be read: {problem}") from None
    try:
        done = subprocess.run(["tcptrace", "-n", *words, "capture.pcap"], cwd=folder, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise MissingProgram("tcptrace is missing (apt-get install tcptrace)") from None
    if done.returncode:
        raise AnalysisError(f"{capture}: tcptrace failed (exit status {done.returncode}): {done.stderr.strip()}")
    return done.stdout


def text(capture: Path) -> str:
    """Its long output with round-trip times."""
    with tempfile.TemporaryDirectory() as folder:
        return _run(["-lr"], capture, folder)


def connections(capture: Path) -> list[Connection]:
    """All that tcptrace sees, in its order."""
    with tempfile.TemporaryDirectory() as folder:
        found = _CONNECTION.findall(_run([], capture, folder))
    return [Connection(int(number), f"{one}:{one_port}", f"{other}:{other_port}", (first, second),
                       int(there) + int(back))
            for number, one, one_port, other, other_port, first, second, there, back in found]


def graphs(capture: Path, src: str, dst: str, target: Path, prefix: str = "") -> dict[str, Path]:
    """{name of GRAPHS: xplot file in `target`} of what `src` sends to `dst` (address:port each). AnalysisError if the
    capture has no such connection; a graph without a point is left out."""
    known = next((one for one in connections(capture) if {one.one, one.other} == {src, dst}), None)
    if known is None:
        raise AnalysisError(f"{capture}: tcptrace sees no connection of {src} and {dst}")
    first, second = known.names if known.one == src else known.names[::-1]
    found = {}
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        _run(["-S", "-T", "-R", f"-o{known.number}"], capture, folder)
        for ending, name in GRAPHS.items():
            file = Path(folder, f"{first}2{second}_{ending}.xpl")
            if file.exists():
                found[name] = target / f"{prefix}{name}.xpl"
                found[name].write_bytes(file.read_bytes())
    return found
