# SPDX-License-Identifier: GPL-2.0-only
"""Drop rate per CCA with its confidence interval."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis import gnuplot, stats, style
from analysis.figures import Figure
from analysis.metrics import load_metrics
from analysis.runs import Experiment

ORDER = 38


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    """Bars for two CCAs or more; a single one is in the table already."""
    link = next(iter(experiment.usable_runs[0].bottlenecks), None)
    rows = []
    for cca in experiment.ccas:
        values = [value for run in experiment.usable(cca) for value in _drop_rates(run, link)]
        if values:
            found = stats.summarise(values)
            rows.append((cca, found.mean, found.low, found.high))
    if len(rows) < 2 or not any(mean for _, mean, _, _ in rows):
        return []
    name = "drop_rate"
    _script(experiment, folder, name, rows)
    return [Figure(name, f"Drop rate, {style.direction(link)}",
                   "Packets dropped at the bottleneck in percent of the packets offered to it, "
                   "after warm-up. Bars are means over seeds, lines their 95 % confidence "
                   "intervals; a bar without a line comes from a single seed. Lower is better.")]


def _drop_rates(run, link: str) -> list[float]:
    values = load_metrics(run)
    return values[(values["metric"] == "drop_rate") & (values["scope"] == link)]["value"].tolist()


def _script(experiment: Experiment, folder: Path, name: str, rows: list[tuple]) -> None:
    looks = style.looks(experiment.ccas)
    data = pd.DataFrame(rows, columns=["cca", "mean_percent", "ci95_low", "ci95_high"])
    ticks = ", ".join(f"{gnuplot.quote(cca)} {place}" for place, cca in enumerate(data["cca"]))
    parts = [f"'{name}.csv' using ($0 == {place} ? {place} : NaN):'mean_percent' with boxes "
             f"fillstyle solid 0.75 noborder fillcolor '{looks[cca].colour}'"
             for place, cca in enumerate(data["cca"])]
    # A drop rate is not negative, so neither is what is drawn of its interval.
    low = "(column('ci95_low') < 0 ? 0 : column('ci95_low'))"
    parts.append(f"'{name}.csv' using ($0):{low}:(0):(column('ci95_high') - {low}) "
                 "with vectors heads size 0.06,90 linewidth 1.5 linecolor '#222222'")
    body = ["set boxwidth 0.5", f"set xrange [-0.6:{len(data) - 0.4:g}]", "set yrange [0:*]",
            f"set xtics ({ticks}){' rotate by -30' if len(data) > 8 else ''} scale 0",
            "unset grid; set grid ytics linecolor '#dddddd' linewidth 1",
            "set ylabel 'drop rate (%)'", gnuplot.plot(*parts)]
    gnuplot.draw(folder, name, data, body, height=320 if len(data) <= 8 else 380)
