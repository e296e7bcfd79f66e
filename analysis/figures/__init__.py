# SPDX-License-Identifier: GPL-2.0-only
"""Figures of an experiment.  Every file in this folder is found by listing it.

A figure file has `ORDER` (its place in the report) and
`draw(experiment, folder) -> list[Figure]`, which draws with analysis.drawing.gnuplot
and returns nothing when the runs lack what it shows.
"""

from __future__ import annotations

import importlib
import traceback
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from analysis.drawing import gnuplot
from analysis.read.experiment import Experiment
from analysis.read.runs import AnalysisError


class Figure(NamedTuple):
    """A drawn figure: NAME.svg, .png, .gp and .csv in the figures folder."""

    name: str
    title: str
    caption: str


def names() -> list[str]:
    """Names of the figure files."""
    return sorted({path.stem for folder in __path__ for path in Path(folder).glob("[a-z]*.py")})


def module(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")


def draw_all(experiment: Experiment, folder: Path) -> tuple[list[Figure], list[dict[str, str]]]:
    """Draw every figure that the usable runs of the experiment allow, in reading order.

    Also returns the errors {where, message, traceback} of those that could not be drawn.
    MissingProgram without gnuplot.
    """
    importlib.invalidate_caches()
    folder.mkdir(parents=True, exist_ok=True)
    drawn: list[tuple[int, str, list[Figure]]] = []
    errors: list[dict[str, str]] = []
    with gnuplot.one_process():
        for name in names() if experiment.usable_runs else ():
            try:
                figure = module(name)
                drawn.append((figure.ORDER, name, figure.draw(experiment, folder)))
            except gnuplot.MissingProgram:
                raise
            except Exception as error:      # the fault of the figure, or of what it was given to read
                said = str(error) if isinstance(error, AnalysisError) else f"{type(error).__name__}: {error}"
                errors.append({"where": f"figure {name}", "message": said, "traceback": traceback.format_exc()})
    return [figure for _, _, figures in sorted(drawn, key=lambda entry: entry[:2]) for figure in figures], errors
