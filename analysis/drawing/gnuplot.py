# SPDX-License-Identifier: GPL-2.0-only
"""Draw one figure with gnuplot: NAME.csv + NAME.gp -> NAME.svg, NAME.png and NAME.pdf.

The script is left beside its data, so that anyone can change it and run
`gnuplot NAME.gp` in that folder again.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from analysis.drawing import room, style
from analysis.read.runs import AnalysisError


class MissingProgram(AnalysisError):
    """gnuplot is not there: no figure can be drawn."""


FONT = "DejaVu Sans"
PNG_SCALE = 2
PNG_FONT_SCALE = 1.5  # a cairo point is 4/3 of a pixel, an SVG one is a pixel
PDF_PX_PER_INCH = 1000 / 7.5    # of a figure as wide as most are: the text of an A4 page and a bit
#: of usual text; pixels of a figure that is 1000 wide
SIZE_PX = 12
FORMATS = ("svg", "png", "pdf")
#: a PDF says when it was made, in newer versions in a compressed part
_ENVIRONMENT = {"LD_PRELOAD": "/usr/$LIB/faketime/libfaketime.so.1", "FAKETIME": "2000-01-01 00:00:00", "TZ": "UTC"}
#: the first group of an SVG has nothing in it, and the colour of what the same gnuplot drew before
_FIRST_GROUP = re.compile(rb'(<g fill="none" color="[^"]*" stroke=")[^"]*("[^>]*>\s*</g>)')
#: what gnuplot says when it is through with a script: 0 behind it if there was no error
_DONE = "# done "

_SCRIPT = """\
# SPDX-License-Identifier: GPL-2.0-only
# Run `gnuplot {name}.gp` in this folder: {csv} -> {name}.svg, {name}.png, {name}.pdf
set datafile separator comma
set datafile columnheaders
set encoding utf8
do for [format in "{formats}"] {{
    if (format eq "svg") {{
        set terminal svg noenhanced size {width},{height} dynamic \\
            font "{font},{size:.4g}" background "white"
    }}
    if (format eq "pdf") {{
        set terminal pdfcairo noenhanced size {pdf_width:.4g}in,{pdf_height:.4g}in font "{font},{size:.4g}" \\
            fontscale {pdf_font_scale:.3g} linewidth {pdf_scale:.3g} pointscale {pdf_scale:.3g} background "white"
    }}
    if (format eq "png") {{
        set terminal pngcairo noenhanced size {png_width},{png_height} font "{font},{size:.4g}" \\
            fontscale {font_scale} linewidth {scale} pointscale {scale} background "white"
    }}
    set output "{name}.".format
    set border 3 linecolor "#444444"
    set tics nomirror out textcolor "#222222"
    set grid linecolor "#dddddd" linewidth 1
    set key noautotitle
{body}
    set output
}}
"""


@dataclass(frozen=True)
class Paper:
    """How figures for papers look: they are drawn besides the others, as wide as a column or two.

    font: its name; size_pt: points, of the printed figure; colours: in place of those of style.PALETTE, in their order;
    labels: {text of a figure: what it says instead}.
    """

    font: str = FONT
    size_pt: float = 8
    colours: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    def applied(self, line: str) -> str:
        """A command with the colours and words of this paper."""
        for colour, own in zip(style.PALETTE, self.colours):
            line = line.replace(f"'{colour}'", f"'{own}'").replace(f"'{style.band(colour)}'", f"'{style.band(own)}'")
        return re.sub(r"'((?:[^']|'')*)'", lambda match: quote(self.labels[text]) if (
            text := match[1].replace("''", "'")) in self.labels else match[0], line)


#: figures for papers: how wide a column and two of them are, inches
COLUMNS_IN = {"one": 3.5, "two": 7.16}
PAPER_FOLDER = "paper"


def quote(text: str) -> str:
    """A gnuplot string constant: nothing in single quotes is special but the quote."""
    return "'" + " ".join(str(text).split()).replace("'", "''") + "'"


def tick(text: str) -> str:
    """A name of a tic, which gnuplot takes for a format."""
    return quote(text).replace("%", "%%")


def plot(*parts: str) -> str:
    """One plot command, a line for each part."""
    return "plot " + ", \\\n    ".join(parts)


def draw(folder: Path, name: str, data: pd.DataFrame, body: list[str],
         width: int = 1000, height: int = 420) -> None:
    """Write NAME.csv and NAME.gp into `folder` and run gnuplot there. The same data gives the same bytes.

    `body` are the commands between `set output` and the end of the figure;
    width and height are pixels: the picture gets larger where its text has no room.  AnalysisError with
    gnuplot's own words when it fails or draws nothing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data.to_csv(folder / f"{name}.csv", index=False, na_rep="NaN", float_format="%.6g")
    lines = "\n".join(body).splitlines()
    texts = _draw_with_room(_Look(folder, name, f"{name}.csv", FONT), lines, width, height)
    if _paper is not None:
        crowded = len(room.crowded(texts, CROWDED_PX))
        _draw_for_paper(_paper, folder, name, lines, width // 2, height, "one", crowded)
        _draw_for_paper(_paper, folder, name, lines, width, height, "two")


#: how often a picture is made larger
_MOST_TRIES = 6
#: texts that cover each other by more have no room
CROWDED_PX = 1.5


@dataclass(frozen=True)
class _Look:
    """Where a figure is drawn, and its text: inches None of figures for a page of A4, of which text is SIZE_PX."""

    folder: Path
    name: str
    csv: str
    font: str
    inches: float | None = None
    size_pt: float = 0

    def size_px(self, width: float) -> float:
        return SIZE_PX if self.inches is None else self.size_pt / 72 * width / self.inches


def _draw_with_room(look: _Look, body: list[str], width: int, height: int) -> list[room.Text]:
    """Draw a figure, with more room around it until its text is in the picture; its texts."""
    margins = room.Margins()
    formats: tuple[str, ...] = FORMATS
    for tried in range(_MOST_TRIES + 1):
        wide, high = width + margins.left + margins.right, height + margins.bottom + margins.top
        enlarged = room.widened(body, margins, width, height) if any(margins) else body
        texts = room.texts(_draw_once(look, enlarged, wide, high, formats))
        needed = room.lacking(texts, wide, high)
        # gnuplot leaves out a name of an axis that has no room
        there = Counter(one.text for one in texts)
        missing = {axis for axis, names in _axis_names(body).items()
                   for name, count in names.items() if there[name] < count}
        more_px = 2 * math.ceil(look.size_px(wide))
        needed = room.Margins(max(needed.left, more_px if "y" in missing else 0), needed.right,
                              max(needed.bottom, more_px if "x" in missing else 0), needed.top)
        if not any(needed) or tried == _MOST_TRIES:
            break
        margins = room.Margins(*(have + more for have, more in zip(margins, needed)))
        formats = FORMATS[:1]       # until it fits
    if formats != FORMATS:
        _draw_once(look, enlarged, wide, high, FORMATS)
    return texts


def _axis_names(body: list[str]) -> dict[str, Counter[str]]:
    """{axis: {its name: how many plots of a figure have it}}"""
    now: dict[str, str] = {}
    found = {"x": Counter[str](), "y": Counter[str]()}
    for line in body:
        for unset, axis, name in re.findall(r"(un)?set ([xy])label(?: '((?:[^']|'')*)')?", line):
            now[axis] = "" if unset else " ".join(name.replace("''", "'").split())
        if line.startswith("plot "):
            for axis, name in now.items():
                if name:
                    found[axis][name] += 1
    return found


def _draw_once(look: _Look, body: list[str], width: int, height: int, formats: tuple[str, ...]) -> str:
    """The SVG."""
    per_inch = PDF_PX_PER_INCH if look.inches is None else width / look.inches
    size, pdf_scale = look.size_px(width), 72 / per_inch
    script = look.folder / f"{look.name}.gp"
    script.write_text(_SCRIPT.format(
        name=look.name, csv=look.csv, width=width, height=height, font=look.font, size=size, scale=PNG_SCALE,
        font_scale=PNG_FONT_SCALE, png_width=PNG_SCALE * width, png_height=PNG_SCALE * height,
        formats=" ".join(formats), pdf_width=width / per_inch, pdf_height=height / per_inch, pdf_scale=pdf_scale,
        pdf_font_scale=0.75 * pdf_scale, body="\n".join("    " + line for line in body)), encoding="utf-8")
    status, words = _run(look.folder, script.name)
    made = [svg, *_] = [look.folder / f"{look.name}.{ending}" for ending in formats]
    if status or not all(path.exists() and path.stat().st_size for path in made):
        raise AnalysisError(f"{script}: gnuplot failed (exit status {status}):\n{words.strip()}")
    content = _FIRST_GROUP.sub(rb"\g<1>currentColor\2", svg.read_bytes(), count=1)
    svg.write_bytes(content)
    return content.decode("utf-8", errors="replace")


def _draw_for_paper(paper: Paper, folder: Path, of: str, body: list[str], width: int, height: int, columns: str,
                    most_crowded: float = math.inf) -> None:
    """The same for a column or two of a paper, in a folder of its own; nothing where more texts have no room there."""
    target = folder / PAPER_FOLDER
    target.mkdir(exist_ok=True)
    name = f"{of}-{columns}"
    look = _Look(target, name, f"../{of}.csv", paper.font, COLUMNS_IN[columns], paper.size_pt)
    size = look.size_px(width)
    lines = [re.sub(r"font ',(\d+)'", lambda match: f"font ',{float(match[1]) * size / SIZE_PX:.3g}'", line)
             for line in map(paper.applied, body)]
    lines = [line.replace(f"'{of}.csv'", f"'../{of}.csv'") for line in lines]
    texts = _draw_with_room(look, lines, width, height)
    if len(room.crowded(texts, CROWDED_PX)) > most_crowded:
        for path in target.glob(f"{name}.*"):
            path.unlink()


@contextlib.contextmanager
def for_papers(paper: Paper | None) -> Iterator[None]:
    """In the block each figure is drawn for papers, too."""
    global _paper
    before, _paper = _paper, paper
    try:
        yield
    finally:
        _paper = before


@contextlib.contextmanager
def one_process() -> Iterator[None]:
    """In the block one gnuplot draws all figures of a folder: to start it and load its fonts takes 25 ms."""
    mine: dict[Path, _Process] = {}
    before = _waiting.set(mine)
    try:
        yield
    finally:
        _waiting.reset(before)
        for process in mine.values():
            process.end()


class _Process:
    """A gnuplot that waits for scripts. MissingProgram if there is none."""

    def __init__(self, folder: Path) -> None:
        try:
            self._gnuplot = subprocess.Popen(["gnuplot"], cwd=folder, text=True, errors="replace",
                                             env={**os.environ, **_ENVIRONMENT}, stdin=subprocess.PIPE,
                                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        except FileNotFoundError:
            raise MissingProgram("gnuplot is not installed (Debian package gnuplot-nox)") from None

    def draw(self, script: str) -> tuple[int | None, str]:
        """(exit status, None if it waits for the next script; what it said). An error ends it."""
        assert self._gnuplot.stdin and self._gnuplot.stderr
        said: list[str] = []
        try:
            with contextlib.suppress(BrokenPipeError):      # it has ended, and has said why
                self._gnuplot.stdin.write(f"reset session\nload '{script}'\nprint '{_DONE}', GPVAL_ERRNO\n")
                self._gnuplot.stdin.flush()
            for line in self._gnuplot.stderr:
                if line.startswith(_DONE):
                    if line.split()[-1] == "0":
                        return None, "".join(said)
                    break
                said.append(line)
            return self.end() or 1, "".join(said)
        except BaseException:
            self._gnuplot.kill()
            self.end()
            raise

    def end(self) -> int:
        """Its exit status."""
        self._gnuplot.communicate()
        return self._gnuplot.returncode


#: how figures are drawn for papers; None if they are not
_paper: Paper | None = None
#: those of this thread that wait, by folder; None where each figure has one of its own
_waiting: contextvars.ContextVar[dict[Path, _Process] | None] = contextvars.ContextVar("waiting", default=None)


def _run(folder: Path, script: str) -> tuple[int, str]:
    """Run a script there: (exit status, what gnuplot said)."""
    waiting = _waiting.get()
    process = waiting.pop(folder) if waiting and folder in waiting else _Process(folder)
    status, words = process.draw(script)
    if status is None:
        if waiting is None:
            status = process.end()
        else:
            waiting[folder] = process
    return status or 0, words
