# SPDX-License-Identifier: GPL-2.0-only
"""ADU response time against size, in the loaded direction."""

from __future__ import annotations

from pathlib import Path

from analysis import by_size, style
from analysis.figures import Figure
from analysis.runs import Experiment

ORDER = 50


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    name = "adu_response"
    link = next(iter(experiment.usable_runs[0].bottlenecks), None)
    if link is None or not by_size.draw(experiment, folder, name, "adu_response_time",
                                        "adus_delivered", link, "ADU response time (ms)"):
        return []
    return [Figure(name, f"ADU response time against size, {style.direction(link)}",
                   "From the moment an application begins to write a data unit until its peer has "
                   "read the last byte: what a user waits for, without think times. Points are "
                   "medians, bars quartiles, as in the figure before; lower is better.")]
