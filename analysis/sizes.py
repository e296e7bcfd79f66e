# SPDX-License-Identifier: GPL-2.0-only
"""Transfer times by size: logarithmic size classes, two per decade."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from analysis.metrics import Metric
from analysis.runs import Array

SCOPE = re.compile(r"(?:(?P<prefix>\w+)/)?bytes_(?P<low>\d+)_to_(?P<high>\d+)")


def edge(index: Array | int) -> Array:
    """Lower edge of class `index`, bytes: 10^(index/2) rounded up."""
    return np.ceil(np.power(10.0, np.asarray(index) / 2) - 1e-9).astype(np.int64)


def classes(sizes_bytes: Array) -> Array:
    """Class of every size >= 1 byte; size s is in class k when edge(k) <= s < edge(k+1)."""
    return np.searchsorted(edge(np.arange(26)), sizes_bytes, side="right") - 1


def scope(index: int, prefix: str = "") -> str:
    """Scope of a size class in metrics.csv, e.g. bytes_1000_to_3163 (high excluded)."""
    text = f"bytes_{edge(index)}_to_{edge(index + 1)}"
    return f"{prefix}/{text}" if prefix else text


def bounds(text: str) -> tuple[str, int, int] | None:
    """(prefix, low, high) of a size-class scope, None for any other scope."""
    match = SCOPE.fullmatch(text)
    return (match["prefix"] or "", int(match["low"]), int(match["high"])) if match else None


def describe(name: str, count_name: str, unit: str, scope_all: str, prefix: str,
             times: Array, sizes_bytes: Array) -> list[Metric]:
    """Count, mean and percentiles of transfer times, overall and by size class.

    Quartiles interpolate linearly between order statistics.
    """
    if not len(times):
        return []
    found = [Metric(count_name, scope_all, "1", float(len(times))),
             Metric(f"{name}_mean", scope_all, unit, float(np.mean(times)))]
    found += [Metric(f"{name}_p{percent}", scope_all, unit, float(np.percentile(times, percent)))
              for percent in (50, 95, 99)]
    sized = sizes_bytes >= 1
    grouped = pd.Series(times[sized]).groupby(classes(sizes_bytes[sized]))
    for index, group in grouped:
        values = group.to_numpy()
        low, middle, high = (float(np.percentile(values, percent)) for percent in (25, 50, 75))
        for metric, metric_unit, value in (
                (count_name, "1", len(values)), (f"{name}_mean", unit, values.mean()),
                (f"{name}_p25", unit, low), (f"{name}_p50", unit, middle),
                (f"{name}_p75", unit, high)):
            found.append(Metric(metric, scope(index, prefix), metric_unit, float(value)))
    return found
