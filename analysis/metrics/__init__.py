# SPDX-License-Identifier: GPL-2.0-only
"""Metrics of one run.  Every file in this folder is found by listing it.

A metric file has `compute(run) -> list[Metric]` and returns nothing for what
the run did not record.  Definitions and sources: docs/metrics.md.
"""

from __future__ import annotations

import importlib
import math
import os
import pkgutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from analysis.runs import AnalysisError, Run


class Metric(NamedTuple):
    """One number: what, of what (a link, a size class, `all`), in which unit."""

    metric: str
    scope: str
    unit: str
    value: float


def modules() -> list:
    """The metric files, by name."""
    return [importlib.import_module(f"{__name__}.{found.name}")
            for found in sorted(pkgutil.iter_modules(__path__), key=lambda found: found.name)]


def compute_metrics(run: Run) -> list[Metric]:
    """All metrics of a run; AnalysisError when a file of it cannot be read."""
    found: list[Metric] = []
    for module in modules():
        for metric in module.compute(run):
            if not math.isfinite(metric.value):
                raise AnalysisError(f"{run.path}: {metric.metric} of {metric.scope} "
                                    f"is {metric.value} ({module.__name__})")
            found.append(metric)
    return found


def write_metrics(run: Run | Path | str) -> Path:
    """Compute all metrics of a run and write its metrics.csv atomically."""
    path = run.path if isinstance(run, Run) else Path(run)
    # A Run of its own, so that the large frames are freed afterwards.
    frame = pd.DataFrame(compute_metrics(Run(path)), columns=list(Metric._fields))
    target = path / "metrics.csv"
    handle, temporary = tempfile.mkstemp(prefix=".metrics-", dir=path)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            frame.to_csv(out, index=False, float_format="%.10g")
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    return target


def _newest_input(run: Run) -> float:
    """Latest change of what metrics.csv is made from: raw files, definitions."""
    inputs = list((run.path / "raw").glob("*")) + list(Path(__file__).parent.glob("*.py"))
    return max(path.stat().st_mtime for path in inputs)


def load_metrics(run: Run) -> pd.DataFrame:
    """metrics.csv of a run (metric, scope, unit, value), computed if missing or old."""
    target = run.path / "metrics.csv"
    if not target.exists() or target.stat().st_mtime <= _newest_input(run):
        write_metrics(run)
    try:
        return pd.read_csv(target, dtype={"value": "float64"},
                           usecols=list(Metric._fields))[list(Metric._fields)]
    except (OSError, ValueError) as error:
        raise AnalysisError(f"{target}: {error}") from error
