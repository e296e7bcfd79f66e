# SPDX-License-Identifier: GPL-2.0-only
"""Figures of an experiment.  Every file in this folder is found by listing it.

A figure file, or a file of analysis/metrics that draws its own metrics, has `ORDER` (its place in the report) and
`draw(experiment, folder) -> list[Figure]`, which draws with analysis.drawing.gnuplot
and returns nothing when the runs lack what it shows. One with `OVERVIEW` may stand for an experiment on the page of
all experiments: the one with the smallest number that the experiment has. Names of its figures then begin with its own.
"""

from __future__ import annotations

import contextlib
import importlib
import traceback
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from analysis import metrics
from analysis.drawing import gnuplot
from analysis.read.experiment import Experiment
from analysis.read.runs import AnalysisError


class Figure(NamedTuple):
    """A drawn figure: NAME.svg, .png, .gp and .csv in the figures folder."""

    name: str
    title: str
    caption: str


def files() -> list[str]:
    """Modules that draw: those of this folder, and those of analysis/metrics that have a `draw`."""
    here = sorted({path.stem for folder in __path__ for path in Path(folder).glob("[a-z]*.py")})
    return [*(f"{__name__}.{name}" for name in here),
            *(file.__name__ for file in metrics.files() if hasattr(file, "draw"))]


def for_overview() -> list[str]:
    """Names of the files that say most about an experiment, the best first."""
    found = []
    for file in files():
        with contextlib.suppress(Exception):            # what keeps a file from being imported, the report says
            figure = importlib.import_module(file)
            if hasattr(figure, "OVERVIEW"):
                found.append((figure.OVERVIEW, _name(file)))
    return [name for _, name in sorted(found)]


def _name(file: str) -> str:
    return file.rpartition(".")[2]


def files_of(name: str) -> list[str]:
    """The files that may draw a figure of this name, which begins with the file's."""
    return [file for file in files() if f"{name}_".startswith(f"{_name(file)}_")]


def draw_all(experiment: Experiment, folder: Path, only: Collection[str] | None = None) \
        -> tuple[list[Figure], list[dict[str, str]]]:
    """Draw every figure that the usable runs of the experiment allow, in reading order; only: of these files.

    Also returns the errors {where, message, traceback} of those that could not be drawn.
    MissingProgram without gnuplot.
    """
    importlib.invalidate_caches()
    folder.mkdir(parents=True, exist_ok=True)
    drawn: list[tuple[int, str, list[Figure]]] = []
    errors: list[dict[str, str]] = []
    with gnuplot.one_process():
        for file in (files() if only is None else only) if experiment.usable_runs else ():
            try:
                figure = importlib.import_module(file)
                drawn.append((figure.ORDER, file, figure.draw(experiment, folder)))
            except gnuplot.MissingProgram:
                raise
            except Exception as error:      # the fault of the figure, or of what it was given to read
                said = str(error) if isinstance(error, AnalysisError) else f"{type(error).__name__}: {error}"
                errors.append({"where": f"figure {_name(file)}", "message": said, "traceback": traceback.format_exc()})
    return [figure for _, _, figures in sorted(drawn, key=lambda entry: entry[:2]) for figure in figures], errors
