# SPDX-License-Identifier: GPL-2.0-only
"""A flow that joins another one, in a sweep: the ratio of their throughputs, and what the bottleneck drops."""

from __future__ import annotations

from pathlib import Path

from analysis.figures import Figure
from analysis.figures.sweep import Quantity, panels
from analysis.metrics import load_metrics
from analysis.read.experiment import Experiment

ORDER = 2   # before the other figures of sweeps
_RATIO = "throughput_ratio_joined_first"


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    """Against the axis with the most values, so that the others have as few columns of panels as can be."""
    varied = sorted((axis for axis in experiment.axes if len(axis.values) > 1), key=lambda axis: -len(axis.values))
    metrics = load_metrics(experiment.usable_runs[0])
    scopes = metrics.loc[metrics["metric"] == _RATIO, "scope"].tolist()
    if not varied or not scopes or experiment.centre is not None:
        return []
    link = next(iter(experiment.usable_runs[0].bottlenecks))
    quantities = [Quantity(_RATIO, scopes[0], "joined : first", ratio=True),
                  Quantity("drop_rate", link, "drop rate (%)")]
    return panels(experiment, folder, varied[0], "joining", "Throughput of the flow that joined over that of the first",
                  quantities)
