# SPDX-License-Identifier: GPL-2.0-only
"""Drop rate per CCA with its confidence interval."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis import stats
from analysis.drawing import gnuplot, style
from analysis.figures import Figure
from analysis.metrics import load_metrics
from analysis.read.experiment import Experiment
from analysis.read.runs import Run

ORDER = 38


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    """Bars for two CCAs or more; a single one is in the table already."""
    link = next(iter(experiment.usable_runs[0].bottlenecks), None)
    rows: list[tuple[str, float, float | None, float | None]] = []
    for row in experiment.drawn:
        values = [value for run in experiment.usable(row) for value in _drop_rates(run, link)]
        if values:
            found = stats.summarise(values)
            rows.append((row.label, found.mean, found.low, found.high))
    if link is None or len(rows) < 2 or not any(mean for _, mean, _, _ in rows):
        return []
    name = "drop_rate"
    _script(experiment, folder, name, rows)
    return [Figure(name, f"Drop rate, {style.direction(link)}",
                   "Packets dropped at the bottleneck in percent of the packets offered to it, "
                   "after warm-up. Bars are means over seeds, lines their 95 % confidence "
                   "intervals; a bar without a line comes from a single seed. Lower is better."
                   + experiment.drawn_note)]


def _drop_rates(run: Run, link: str | None) -> list[float]:
    values = load_metrics(run)
    mine = (values["metric"] == "drop_rate") & (values["scope"] == link)
    return [float(value) for value in values[mine]["value"]]


def _script(experiment: Experiment, folder: Path, name: str,
            rows: list[tuple[str, float, float | None, float | None]]) -> None:
    looks = experiment.looks(experiment.drawn)
    data = pd.DataFrame(rows, columns=["label", "mean_percent", "ci95_low", "ci95_high"])
    ticks = ", ".join(f"{gnuplot.tick(label)} {place}" for place, label in enumerate(data["label"]))
    parts = [f"'{name}.csv' using ($0 == {place} ? {place} : NaN):'mean_percent' with boxes "
             f"fillstyle solid 0.75 noborder fillcolor '{looks[label].colour}'"
             for place, label in enumerate(data["label"])]
    # A drop rate is not negative, so neither is what is drawn of its interval.
    low = "(column('ci95_low') < 0 ? 0 : column('ci95_low'))"
    parts.append(f"'{name}.csv' using ($0):{low}:(0):(column('ci95_high') - {low}) "
                 "with vectors heads size 0.06,90 linewidth 1.5 linecolor '#222222'")
    crowded = sum(len(label) + 3 for label in data["label"]) > 110
    body = ["set boxwidth 0.5", f"set xrange [-0.6:{len(data) - 0.4:g}]", "set yrange [0:*]",
            f"set xtics ({ticks}){' rotate by -20' if crowded else ''} scale 0",
            "unset grid; set grid ytics linecolor '#dddddd' linewidth 1",
            "set ylabel 'drop rate (%)'", gnuplot.plot(*parts)]
    gnuplot.draw(folder, name, data, body, height=400 if crowded else 320)
