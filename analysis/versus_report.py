# SPDX-License-Identifier: GPL-2.0-only
"""Two experiments against each other as a page, tables and lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from analysis import report_tables, stats
from analysis.columns import Columns
from analysis.pages import put_in_place, scratch, templates
from analysis.report_tables import Difference
from analysis.runs import AnalysisError
from analysis.versus import Fact, Versus

_FILES = {"index.html", "tables"}


def write(versus: Versus, folder: Path, command: str) -> Path:
    """Write folder/index.html and tables/; returns the path of the page.

    AnalysisError when the folder is there and is not one of these, or cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or not _FILES >= {path.name for path in folder.iterdir()}):
        raise AnalysisError(f"{folder}: is there already and is no comparison of experiments; name another place")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AnalysisError(f"{folder}: {error.strerror}") from None
    with scratch(folder) as building:
        (building / "tables").mkdir()
        versus.comparisons.frame().to_csv(building / "tables" / "comparison.csv", index=False, float_format="%.10g")
        facts = pd.DataFrame(versus.facts(), columns=list(Fact._fields))
        facts.to_csv(building / "tables" / "facts.csv", index=False)
        (building / "index.html").write_text(_page(versus, command), encoding="utf-8", errors="replace")
        put_in_place(building, folder)
    return folder / "index.html"


def _page(versus: Versus, command: str) -> str:
    axes = [axis.short for axis in versus.other.axes]
    return str(templates().get_template("versus.html.j2").render(
        reference=versus.reference, other=versus.other, sentence=sentence(versus), facts=versus.facts(),
        alone=versus.alone(), axes=axes, tables=list(_tables(versus, _results(versus))),
        folded=list(_tables(versus, [*versus.tables.load, *versus.tables.sizes])),
        confidence=f"{100 * stats.CONFIDENCE:g}", margin=f"{100 * versus.margin:g}", command=command))


def _tables(versus: Versus, tables: Sequence[Columns]) -> Iterator[tuple[str, list[Difference]]]:
    for table in tables:
        rows = report_tables.differences(versus.results[1], versus.comparisons, table)
        if rows:
            yield table.title, rows


def _results(versus: Versus) -> list[Columns]:
    """What is shown at once; times by size, and load, on demand."""
    tables = versus.tables
    return [*tables.links, *tables.connections, *tables.slowdown, *tables.flows, *tables.fairness]


def sentence(versus: Versus) -> str:
    """What was compared, and whether runs could be paired."""
    methods = {one.comparison.method for table in versus.tables.all()
               for one in versus.comparisons.family(table.title)}
    count = len(versus.pairs)
    said = {frozenset({stats.PAIRED}): "Runs of the same seed replay the same traffic and are compared one by one.",
            frozenset({stats.WELCH}): "Runs of both have other seeds or other traffic: only their means are compared.",
            frozenset({stats.NO_TEST}): "One run each: there is no interval, and nothing can be said. "
                                        "Run two seeds or more."}
    how = said.get(frozenset(methods), "The column \u2018test\u2019 says which runs could be compared one by one.")
    return (f"{count} congestion control{'s' * (count != 1)}{' and points' * bool(versus.other.axes)} "
            f"of {versus.other.path.name}, each against the same in {versus.reference.path.name}. {how}")


def lines(versus: Versus) -> Iterator[str]:
    """The same for a terminal: what differs, then a line for each comparison that the tables of results have."""
    yield sentence(versus)
    facts = versus.facts()
    yield from (f"  {one.kind}, {one.name}: {one.reference} -> {one.other}" for one in facts)
    if not facts:
        yield "  nothing differs in scenario, engine, kernel and code"
    for title, rows in _tables(versus, _results(versus)):
        yield f"{title}:"
        yield from _aligned([_words(one) for one in rows])


def _words(one: Difference) -> list[str]:
    point = " ".join(text for text, _ in one.point)
    return [f"{one.subject} {point}".strip(), one.what, f"{one.reference} -> {one.mean} {one.unit}".rstrip(),
            f"{one.difference} ({one.interval})" if one.interval else one.difference,
            f"n={one.n}{f', {one.method}' if one.method else ''}", one.words]


def _aligned(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip()
