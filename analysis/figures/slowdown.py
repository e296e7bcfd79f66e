# SPDX-License-Identifier: GPL-2.0-only
"""Slowdown against size."""

from __future__ import annotations

from pathlib import Path

from analysis.drawing import by_size
from analysis.figures import Figure
from analysis.flows import slowdown
from analysis.read.experiment import Experiment

ORDER = 42


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    """Nothing without companion runs."""
    name = "slowdown"
    if not experiment.idle or not by_size.draw(
            experiment, folder, name, slowdown.NAME, slowdown.COUNT, "", "slowdown", ratio=True):
        return []
    return [Figure(name, "Slowdown against size", (
        "Completion time over that of the same connection alone on the idle network (under "
        f"{experiment.idle_subject}), both with the think times of the applications; 1 is undisturbed. Connections "
        "drawn from those that start after warm-up, by the bytes both ends were to send; unfinished ones count for "
        "as long as they lasted (Kaplan and Meier). Points are medians, thin bars quartiles, thick ones 95 % intervals "
        "of the medians over seeds, as in the figure of completion times; classes with fewer than "
        f"{by_size.LEAST_TRANSFERS} connections a run are left out."
        f"{experiment.drawn_note}"))]
