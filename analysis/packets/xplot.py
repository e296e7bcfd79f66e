# SPDX-License-Identifier: GPL-2.0-only
"""Graphs in the format of xplot, as tcptrace writes them, drawn by gnuplot.

A line is a command with its coordinates and, maybe, a colour: `line 0.1 5 0.2 6 red`, `dot 0.1 5`. Without one, the
last line that was only a colour counts. A text command (`ltext 0.1 5 red`) is followed by a line that is the text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.drawing import gnuplot
from analysis.read import zooms
from analysis.read.runs import AnalysisError

#: xplot's colours are for a black ground
COLOURS = {"white": "#222222", "green": "#009E73", "red": "#D55E00", "blue": "#0072B2", "yellow": "#E69F00",
           "purple": "#CC79A7", "orange": "#56B4E9", "magenta": "#CC79A7", "pink": "#CC79A7"}
_COORDINATES = {"dot": 2, "diamond": 2, "box": 2, "plus": 2, "x": 2, "uarrow": 2, "darrow": 2, "larrow": 2, "rarrow": 2,
                "utick": 2, "dtick": 2, "ltick": 2, "rtick": 2, "htick": 2, "vtick": 2, "line": 4, "dline": 4,
                "invisible": 2, "atext": 2, "btext": 2, "ltext": 2, "rtext": 2, "ctext": 2}
_HEADERS = ("title", "xlabel", "ylabel")
_TYPES = ("timeval", "unsigned", "double", "signed", "dtime")


@dataclasses.dataclass
class Graph:
    """elements: {(kind, colour): rows of coordinates}; texts: (x, y, colour, text)."""

    title: str = ""
    xlabel: str = ""
    ylabel: str = ""
    elements: dict[tuple[str, str], list[list[float]]] = dataclasses.field(default_factory=dict)
    texts: list[tuple[float, float, str, str]] = dataclasses.field(default_factory=list)

    def of(self, kinds: tuple[str, ...], colour: str, width: int) -> np.ndarray:
        """All coordinates of some kinds in a colour, in order of time."""
        rows = [row for kind in kinds for row in self.elements.get((kind, colour), [])]
        found = np.array(rows, dtype=float).reshape(-1, width)
        return found[np.argsort(found[:, 0], kind="stable")]

    def only(self, kinds: Collection[str], colours: Collection[str]) -> Graph:
        """A part of it, without texts."""
        return Graph(self.title, self.xlabel, self.ylabel, {
            (kind, colour): rows for (kind, colour), rows in self.elements.items()
            if kind in kinds and colour in colours})


def read(path: Path) -> Graph:
    """AnalysisError if a line is none of the format."""
    graph, colour = Graph(), "white"
    try:
        lines = enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1)
    except OSError as problem:
        raise AnalysisError(f"{path}: {problem.strerror}") from None
    for number, line in lines:
        if line.startswith(" "):
            # tcptrace writes "go" over the beginning of a line of its own: "dot 0.1 5" -> "go", " 0.1 5"
            line = f"dot{line}"
        words = line.split()
        if not words or words[0] == "go" or words[0] in _TYPES:
            continue
        if words[0] in _HEADERS:
            setattr(graph, words[0], next(lines, (0, ""))[1].replace("_==>_", " > "))
        elif words == [words[0]] and words[0] in COLOURS:
            colour = words[0]
        else:
            _add(graph, words, colour, lines, f"{path}:{number}")
    return graph


def _add(graph: Graph, words: list[str], colour: str, lines: Iterator[tuple[int, str]], where: str) -> None:
    count = _COORDINATES.get(words[0])
    try:
        if count is None or not count <= len(words) - 1 <= count + 1:
            raise ValueError
        row = [float(word) for word in words[1:count + 1]]
    except ValueError:
        raise AnalysisError(f"{where}: {' '.join(words)[:60]!r} is no line of an xplot file") from None
    shade = words[count + 1] if len(words) > count + 1 else colour
    if shade not in COLOURS:
        raise AnalysisError(f"{where}: no colour {shade!r}")
    if words[0].endswith("text"):
        graph.texts.append((row[0], row[1], shade, next(lines, (0, ""))[1]))
    elif words[0] != "invisible":
        graph.elements.setdefault((words[0], shade), []).append(row)


@dataclasses.dataclass(frozen=True)
class Curve:
    """A group of elements for gnuplot: columns of data, and how they are drawn."""

    columns: dict[str, np.ndarray]
    command: str


def curves(graph: Graph, file: str, prefix: str, factor: float, span: zooms.Span | None,
           meanings: dict[str, str] | None = None, floor: float = 0.0) -> list[Curve]:
    """The elements of a graph; factor: what y is multiplied by, `floor`: what is subtracted before; span: the part of
    the time that is drawn; meanings: {colour: entry of the key}."""
    said, found = dict(meanings or {}), []
    for kind, shade in sorted({("line" if kind == "dline" else kind, shade) for kind, shade in graph.elements}):
        width = _COORDINATES[kind]
        rows = graph.of(("line", "dline") if kind == "line" else (kind,), shade, width)
        if span is not None:
            last = rows[:, 2] if width == 4 else rows[:, 0]
            rows = rows[(last >= span.start_us / 1e6) & (rows[:, 0] <= span.end_us / 1e6)]
        rows = rows[zooms.thinned(rows[:, 0], rows[:, 1])]
        if not len(rows):
            continue
        rows[:, 1::2] = (rows[:, 1::2] - floor) * factor
        name = f"{prefix} {kind} {shade}"
        columns = {f"{name} {number}": column for number, column in enumerate(rows.T)}
        columns |= {f"{name} 2": rows[:, 2] - rows[:, 0], f"{name} 3": rows[:, 3] - rows[:, 1]} if width == 4 else {}
        using = ":".join(gnuplot.quote(f"{name} {number}") for number in range(width))
        style = "vectors nohead linewidth 1.3" if width == 4 else f"points pointtype {_point(kind)} pointsize 0.35"
        title = f"title {gnuplot.quote(said.pop(shade))}" if shade in said else "notitle"
        found.append(Curve(columns, f"'{file}' using {using} with {style} linecolor '{COLOURS[shade]}' {title}"))
    return found


def _point(kind: str) -> int:
    """gnuplot's type of point."""
    return {"plus": 1, "x": 2, "box": 4, "diamond": 12, "uarrow": 9, "darrow": 11}.get(kind, 7)


def draw(graph: Graph, folder: Path, name: str, meanings: dict[str, str]) -> bool:
    """NAME.csv, .gp, .svg and .png of one graph; meanings: {colour: entry of the key}. False if nothing is in it."""
    parts = curves(graph, f"{name}.csv", "graph", 1.0, None, meanings)
    if not parts:
        return False
    data = pd.DataFrame({key: pd.Series(values) for part in parts for key, values in part.columns.items()})
    gnuplot.draw(folder, name, data, [
        f"set title {gnuplot.quote(graph.title)}", f"set ylabel {gnuplot.quote(graph.ylabel)}",
        "set xlabel 'time (s)'", "set key outside right center", gnuplot.plot(*(part.command for part in parts))])
    return True
