# SPDX-License-Identifier: GPL-2.0-only
"""Distribution of the sojourn time in the bottleneck queue: of L4S packets, and of all others."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.drawing import style
from analysis.figures import Figure, sojourn
from analysis.metrics.queueing_delay_l4s import by_kind
from analysis.read.experiment import Experiment

ORDER = 36
NAME = "sojourn_l4s"
KINDS = {"l4s": "L4S", "classic": "others"}


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    link = next(iter(experiment.usable_runs[0].bottlenecks), None)
    if link is None:
        return []
    curves = {}
    # a colour for each row: dashes tell the kinds of packets apart
    looks = style.looks([row.label for row in experiment.drawn])
    curve_looks = {}
    for row in experiment.drawn:
        found = [by_kind(run, link) for run in experiment.usable(row)]
        for dash, (kind, word) in enumerate(KINDS.items(), start=1):
            tables = [of_run[kind] for of_run in found if kind in of_run]
            if tables:
                label = f"{row.label}: {word}"
                curves[label] = sojourn.thinned(*sojourn.ccdf(pd.concat(tables)))
                curve_looks[label] = looks[row.label]._replace(dash=dash)
    if not curves:
        return []
    sojourn.script(folder, NAME, curves, curve_looks)
    return [Figure(NAME, f"Sojourn time of L4S packets and of others, {style.direction(link)}",
                   "As above, apart for packets that entered the queue as L4S (ECT(1), solid lines) and for all "
                   "others (dashed lines)." + experiment.drawn_note)]
