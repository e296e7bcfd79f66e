# SPDX-License-Identifier: GPL-2.0-only
"""What metrics are called and in which unit they are, without computing or importing any.

Each file that computes metrics says so itself: `UNITS = {"throughput_mean": "Mbit/s", ...}`, a literal; and which of
them are known of a part of a run, too: `WINDOWED`; or of any sender, be it the kernel's TCP or a program:
`OF_ANY_SENDER`.
"""
from __future__ import annotations

import ast
import functools
import pathlib
from collections.abc import Iterable
from typing import cast

from testbed import PROJECT_DIR

#: modules whose metrics are of two runs: analysis/metrics/ has those of one
OF_TWO_RUNS = ("analysis.flows.camps", "analysis.flows.slowdown")


@functools.cache
def windowed() -> frozenset[str]:
    """Metrics that are known of a part of a run, too: `WINDOWED = {"throughput_mean", ...}` of their files."""
    return frozenset(metric for path in _paths() for metric in cast(Iterable[str], _literal(path, "WINDOWED")))


@functools.cache
def of_any_sender() -> dict[str, str]:
    """{metric: the same metric, or what stands in its place} of those that a program and the kernel's TCP both have.

    Files say `OF_ANY_SENDER = {"arrived_rate_l2": "mean_throughput_l4"}`: a metric, and the metric of TCP that it
    replaces, or "".
    """
    found: dict[str, str] = {}
    for path in _paths():
        for metric, of_tcp in cast(dict[str, str], _literal(path, "OF_ANY_SENDER")).items():
            found |= {metric: metric} | ({of_tcp: metric} if of_tcp else {})
    return found


@functools.cache
def units() -> dict[str, str]:
    """{metric: unit} of all files that compute metrics."""
    found: dict[str, str] = {}
    for path in _paths():
        found.update(cast(dict[str, str], _literal(path, "UNITS")))
    return found


def _paths() -> list[pathlib.Path]:
    return [*sorted((PROJECT_DIR / "analysis/metrics").glob("[a-z]*.py")),
            *(PROJECT_DIR / f"{name.replace('.', '/')}.py" for name in OF_TWO_RUNS)]


def _literal(path: pathlib.Path, name: str) -> object:
    """A constant of a file; {} of one without it, or that is no Python: that is told where its metrics are missed."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return {}
    for node in body:
        if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == [name]:
            try:
                return ast.literal_eval(node.value)
            except ValueError:
                return {}
    return {}
