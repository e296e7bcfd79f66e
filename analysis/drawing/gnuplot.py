# SPDX-License-Identifier: GPL-2.0-only
"""Draw one figure with gnuplot: NAME.csv + NAME.gp -> NAME.svg, NAME.png and NAME.pdf.

The script is left beside its data, so that anyone can change it and run
`gnuplot NAME.gp` in that folder again.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from analysis.read.runs import AnalysisError


class MissingProgram(AnalysisError):
    """gnuplot is not there: no figure can be drawn."""


FONT = "DejaVu Sans"
PNG_SCALE = 2
PNG_FONT_SCALE = 1.5  # a cairo point is 4/3 of a pixel, an SVG one is a pixel
PDF_PX_PER_INCH = 1000 / 7.5    # of a figure as wide as most are: the text of an A4 page and a bit
PDF_SCALE = 72 / PDF_PX_PER_INCH
FORMATS = ("svg", "png", "pdf")
#: a PDF says when it was made, in newer versions in a compressed part
_ENVIRONMENT = {"LD_PRELOAD": "/usr/$LIB/faketime/libfaketime.so.1", "FAKETIME": "2000-01-01 00:00:00", "TZ": "UTC"}
#: the first group of an SVG has nothing in it, and the colour of what the same gnuplot drew before
_FIRST_GROUP = re.compile(rb'(<g fill="none" color="[^"]*" stroke=")[^"]*("[^>]*>\s*</g>)')
#: what gnuplot says when it is through with a script: 0 behind it if there was no error
_DONE = "# done "

_SCRIPT = """\
# SPDX-License-Identifier: GPL-2.0-only
# Run `gnuplot {name}.gp` in this folder: {name}.csv -> {name}.svg, {name}.png, {name}.pdf
set datafile separator comma
set datafile columnheaders
set encoding utf8
do for [format in "{formats}"] {{
    if (format eq "svg") {{
        set terminal svg noenhanced size {width},{height} dynamic \\
            font "{font},12" background "white"
    }}
    if (format eq "pdf") {{
        set terminal pdfcairo noenhanced size {pdf_width:.4g}in,{pdf_height:.4g}in font "{font},12" \\
            fontscale {pdf_font_scale:.3g} linewidth {pdf_scale:.3g} pointscale {pdf_scale:.3g} background "white"
    }}
    if (format eq "png") {{
        set terminal pngcairo noenhanced size {png_width},{png_height} font "{font},12" \\
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


def quote(text: str) -> str:
    """A gnuplot string constant: nothing in single quotes is special but the quote."""
    return "'" + " ".join(str(text).split()).replace("'", "''") + "'"


def plot(*parts: str) -> str:
    """One plot command, a line for each part."""
    return "plot " + ", \\\n    ".join(parts)


def draw(folder: Path, name: str, data: pd.DataFrame, body: list[str],
         width: int = 1000, height: int = 420) -> None:
    """Write NAME.csv and NAME.gp into `folder` and run gnuplot there. The same data gives the same bytes.

    `body` are the commands between `set output` and the end of the figure;
    width and height are pixels.  AnalysisError with gnuplot's own words when
    it fails or draws nothing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data.to_csv(folder / f"{name}.csv", index=False, na_rep="NaN", float_format="%.6g")
    lines = "\n".join(body).splitlines()
    script = folder / f"{name}.gp"
    script.write_text(_SCRIPT.format(
        name=name, width=width, height=height, font=FONT, scale=PNG_SCALE,
        font_scale=PNG_FONT_SCALE,
        png_width=PNG_SCALE * width, png_height=PNG_SCALE * height, formats=" ".join(FORMATS),
        pdf_width=width / PDF_PX_PER_INCH, pdf_height=height / PDF_PX_PER_INCH, pdf_scale=PDF_SCALE,
        pdf_font_scale=0.9 * PDF_SCALE,
        body="\n".join("    " + line for line in lines)), encoding="utf-8")
    status, words = _run(folder, script.name)
    made = [svg, *_] = [folder / f"{name}.{ending}" for ending in FORMATS]
    if status or not all(path.exists() and path.stat().st_size for path in made):
        raise AnalysisError(f"{script}: gnuplot failed (exit status {status}):\n{words.strip()}")
    svg.write_bytes(_FIRST_GROUP.sub(rb"\g<1>currentColor\2", svg.read_bytes(), count=1))


@contextlib.contextmanager
def one_process() -> Iterator[None]:
    """In the block one gnuplot draws all figures of a folder: to start it and load its fonts takes 25 ms."""
    global _waiting
    before, _waiting = _waiting, {}
    try:
        yield
    finally:
        ended, _waiting = _waiting, before
        for process in ended.values():
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


#: those that wait, by folder; None where each figure has one of its own
_waiting: dict[Path, _Process] | None = None


def _run(folder: Path, script: str) -> tuple[int, str]:
    """Run a script there: (exit status, what gnuplot said)."""
    process = _waiting.pop(folder) if _waiting and folder in _waiting else _Process(folder)
    status, words = process.draw(script)
    if status is None:
        if _waiting is None:
            status = process.end()
        else:
            _waiting[folder] = process
    return status or 0, words
