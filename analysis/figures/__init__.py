# SPDX-License-Identifier: GPL-2.0-only
"""Figures of an experiment.  Every file in this folder is found by listing it.

A figure file has `ORDER` (its place in the report) and
`draw(experiment, folder) -> list[Figure]`, which draws with analysis.gnuplot
and returns nothing when the runs lack what it shows.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import NamedTuple

from analysis.runs import Experiment


class Figure(NamedTuple):
    """A drawn figure: NAME.svg, .png, .gp and .csv in the figures folder."""

    name: str
    title: str
    caption: str


def modules() -> list:
    """The figure files in reading order."""
    found = [importlib.import_module(f"{__name__}.{info.name}")
             for info in pkgutil.iter_modules(__path__)]
    return sorted(found, key=lambda module: (module.ORDER, module.__name__))


def draw_all(experiment: Experiment, folder: Path) -> list[Figure]:
    """Draw every figure that the usable runs of the experiment allow."""
    if not experiment.usable_runs:
        return []
    return [figure for module in modules() for figure in module.draw(experiment, folder)]
