# SPDX-License-Identifier: GPL-2.0-only
"""Flow completion time against size."""

from __future__ import annotations

from pathlib import Path

from analysis.drawing import by_size
from analysis.figures import Figure
from analysis.read.experiment import Experiment

ORDER = 40


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    name = "flow_completion"
    if not by_size.draw(experiment, folder, name, "flow_completion_time", "flows_completed", "",
                        "flow completion time (s)"):
        return []
    return [Figure(name, "Flow completion time against size", (
        "From the start of a connection to its last byte, of those that started after warm-up, by the bytes that both "
        "ends were to send; think times of the applications between these bytes are part of it. Those unfinished at "
        "the end count for as long as they lasted (Kaplan and Meier). "
        "Points are medians, thin bars (with up to six controls, a little apart) reach from the lower to the upper "
        "quartile, all averaged over seeds; thick bars are the 95 % intervals of the medians over seeds. A median that "
        "was not reached is not drawn, and a bar whose end was not reached leaves the figure. Lower is better; classes "
        f"with fewer than {by_size.LEAST_TRANSFERS} flows a run are left out.{experiment.drawn_note}"))]
