# SPDX-License-Identifier: GPL-2.0-only
"""Published results beside ours as a page, in Markdown, as a table and figures."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from analysis.compare.published import AGREES, EXPLAINED, NO_VERDICT, OPEN, WORDS, Judged, Ours, Verdict, sentence
from analysis.compare.published_figure import draw
from analysis.drawing import style
from analysis.pages import Head, inline, page_folder, templates
from analysis.pages.markdown import plain

_FILES = {"index.html", "published.md", "tables", "figures"}
#: significant ones of means and limits
_DIGITS = 4
#: classes of the page
_MARKS = {AGREES: "agrees", EXPLAINED: "explained", OPEN: "open", NO_VERDICT: "none"}


class Table(NamedTuple):
    """Cells of a result: heads, how many of the columns are names, and rows with the class of their verdict."""

    heads: list[str]
    names: int
    rows: list[tuple[str, list[str]]]


def write(found: Sequence[Judged], folder: Path, head: Head) -> Path:
    """Write folder/index.html, published.md, tables/cells.csv and figures/; returns the path of the page.

    AnalysisError when the folder is there and is not one of these, EnvironmentProblem when it cannot be written.
    """
    with page_folder(folder, _FILES, "report of published results") as building:
        _rows(found).to_csv(building / "tables/cells.csv", index=False, float_format="%.10g")
        sections = [(one, _table(one), _figure(one, building / "figures")) for one in found]
        (building / "published.md").write_text(markdown(found, head.command), encoding="utf-8", errors="replace")
        (building / "index.html").write_text(str(templates().get_template("published.html.j2").render(
            title=head.title, description=head.description, sentence=sentence(found), words=WORDS, results=found,
            sections=sections, margins=margins, command=shlex.join(head.command), short=head.short)),
            encoding="utf-8", errors="replace")
    return folder / "index.html"


def _figure(one: Judged, folder: Path) -> str:
    """As a data URI; '' where nothing can be drawn."""
    name = draw(one, folder)
    return inline(folder / f"{name}.svg") if name else ""


def _rows(found: Sequence[Judged]) -> pd.DataFrame:
    """A row for each cell, and one for each of its switches."""
    return pd.DataFrame([row for one in found for verdict in one.verdicts for row in _of(one, verdict)], columns=[
        "result", "point", "cca", "quantity", "metric", "scope", "unit", "published", "least", "most", "low", "high",
        "switch", "n", "seeds", "mean", "sd", "values", "verdict"])


def _of(one: Judged, verdict: Verdict) -> Iterator[tuple[object, ...]]:
    cell, quantity = verdict.cell, verdict.quantity
    head = (one.about.name, _point(verdict), cell.cca, cell.quantity, quantity.metric, quantity.scope, verdict.unit,
            " ".join(map(repr, cell.trials)), cell.least, cell.most, verdict.low, verdict.high)
    for name, ours, word in [("", verdict.ours, verdict.word if not verdict.why_not else verdict.why_not),
                             *((name, ours, AGREES if agrees else "differs")
                               for name, (ours, agrees) in verdict.switched.items())]:
        yield (*head, name, len(ours.values), ours.seeds, ours.mean if ours.values else None,
               ours.sd if ours.values else None, " ".join(f"{value:.10g}" for value in ours.values), word)


def _point(verdict: Verdict) -> str:
    return ", ".join(f"{axis.rpartition('.')[2]} {value}" for axis, value in verdict.cell.point.items())


def _table(one: Judged) -> Table:
    several = len({verdict.cell.cca for verdict in one.verdicts}) > 1
    heads = [axis.head for axis in one.axes.values()] + ["congestion control"] * several + ["quantity"]
    names = len(heads)
    rows = []
    for verdict in one.verdicts:
        words = [verdict.cell.point.get(axis, "") for axis in one.axes] + [verdict.cell.cca] * several
        rows.append((_MARKS[verdict.word], [
            *words, verdict.label, _theirs(verdict), _measured(verdict.ours), _limits(verdict), _said(verdict)]))
    return Table([*heads, "published", "here, mean (sd; n)", "agrees from .. to", "verdict"], names, rows)


def _theirs(verdict: Verdict) -> str:
    """Trials, up to five of them, or bounds."""
    cell = verdict.cell
    if cell.trials:
        shown = " ".join(f"{value:.4g}" for value in cell.trials[:5])
        return shown if len(cell.trials) <= 5 else (f"{statistics.fmean(cell.trials):.4g} ({min(cell.trials):.4g} to "
                                                    f"{max(cell.trials):.4g}; {len(cell.trials)})")
    if cell.least is None or cell.most is None:
        return f"at most {cell.most:g}" if cell.least is None else f"at least {cell.least:g}"
    return f"{cell.least:g} to {cell.most:g}"


def _measured(ours: Ours) -> str:
    """4.672 (0.12; 5): as many digits as the limits have, so that a reader sees on which side of them it lies."""
    return f"{style.number(ours.mean, _DIGITS)} ({ours.sd:.2g}; {len(ours.values)})" if ours.values else "-"


def _limits(verdict: Verdict) -> str:
    return " .. ".join("" if abs(end) == float("inf") else f"{end:.{_DIGITS}g}" for end in (verdict.low, verdict.high))


def _said(verdict: Verdict) -> str:
    if verdict.why_not:
        return f"{NO_VERDICT}: {verdict.why_not}"
    if verdict.causes:
        said = "; ".join(f"{name}: {style.number(verdict.switched[name][0].mean, _DIGITS)}" for name in verdict.causes)
        return f"{EXPLAINED} ({said})"
    return verdict.word


def markdown(found: Sequence[Judged], command: Sequence[str]) -> str:
    """The same as Markdown: the table of results, then the cells of each."""
    lines = [f"**{sentence(found)}**", "", "| result | " + " | ".join(WORDS) + " | cells |",
             "|---|" + "---|" * (len(WORDS) + 1)]
    for one in found:
        counts = " | ".join(str(one.counts[word] or "") for word in WORDS)
        lines.append(f"| [{plain(one.about.title)}](#{_anchor(one.about.title)}) | {counts} | {len(one.verdicts)} |")
    for one in found:
        table = _table(one)
        lines += ["", f"## {plain(one.about.title)}", "", plain(one.about.source), "",
                  f"This result alone: `--only {one.about.name}`.", ""]
        lines += [f"* {plain(problem)}" for problem in one.problems]
        lines += ["| " + " | ".join(map(plain, table.heads)) + " |", "|---" * len(table.heads) + "|"]
        lines += ["| " + " | ".join(map(plain, cells)) + " |" for _, cells in table.rows]
        lines += ["", *(f"* {plain(words)}" for words in margins(one)),
                  *(f"* Switch `{name}`: {plain(cause.why)}" for name, cause in one.about.causes.items()),
                  *([f"* Open: {plain(one.about.open)}"] if one.about.open else []),
                  *(f"* Not as published: {plain(what)}: {plain(why)}" for what, why in one.about.deviations)]
    return "\n".join([*lines, "", f"    {shlex.join(command)}", ""])


def margins(one: Judged) -> list[str]:
    """Of each quantity with a margin of its own: how wide, and why."""
    return [f"{quantity.label}: margin {quantity.within_percent:g} %. {quantity.why_within[:1].upper()}"
            f"{quantity.why_within[1:]}" for quantity in one.about.quantities.values() if quantity.why_within]


def _anchor(title: str) -> str:
    """What a heading is called in links."""
    return "".join(one for one in title.lower().replace(" ", "-") if one.isalnum() or one in "-_")
