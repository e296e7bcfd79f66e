# SPDX-License-Identifier: GPL-2.0-only
"""Queueing delay of the bottleneck over time."""

from __future__ import annotations

from pathlib import Path

from analysis.drawing import timeseries
from analysis.figures import Figure
from analysis.read import series
from analysis.read.experiment import Experiment

ORDER = 30


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    drawn = timeseries.draw(experiment, folder, "queueing_delay", "queueing delay (ms)",
                            series.queueing_delay_ms)
    if drawn is None:
        return []
    return [Figure("queueing_delay", "Queueing delay over time",
                   "Mean queueing delay at the bottleneck: of the packets that left in each bin "
                   "where their sojourn was recorded, otherwise backlog divided by link rate. "
                   f"{timeseries.legend(experiment, *drawn)}")]
