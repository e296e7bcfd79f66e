# SPDX-License-Identifier: GPL-2.0-only
"""Which conclusions survive which knob: a page, a figure, a table, and lines of text."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis import stats
from analysis.compare.sensitivity import (APPEARS, AS_IT_IS, EQUAL, FLIPS, LOST, NO_VERDICT, NOT_JUDGED, STILL_NONE,
                                          SURVIVES, Quantity, Sensitivity, Statement, concluded)
from analysis.drawing import gnuplot, style
from analysis.pages import page_folder, report_tables, templates

FIGURE = "sensitivity"
_FILES = {"index.html", "tables", "figures"}
#: classes of report.css, by outcome
_MARKS = {SURVIVES: "equal", STILL_NONE: "unknown", LOST: "slightly", EQUAL: "slightly", FLIPS: "different",
          APPEARS: "different", NO_VERDICT: "unknown", "": "unknown"}
_MOST_PANELS = 5
_ROW_PX, _TOP_PX, _BOTTOM_PX = 26, 40, 62


class Cell(NamedTuple):
    """A statement in a table: difference with its interval, what becomes of the conclusion, its class."""

    difference: str
    interval: str
    outcome: str
    mark: str
    changed: str


def write(found: Sensitivity, titles: Mapping[str, str], left_out: Sequence[tuple[str, str]], command: str,
          quick: bool = False) -> Path:
    """Write experiment/sensitivity/ with index.html, tables/ and figures/; returns the path of the page.

    titles: {label of a variation: what it is, in words}; left_out: (label, reason); quick: runs are shortened, and the
    page says so. AnalysisError when the folder is there and is not one of these, EnvironmentProblem when it cannot be
    written.
    """
    folder = found.experiment.path / FIGURE
    with page_folder(folder, _FILES, "report of sensitivity") as building:
        frame(found).to_csv(building / "tables" / "sensitivity.csv", index=False, float_format="%.10g")
        svg = _draw(found, building / "figures")
        (building / "index.html").write_text(_page(found, titles, left_out, command, svg, quick),
                                             encoding="utf-8", errors="replace")
    return folder / "index.html"


def frame(found: Sensitivity) -> pd.DataFrame:
    """All statements, one a row."""
    rows = []
    for one in found.statements:
        of, said, change = one.comparison, one.decision, one.change
        rows.append({
            "knob": one.knob, "metric": one.quantity.metric, "scope": one.quantity.scope, "unit": one.quantity.unit,
            "reference": found.reference, "subject": one.subject, "method": of.method, "n_reference": of.n_reference,
            "n": of.n, "reference_mean": of.reference, "mean": of.mean, "scale": "factor" if of.ratio else "difference",
            "difference": of.difference, "ci95_low": of.low, "ci95_high": of.high, "p": of.p, "p_holm": said.p,
            "p_equal": of.p_equal, "p_equal_holm": said.p_equal, "result": said.words, "outcome": one.outcome,
            "change": change and change.difference, "change_ci95_low": change and change.low,
            "change_ci95_high": change and change.high, "change_p": change and change.p, "change_p_holm": one.change_p})
    return pd.DataFrame(rows)


def lines(found: Sensitivity) -> Iterator[str]:
    """For a terminal: what the scenario as it is says, what becomes of it, a line for each that does not survive."""
    yield from report_tables.repeats(found.results)
    for subject in found.subjects[1:]:
        base = [one for one in found.base if one.subject == subject]
        yield f"{subject} against {found.reference}, as it is:"
        yield from _aligned([["  " + one.quantity.label, *_numbers(one), one.decision.words] for one in base])
        known = [one.quantity for one in base]
        table = [["", *(quantity.label for quantity in known)]]
        for knob in found.knobs:
            changed = {one.quantity for one in found.of(knob) if one.subject == subject and one.changed}
            table.append(["  " + knob, *(found.outcome(knob, subject, quantity) + " *" * (quantity in changed)
                                         for quantity in known)])
        yield "with:"
        yield from _aligned(table)
    yield "* the difference itself is another one (paired with that of the same seeds as it is, Holm)"
    for one in found.statements:
        if one.outcome in (FLIPS, LOST, EQUAL, APPEARS):
            yield f"{one.knob}: {one.subject} - {found.reference}, {one.quantity.label}: {one.outcome}: " \
                  + ", ".join([*_numbers(one), one.decision.words])
    for knob, subject, quantity in found.not_reached:
        yield f"{knob}: {subject} - {found.reference}, {quantity.label}: not reached in every run, so not compared"
    yield summary(found)


def summary(found: Sensitivity) -> str:
    """How many conclusions survive everything, and what keeps one from saying so of others."""
    said = [one for one in found.base if concluded(one.decision)]
    outcomes = [{knob: found.outcome(knob, one.subject, one.quantity) for knob in found.knobs} for one in said]
    robust = sum(set(of.values()) == {SURVIVES} for of in outcomes)
    unknown = [knob for knob in found.knobs if any(of[knob] in (NO_VERDICT, NOT_JUDGED) for of in outcomes)]
    tried = "the variation" if len(found.knobs) == 1 else f"all {len(found.knobs)} variations"
    return (f"{len(said)} of {len(found.base)} comparisons come to a conclusion as it is; {robust} of them "
            f"survive {tried}" + (f"; not all could be judged with {', '.join(unknown)}" if unknown else ""))


def _numbers(one: Statement) -> list[str]:
    value, interval = report_tables.with_interval(one.comparison)
    unit = "" if one.comparison.ratio or one.quantity.unit == "1" else one.quantity.unit
    return [f"{value} {unit}".rstrip(), f"({interval})" if interval else "", f"n={one.comparison.n}"]


def _aligned(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))] if rows else []
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip()


def _page(found: Sensitivity, titles: Mapping[str, str], left_out: Sequence[tuple[str, str]], command: str,
          svg: bytes, quick: bool) -> str:
    tables = []
    for subject in found.subjects[1:]:
        base = [one for one in found.base if one.subject == subject]
        rows = [(label, titles.get(label, ""), [_cell(found, label, subject, one.quantity) for one in base])
                for label in (AS_IT_IS, *found.knobs)]
        tables.append((subject, [one.quantity for one in base], rows))
    seeds = sorted({run.seed for run in found.experiment.usable_runs})
    return str(templates().get_template("sensitivity.html.j2").render(
        experiment=found.experiment, reference=found.reference, tables=tables, summary=summary(found),
        repeats=report_tables.repeats(found.results),
        left_out=left_out, command=command, quick=quick, figure=base64.b64encode(svg).decode(), name=FIGURE,
        seeds=report_tables.seed_list(seeds), margin=f"{100 * found.margin:g}",
        confidence=f"{100 * stats.CONFIDENCE:g}"))


def _cell(found: Sensitivity, knob: str, subject: str, quantity: Quantity) -> Cell | None:
    one = next((one for one in found.of(knob) if (one.subject, one.quantity) == (subject, quantity)), None)
    if one is None:
        return None
    value, interval = report_tables.with_interval(one.comparison)
    mark = _MARKS[one.outcome] if knob != AS_IT_IS else report_tables.mark(one.decision)
    return Cell(value, interval, one.outcome or one.decision.words, mark,
                f"p = {report_tables.p_value(one.change_p)}" if one.changed else "")


def _draw(found: Sensitivity, folder: Path) -> bytes:
    """A panel for each of the first metrics, a row for each knob; the interval as it is goes on as a band."""
    shown = list(dict.fromkeys(one.quantity for one in found.base))[:_MOST_PANELS]
    labels = [AS_IT_IS, *found.knobs]
    subjects = found.subjects[1:]
    data: dict[str, list[float | str]] = {"knob": list(labels)}
    for subject_place, subject in enumerate(subjects):
        data[f"y {subject}"] = [len(labels) - place + 0.22 * ((len(subjects) - 1) / 2 - subject_place)
                                for place in range(len(labels))]
        for quantity in shown:
            known = {one.knob: one.comparison for one in found.statements
                     if (one.quantity, one.subject) == (quantity, subject)}
            for name in ("difference", "low", "high"):
                data[f"{_key(quantity)} {subject} {name}"] = [
                    _or_nan(getattr(known[label], name)) if label in known else np.nan for label in labels]
    height = _TOP_PX + _BOTTOM_PX + _ROW_PX * len(labels)
    gnuplot.draw(folder, FIGURE, pd.DataFrame(data), _script(found, shown, labels, subjects, height), height=height)
    return (folder / f"{FIGURE}.svg").read_bytes()


def _script(found: Sensitivity, shown: list[Quantity], labels: list[str], subjects: list[str],
            height: int) -> list[str]:
    looks = style.looks(subjects)
    left = min(0.3, 0.012 + 0.0075 * max(map(len, labels)))
    width = (0.985 - left) / len(shown)
    tics = ", ".join(f"{gnuplot.quote(label)} {len(labels) - place}" for place, label in enumerate(labels))
    body = [f"set multiplot title {gnuplot.quote(' and '.join(subjects) + ' - ' + found.reference)}",
            f"set yrange [0.4:{len(labels) + 0.6}]", "set border 1", "set ytics scale 0", "unset mytics",
            f"set tmargin at screen {1 - _TOP_PX / height:.4f}", f"set bmargin at screen {_BOTTOM_PX / height:.4f}"]
    for place, quantity in enumerate(shown):
        ratio = next(one.comparison.ratio for one in found.base if one.quantity == quantity)
        unit = "factor" if ratio else quantity.unit if quantity.unit != "1" else ""
        body += [f"set lmargin at screen {left + place * width + 0.008:.4f}",
                 f"set rmargin at screen {left + (place + 1) * width - 0.012:.4f}",
                 f"set ytics ({tics})" if place == 0 else "set ytics ({})".format(
                     ", ".join(f"'' {row}" for row in range(1, len(labels) + 1))),
                 *_range(found, quantity, 1.0 if ratio else 0.0),
                 f"set xlabel {gnuplot.quote(quantity.label + (f' ({unit})' if unit else ''))} offset 0,0.3",
                 f"set arrow 1 from {1 if ratio else 0}, graph 0 to {1 if ratio else 0}, graph 1 nohead "
                 f"linecolor '#444444' linewidth 1"]
        parts = []
        for subject in subjects:
            key, look = f"{_key(quantity)} {subject}", looks[subject]
            columns = ":".join(f"(column({gnuplot.quote(name)}))" for name in (
                f"{key} difference", f"y {subject}", f"{key} low", f"{key} high"))
            parts.append(f"{gnuplot.quote(FIGURE + '.csv')} using {columns} with xerrorbars linecolor '{look.colour}' "
                         f"pointtype {look.point} pointsize 0.8 linewidth 1.5"
                         + (f" title {gnuplot.quote(subject)}" if len(subjects) > 1 and place == 0 else ""))
        body += [gnuplot.plot(*parts)]
    return [*body, "unset multiplot"]


def _range(found: Sensitivity, quantity: Quantity, neutral: float) -> list[str]:
    """x from end to end of all intervals and no difference, with some three tics."""
    ends = [end for one in found.statements if one.quantity == quantity
            for end in (one.comparison.difference, one.comparison.low, one.comparison.high) if end is not None]
    low, high = min([neutral, *ends]), max([neutral, *ends])
    if low == high:
        low, high = low - 1, high + 1
    raw = (high - low) / 3
    power = 10 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    room = 0.04 * (high - low)
    return [f"set xrange [{low - room:.6g}:{high + room:.6g}]", f"set xtics {step:.6g}"]


def _key(quantity: Quantity) -> str:
    return f"{quantity.metric} {quantity.scope}"


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
