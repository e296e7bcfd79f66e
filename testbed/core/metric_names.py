# SPDX-License-Identifier: GPL-2.0-only
"""What metrics are called and in which unit they are, without computing or importing any.

Each file that computes metrics says so itself: `UNITS = {"throughput_mean": "Mbit/s", ...}`, a literal.
"""
from __future__ import annotations

import ast
import functools
import pathlib

from testbed import PROJECT_DIR

#: modules whose metrics are of two runs: analysis/metrics/ has those of one
OF_TWO_RUNS = ("analysis.flows.camps", "analysis.flows.slowdown")


@functools.cache
def units() -> dict[str, str]:
    """{metric: unit} of all files that compute metrics."""
    found: dict[str, str] = {}
    for path in (*sorted((PROJECT_DIR / "analysis/metrics").glob("[a-z]*.py")),
                 *(PROJECT_DIR / f"{name.replace('.', '/')}.py" for name in OF_TWO_RUNS)):
        found.update(_literal(path))
    return found


def _literal(path: pathlib.Path) -> dict[str, str]:
    """UNITS of a file; {} of one that has none, or that is no Python: that is told where its metrics are missed."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return {}
    for node in body:
        if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == ["UNITS"]:
            try:
                units: dict[str, str] = ast.literal_eval(node.value)
            except ValueError:
                return {}
            return units
    return {}
