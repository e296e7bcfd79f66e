# SPDX-License-Identifier: GPL-2.0-only
"""Whether two runs left the same raw data: then nothing that differs between them matters in their scenario.

Equal to the byte, but for what a kernel says of itself before any packet is sent: its release in guest.json, and in
checks.json the usual limit of memory for TCP (net.ipv4.tcp_mem), which follows from how much the kernel leaves.
"""

from __future__ import annotations

from collections.abc import Iterable

from analysis.read.runs import AnalysisError, Run
from testbed.core import shapes

WORDS = "no change in this scenario"
_OF_KERNEL = {
    "guest.json": (("kernel",),),
    "checks.json": (("machine_sysctls", "net.ipv4.tcp_mem"), ("machine_sysctls_wanted", "net.ipv4.tcp_mem"))}


def same(one: Run, other: Run) -> bool:
    """Whether two finished runs have the same raw data, by the hashes under which they were sealed.

    False where a run has no hashes, or a file that they call different cannot be read.
    """
    mine, theirs = (run.status.raw_files_sha256 for run in (one, other))
    if not mine or not theirs or mine.keys() != theirs.keys():
        return False
    different = [name for name in mine if mine[name] != theirs[name]]
    return all(name in _OF_KERNEL for name in different) and all(
        (known := _read(one, name)) is not None and known == _read(other, name) for name in different)


def count(pairs: Iterable[tuple[Run, Run]]) -> tuple[int, int]:
    """(pairs with the same raw data, pairs)"""
    found = [same(one, other) for one, other in pairs]
    return sum(found), len(found)


def _read(run: Run, name: str) -> dict[str, object] | None:
    """A file of raw/ without what a kernel says of itself."""
    try:
        found = shapes.read_json(run.path / "raw" / name)
    except AnalysisError:
        return None
    for *sections, last in _OF_KERNEL[name]:
        at: object = found
        for section in sections:
            at = at.get(section) if isinstance(at, dict) else None
        if isinstance(at, dict):
            at.pop(last, None)
    return found
