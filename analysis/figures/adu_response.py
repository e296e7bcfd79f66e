# SPDX-License-Identifier: GPL-2.0-only
"""ADU response time against size, in the loaded direction."""

from __future__ import annotations

from pathlib import Path

from analysis.drawing import by_size, style
from analysis.figures import Figure
from analysis.read.experiment import Experiment
from analysis.read.runs import Run

ORDER = 50


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    name = "adu_response"
    directions = load_directions(experiment.usable_runs[0])
    if not directions or not by_size.draw(experiment, folder, name, "adu_response_time",
                                          "adus_delivered", directions[0], "ADU response time (ms)"):
        return []
    return [Figure(name, f"ADU response time against size, {style.direction(directions[0])}",
                   "From the moment an application begins to write a data unit until its peer has "
                   "read the last byte: what a user waits for, without think times. Points are "
                   "medians, bars quartiles, as in the figure before; lower is better."
                   + experiment.drawn_note)]


def load_directions(run: Run) -> list[str]:
    """The directions in which sources send data, that of the first loaded link first."""
    first = next((link.direction for link in run.bottlenecks.values()), "")
    found = dict.fromkeys(name for pair in run.directions().values() for name in pair[::-1])
    return sorted(found, key=lambda name: name != first)
