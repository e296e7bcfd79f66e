# SPDX-License-Identifier: GPL-2.0-only
"""Transfer time against size: medians and quartiles per size class and row."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd

from analysis import stats
from analysis.drawing import gnuplot, legend, style
from analysis.flows import sizes
from analysis.read.experiment import Experiment, Row

MOST_WITH_BARS = 6   # controls, above which their quartiles hide each other
LEAST_TRANSFERS = 5  # per run, below which quartiles of a class mean little


def draw(experiment: Experiment, folder: Path, name: str, metric: str, count: str,
         prefix: str, y_label: str, ratio: bool = False) -> bool:
    """Draw <metric>_p25/_p50/_p75, averaged over seeds (ratio: geometrically); False when no row has them.

    Thin bars are quartiles, thick ones the 95 % interval of the median over seeds.
    """
    data: dict[str, pd.Series] = {}
    for row in experiment.drawn:
        table = _table(experiment, row, metric, count, prefix, ratio)
        if table is not None:
            for column in table:
                data[f"{row.label} {column}"] = table[column].reset_index(drop=True)
    drawn = [row for row in experiment.drawn if f"{row.label} size_bytes" in data]
    if not drawn:
        return False
    looks = experiment.looks(drawn)
    columns = legend.columns([row.label for row in drawn])
    intervals, curves = [], []      # in this order, so that nothing hides a line
    for place, label in enumerate(looks):
        look = looks[label]
        # Only the bars stand apart: moved curves would look like longer or shorter times.
        shift = 10 ** (0.16 * ((place + 0.5) / len(drawn) - 0.5))
        size, low, middle, high, ci_low, ci_high = (
            f"column({gnuplot.quote(f'{label} {column}')})"
            for column in ("size_bytes", "p25", "p50", "p75", "p50_ci95_low", "p50_ci95_high"))
        if len(drawn) <= MOST_WITH_BARS:
            intervals.append(f"'{name}.csv' using ({shift:.4f} * {size}):({ci_low}):(0):({ci_high} - {ci_low})"
                             f" with vectors nohead linewidth 5 linecolor '{style.band(look.colour)}'")
            curves.append(f"'{name}.csv' using ({shift:.4f} * {size}):({low}):(0):({high} - {low})"
                          f" with vectors nohead linewidth 0.8 linecolor '{look.colour}'")
        curves.append(f"'{name}.csv' using ({size}):({middle}) with linespoints linewidth 1.5 "
                      f"dashtype {look.dash} pointtype {look.point} pointsize 0.7 "
                      f"linecolor '{look.colour}' title {gnuplot.quote(label)}")
    sizes_drawn, times = _range(data, "size_bytes"), _range(data, "p25", "p50", "p75")
    bottom, top = times[0] / 1.3, times[1] * 1.3
    # a bar whose end was not reached leaves the plot; a median that was not reached is not drawn
    data = {key: column.replace(np.inf, 100 * top if key.endswith("p75") else np.nan) for key, column in data.items()}
    for key, column in data.items():
        if "ci95" in key:           # a logarithmic axis has no zero
            data[key] = column.clip(lower=bottom / 100)
    body = ["set logscale xy", f"set ytics ({style.log_ticks(bottom, top)})",
            f"set xrange [{sizes_drawn[0] / 1.6:g}:{sizes_drawn[1] * 1.6:g}]",
            f"set yrange [{bottom:g}:{top:g}]",
            f"set key above left maxcols {columns} samplen 2",
            "set xtics ('10 B' 10, '100 B' 100, '1 kB' 1e3, '10 kB' 1e4, "
            "'100 kB' 1e5, '1 MB' 1e6, '10 MB' 1e7, '100 MB' 1e8, '1 GB' 1e9)",
            "set xlabel 'size'", f"set ylabel {gnuplot.quote(y_label)}", gnuplot.plot(*intervals, *curves)]
    gnuplot.draw(folder, name, pd.DataFrame(data), body, height=460)
    return True


def _range(data: dict[str, pd.Series], *endings: str) -> tuple[float, float]:
    """Smallest and largest positive finite value of the columns with these endings; (1, 1) if there is none."""
    values = np.concatenate([column.to_numpy() for name, column in data.items()
                             if name.endswith(endings)])
    values = values[(values > 0) & np.isfinite(values)]
    return (values.min(), values.max()) if len(values) else (1.0, 1.0)


def _table(experiment: Experiment, row: Row, metric: str, count: str,
           prefix: str, ratio: bool) -> pd.DataFrame | None:
    """Of one row: size_bytes (geometric middle of the class), p25, p50, p75 averaged over seeds, interval of p50."""
    runs = experiment.usable(row)
    if not runs:
        return None
    values = pd.concat([experiment.values(run) for run in runs])
    bounds = values["scope"].map(sizes.bounds)
    values = values[bounds.notna() & (bounds.str[0] == prefix)]
    samples = {key: group.tolist() for key, group in values.groupby(["metric", "scope"])["value"]}
    rows = []
    for scope in values["scope"].unique():
        transfers = samples.get((count, scope), [])
        if (f"{metric}_p50", scope) not in samples or sum(transfers) / len(transfers) < LEAST_TRANSFERS:
            continue
        _, low, high = sizes.bounds(scope) or ("", 1, 1)
        p25, p50, p75 = (stats.summarise(samples[f"{metric}_{name}", scope], ratio) for name in ("p25", "p50", "p75"))
        rows.append((math.sqrt(low * high), p25.mean, p50.mean, p75.mean, p50.low, p50.high))
    columns = ["size_bytes", "p25", "p50", "p75", "p50_ci95_low", "p50_ci95_high"]
    return pd.DataFrame(sorted(rows), columns=columns).astype(float) if rows else None
