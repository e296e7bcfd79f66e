#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""A figure for a results page from what `testbed runs query --csv` wrote of runs: a panel for each metric, a row for
each congestion control, with every seed's value and the mean with its 95 % interval.

  PYTHONPATH=. docs/examples/page_figure.py runs.csv figures/overload.png \\
      --panel 'timeouts:right_to_left=timeouts, thousands=0.001' --panel 'goodput:right_to_left=goodput, Mbit/s'

A panel is a column of the file, the words of its axis, and, if wanted, what values are multiplied by. Congestion
controls come in the file's order; where a value is not finite there is no mean. The figure's data and gnuplot script,
and the same figure as SVG and PDF, are written beside it.
"""
import argparse
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from analysis import stats
from analysis.drawing import gnuplot, style
from page_tables import read_runs
from testbed.core.errors import AnalysisError

_PANELS = 6
_WIDTH, _ROW, _AROUND = 1000, 26, 80


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", help="CSV of `testbed runs query`: columns cca, seed and metrics")
    parser.add_argument("figure", type=Path, help="NAME.png")
    parser.add_argument("--panel", action="append", required=True, type=_panel, metavar="COLUMN=LABEL[=FACTOR]")
    asked = parser.parse_args()
    if not re.fullmatch(r"[\w.-]+\.png", asked.figure.name) or len(asked.panel) > _PANELS:
        parser.error(f"a figure is NAME.png, of letters, digits, dots and dashes, and has at most {_PANELS} panels")
    data, script = (asked.figure.with_suffix(ending) for ending in (".csv", ".gp"))
    if data.exists() and not script.exists():
        parser.error(f"{data} is there, where the figure's data would go: choose another name")
    try:
        runs, _ = read_runs(asked.runs, [column for column, _, _ in asked.panel])
        _draw(runs, asked.figure, asked.panel)
    except OSError as problem:
        print(f"{problem.filename or asked.figure}: {problem.strerror}", file=sys.stderr)
        return 2
    except ValueError as problem:
        print(f"{asked.runs}: {problem}", file=sys.stderr)
        return 2
    except AnalysisError as problem:
        print(problem, file=sys.stderr)
        return 2
    return 0


def _panel(text: str) -> tuple[str, str, float]:
    """(column, label, factor)"""
    column, _, rest = text.partition("=")
    label, _, factor = rest.partition("=")
    if not column or not label:
        raise argparse.ArgumentTypeError(f"{text!r}: COLUMN=LABEL or COLUMN=LABEL=FACTOR expected")
    try:
        multiplied = float(factor or 1)
    except ValueError:
        multiplied = 0.0
    if not multiplied or not np.isfinite(multiplied):
        raise argparse.ArgumentTypeError(f"{text!r}: {factor!r} is no factor")
    return column, label, multiplied


def _draw(runs: pd.DataFrame, figure: Path, panels: list[tuple[str, str, float]]) -> None:
    controls = list(dict.fromkeys(runs["cca"]))
    rows = []
    for place, control in enumerate(controls):
        of_control = runs[runs["cca"] == control]
        values = {f"value{i}": factor * of_control[column].astype(float)
                  for i, (column, _, factor) in enumerate(panels)}
        means: dict[str, float] = {"row": place, **_means(values)}
        rows += [pd.DataFrame({"row": place, **values}), pd.DataFrame([means])]
    data = pd.concat(rows, ignore_index=True)
    for i, (column, _, _) in enumerate(panels):
        if f"mean{i}" not in data:
            raise ValueError(f"no congestion control has finite values only of {column}")
    names = [", ".join(f"{gnuplot.quote(text)} {place}" for place, text in enumerate(texts))
             for texts in (controls, [""] * len(controls))]
    left = max(0.13, 0.02 + 0.009 * max(map(len, controls)))
    width = (0.99 - left) / len(panels)
    body = ["set multiplot", f"set yrange [{len(controls) - 0.4}:-0.6]", "set bmargin 4", "set tmargin 1"]
    for i, (_, label, _) in enumerate(panels):
        at, table = left + i * width, f"{figure.stem}.csv"
        body += [f"set lmargin at screen {at:.4f}", f"set rmargin at screen {at + 0.86 * width:.4f}",
                 f"set ytics ({names[i > 0]})",
                 f"set xlabel {gnuplot.quote(label)}", _axis(data[[f"value{i}", f"low{i}", f"high{i}"]]),
                 gnuplot.plot(f"{gnuplot.quote(table)} using 'value{i}':(column('row') + 0.3) with points pt 6 ps 0.7 "
                              f"lc rgb '{style.GREY}'",
                              f"'' using 'mean{i}':'row':'low{i}':'high{i}' with xerrorbars pt 7 ps 0.8 lw 1.5 "
                              f"lc rgb '{style.PALETTE[0]}'")]
    gnuplot.draw(figure.parent, figure.stem, data, [*body, "unset multiplot"], _WIDTH, _AROUND + _ROW * len(controls))


def _axis(shown: pd.DataFrame) -> str:
    """Commands for an axis with three to five round numbers on it."""
    values = shown.to_numpy()[np.isfinite(shown.to_numpy())]
    low, high = values.min(), values.max()
    if low == high:
        low, high = low - (abs(low) or 1.0) / 10, high + (abs(high) or 1.0) / 10
    span = high - low
    step = next(step for step in (factor * 10.0 ** np.floor(np.log10(span)) for factor in (0.2, 0.25, 0.5, 1.0, 2.0))
                if span / step <= 5)
    return f"set xrange [{low - 0.05 * span:.17g}:{high + 0.05 * span:.17g}]\nset xtics nomirror {step:g}"


def _means(values: "dict[str, pd.Series[float]]") -> dict[str, float]:
    """mean, low and high of every panel of finite values; an interval that is not known has no length."""
    found: dict[str, float] = {}
    for i, column in enumerate(values.values()):
        known = column.dropna()
        if len(known) and np.isfinite(known).all():
            summary = stats.summarise(list(known))
            ends = (summary.mean if end is None else end for end in (summary.low, summary.high))
            found |= dict(zip((f"mean{i}", f"low{i}", f"high{i}"), (summary.mean, *ends)))
    return found


if __name__ == "__main__":
    sys.exit(main())
