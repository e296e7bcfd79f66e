# SPDX-License-Identifier: GPL-2.0-only
"""Figures of an experiment as pictures that a notebook shows."""
from __future__ import annotations

import dataclasses
import pathlib
import tempfile
from typing import Any

import pandas as pd

from analysis import figures
from analysis.drawing.gnuplot import PNG_SCALE
from analysis.read.experiment import Experiment
from analysis.read.runs import AnalysisError
from testbed.core import guesses
from testbed.core.errors import UsageError

#: of a PNG: width and height, in pixels, big-endian
_SIZE = slice(16, 24)


@dataclasses.dataclass(frozen=True, repr=False)
class Picture:
    """A figure: shows itself in a notebook; svg and png are the picture, data is what is drawn."""
    name: str
    title: str
    caption: str
    svg: str
    png: bytes
    data: pd.DataFrame

    def save(self, path: pathlib.Path | str) -> pathlib.Path:
        """Write it as .svg or .png, by the ending of the path, which is returned."""
        path = pathlib.Path(path)
        content = {".svg": self.svg.encode(), ".png": self.png}.get(path.suffix.lower())
        if content is None:
            raise UsageError(f"{path}: a name that ends in .svg or .png expected")
        try:
            path.write_bytes(content)
        except OSError as problem:
            raise UsageError(f"{path}: {problem.strerror}") from None
        return path

    def __repr__(self) -> str:
        return f"<{self.name}: {self.title}. {self.caption}>"

    def _repr_png_(self) -> tuple[bytes, dict[str, Any]]:
        """What a notebook shows, at the size it is drawn for. No SVG: two in a page would share the ids inside."""
        width, height = (int.from_bytes(self.png[_SIZE][place:place + 4], "big") for place in (0, 4))
        return self.png, {"width": width // PNG_SCALE, "height": height // PNG_SCALE}


class Gallery:
    """The figures of an experiment, drawn when they are asked for, in a folder that goes with this object."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._folder = tempfile.TemporaryDirectory(prefix="testbed-figures-")
        self._drawn: dict[str, figures.Figure] = {}
        self._errors: dict[str, str] = {}
        self._all = False

    def titles(self) -> dict[str, str]:
        """{name: title} of all figures that there are of this experiment, in the order of a report."""
        self._draw_all()
        return {name: figure.title for name, figure in self._drawn.items()}

    def picture(self, name: str) -> Picture:
        """UsageError if there is no such figure, AnalysisError if it could not be drawn."""
        if name not in self._drawn and not self._all:
            self._draw(figures.files_of(name))
        if name not in self._drawn:
            self._draw_all()
        figure = self._drawn.get(name)
        if figure is None:
            if name in self._errors:
                raise AnalysisError(f"{self._experiment.path.name}: {name}: {self._errors[name]}")
            raise UsageError(f"no figure {name!r} of these runs; {guesses.alternatives(name, self._drawn)}"
                             if self._drawn else f"no figure {name!r}: these runs have nothing to draw")
        path = pathlib.Path(self._folder.name) / name
        return Picture(name, figure.title, figure.caption, path.with_suffix(".svg").read_text(encoding="utf-8"),
                       path.with_suffix(".png").read_bytes(), pd.read_csv(path.with_suffix(".csv")))

    def _draw_all(self) -> None:
        if not self._all:
            self._drawn.clear()         # in their order
            self._draw(None)
            self._all = True

    def _draw(self, files: list[str] | None) -> None:
        drawn, errors = figures.draw_all(self._experiment, pathlib.Path(self._folder.name), files)
        self._drawn |= {figure.name: figure for figure in drawn}
        self._errors |= {error["where"].removeprefix("figure "): error["message"] for error in errors}
