# SPDX-License-Identifier: GPL-2.0-only
"""Tables of the report: means with their intervals, what may be said of differences, and the differences one by one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from analysis import groups, one_run, stats
from analysis.compare.rows import Compared, Comparisons
from analysis.compare.run_lists import PairingKey
from analysis.drawing import style
from analysis.pages.columns import Column, Columns
from analysis.read.experiment import Experiment, Row
from analysis.read.tables import Results

ROWS_PER_TABLE = 6  # subjects (and points) side by side that fit the page
MOST_LINKED = 10    # seeds of a row that have a link each
MOST_SAMPLES = 6    # of which a note below a table names the seeds that form groups, or that have no value
SUBJECT = "congestion control"
_MARKS = {(True, False): "different", (True, True): "slightly", (False, True): "equal", (False, False): "unknown"}


#: (text, name of the run that it leads to)
Links = list[tuple[str, str]]


class Cell(NamedTuple):
    """A mean, its interval as text, and what can be said of it against the reference.

    mark: different, slightly (different by less than the margin), equal, unknown (not distinguishable), or "" where
    nothing is compared. words: for people who point at it.
    """

    mean: str
    spread: str
    mark: str
    words: str


class TableRow(NamedTuple):
    """A row of a table; `point` holds (value, rows that it spans, or 0) for each axis of a sweep.

    runs: see run_links.
    """

    point: list[tuple[str, int]]
    name: str
    n: str
    seeds: str
    cells: list[Cell | None]
    is_reference: bool
    runs: Links = []


class Difference(NamedTuple):
    """A comparison in words: a row of the table of differences."""

    point: list[tuple[str, int]]
    subject: str
    what: str
    unit: str
    n: str
    seeds: str
    reference: str
    mean: str
    difference: str
    interval: str
    method: str
    p: str
    mark: str
    words: str
    runs: Links = []


class Table(NamedTuple):
    """Rows under columns of (label, unit); `axes` head the columns of the point in a sweep."""

    title: str
    head: str
    columns: list[tuple[str, str]]
    rows: list[TableRow]
    axes: list[str]
    differences: list[Difference]
    notes: list[str] = []


def repeats(results: Results) -> list[str]:
    """A sentence for each row some of whose seeds are one run."""
    seeds = {run.name: run.seed for run in results.experiment.runs}
    return [f"{row.label}: seeds {seed_list([seeds[name] for name in names])} are one run: all their metrics are the "
            f"same. They count as one. To vary them, {one_run.REMEDY}"
            for row, found in results.repeats.items() for names in found]


def notes(results: Results, columns: Sequence[Column], compared: Iterable[Compared]) -> list[str]:
    """What a table has to say besides: that there are too few seeds, which seeds have no value, and which fall into
    groups.

    All samples of a table are tested for groups together (Holm).
    """
    few = sorted({one.comparison.silence for one in compared if one.comparison.silence.startswith("n = ")})
    samples = [(row, column, sample) for row in results.experiment.rows for column in columns
               if (sample := results.keyed(row, column.metric, column.scope))]
    adjusted = stats.holm([groups.p_value(list(sample.values())) for _, _, sample in samples])
    found = [_groups(results, row, column, sample) for (row, column, sample), p in zip(samples, adjusted)
             if p is not None and p <= 1 - stats.CONFIDENCE]
    missing = [text for row, column, sample in samples if (text := _missing(results, row, column, sample))]
    return [*few, *_first(missing, "lack seeds"), *_first(found, "fall into groups")]


def _first(sentences: Sequence[str], what: str) -> list[str]:
    """Of as many samples as people read."""
    more = [f"{len(sentences) - MOST_SAMPLES} more samples {what}"] if len(sentences) > MOST_SAMPLES else []
    return [*sentences[:MOST_SAMPLES], *more]


def _missing(results: Results, row: Row, column: Column, sample: Mapping[PairingKey, float]) -> str:
    """Which runs of a row do not enter a mean that others enter; '' if all do."""
    seeds = sorted({run.seed for run in results.counted(row)} - {key.seed for key in sample})
    return f"{row.label}, {column.label}: no value in seed{'s' * (len(seeds) > 1)} {seed_list(seeds)}; the mean is " \
        "that of the others" if seeds else ""


def _groups(results: Results, row: Row, column: Column, sample: Mapping[PairingKey, float]) -> str:
    def side(keys: list[PairingKey]) -> str:
        mean = sum(sample[key] for key in keys) / len(keys)
        return f"{seed_list([key.seed for key in keys])} about {style.number(mean)}"
    sides = map(side, groups.split(sample))
    return (f"{row.label}, {column.label}: seeds fall into groups, {' and '.join(sides)} "
            f"{unit_words(results, column)}".rstrip() + "; the mean is that of neither")


def shown(results: Results, comparisons: Comparisons, tables: Sequence[Columns]) -> list[Table]:
    """A row per subject and point that has any of the columns; tables in which no row has are left out."""
    return [table for columns in tables if (table := _table(results, comparisons, columns))]


def _table(results: Results, comparisons: Comparisons, columns: Columns) -> Table | None:
    experiment = results.experiment
    counted = []
    tried = {experiment.row_of(run) for run in experiment.runs if run.state.kind != "missing"}
    for row in experiment.rows:
        seeds = sorted({seed for column in columns.columns for seed in results.seeds(row, column.metric, column.scope)})
        # what was tried and can not be used is there all the same, with empty cells
        if seeds or row in tried and not experiment.usable(row):
            counted.append((row, seeds))
    if not any(seeds for _, seeds in counted):
        return None
    several = len(experiment.subjects) > 1
    rows = [TableRow(point, row.subject, str(len(seeds)), seed_list(seeds),
                     [_compared(results, comparisons, row, column) for column in columns.columns],
                     several and row == experiment.reference(row), run_links(experiment, row, seeds))
            for point, (row, seeds) in zip(spans([row.point for row, _ in counted]), counted)]
    heads = [(head(results, column), unit_words(results, column)) for column in columns.columns]
    return Table(columns.title, SUBJECT, heads, rows, [axis.head for axis in experiment.axes],
                 differences(results, comparisons, columns, linked=True),
                 notes(results, columns.columns, comparisons.family(columns.title)))


def run_links(experiment: Experiment, row: Row, seeds: Sequence[int]) -> Links:
    """The seeds of a row, each with the run that it leads to; of more than MOST_LINKED the first and the last."""
    names = experiment.names.get(row, {})
    found = [(str(seed), names[seed]) for seed in sorted(seeds) if seed in names]
    return found if len(found) <= MOST_LINKED else [found[0], (f"\u2026 {found[-1][0]}", found[-1][1])]


def by_size(results: Results, comparisons: Comparisons, tables: Sequence[Columns]) -> list[tuple[str, list[Table]]]:
    """(title, tables): one row per size class, one column per subject (and point), as many tables as the page needs."""
    found = []
    drawn = results.experiment.drawn
    for columns in tables:
        unit = unit_words(results, columns.columns[0])
        title = f"{columns.title} ({unit})" if unit else f"{columns.title}, geometric mean"
        chunks = []
        for at in range(0, len(drawn), ROWS_PER_TABLE):
            chosen = drawn[at:at + ROWS_PER_TABLE]
            rows = [TableRow([], column.label, _transfers(results, chosen, column), _seeds_of(results, chosen, column),
                             [_compared(results, comparisons, row, column) for row in chosen], False)
                    for column in columns.columns]
            chunks.append(Table("", "size", [(row.label, unit) for row in chosen], rows, [], []))
        if chunks:
            found.append((title, chunks))
    return found


def _transfers(results: Results, rows: Sequence[Row], column: Column) -> str:
    """Transfers of a size class in a run, on the mean."""
    counts = [value for row in rows for value in results.sample(row, column.counted_by, column.scope)]
    return f"{sum(counts) / len(counts):.0f}" if counts else "0"


def _seeds_of(results: Results, rows: Sequence[Row], column: Column) -> str:
    return seed_list(sorted({seed for row in rows for seed in results.seeds(row, column.metric, column.scope)}))


def head(results: Results, column: Column) -> str:
    """What heads a column."""
    return f"{column.label}, geometric mean" if results.is_ratio(column.metric) else column.label


def unit_words(results: Results, column: Column) -> str:
    """Its unit, '' of a number without one."""
    unit = results.unit(column.metric, column.scope)
    return "" if unit in (None, "1") else str(unit)


def _compared(results: Results, comparisons: Comparisons, row: Row, column: Column) -> Cell | None:
    return cell(results, row, column, comparisons.of(row, column.metric, column.scope))


def cell(results: Results, row: Row, column: Column, compared: Compared | None) -> Cell | None:
    """Mean over seeds with its interval; None when the row lacks the metric."""
    sample = results.sample(row, column.metric, column.scope)
    if not sample:
        return None
    missed = sum(map(math.isinf, sample))
    if missed:
        some = "" if missed == len(sample) else f" in {missed} of {len(sample)}"
        return Cell(f"not reached{some}", "", "", "more were unfinished at the end of the run than this leaves")
    mean, spread = interval(results.summarise(column.metric, sample))
    if compared is None or compared.decision.p is None:
        return Cell(mean, spread, "", "")
    words = f"{compared.decision.words} (against {compared.reference})"
    return Cell(mean, spread, mark(compared.decision), words)


def mark(decision: stats.Decision) -> str:
    """The class of a cell: how it stands to the reference."""
    return "" if decision.p is None else _MARKS[decision.different, decision.equal]


def interval(found: stats.Summary) -> tuple[str, str]:
    """(mean, its 95 % interval): ± half the width, or both ends where the halves differ; '' where there is none."""
    if found.low is None or found.high is None:
        return style.number(found.mean), ""
    if found.half_width is None:
        mean, low, high = style.with_ends(found.mean, found.low, found.high)
        return mean, f"{low} to {high}"
    mean, half = style.plus_minus(found.mean, found.half_width)
    return mean, f"\u00b1 {half}"


def differences(results: Results, comparisons: Comparisons, columns: Columns,
                linked: bool = False) -> list[Difference]:
    """The comparisons of a table one by one, subject by subject; linked: with links to their runs."""
    labels = {(column.metric, column.scope): column for column in columns.columns}
    order = {row: place for place, row in enumerate(results.experiment.rows)}
    found = sorted(comparisons.family(columns.title), key=lambda one: order[one.row])
    return [difference(one, head(results, (column := labels[one.metric, one.scope])), unit_words(results, column),
                       point, run_links(results.experiment, one.row, one.seeds) if linked else [])
            for point, one in zip(spans([one.row.point for one in found]), found)]


def difference(one: Compared, what: str, unit: str, point: list[tuple[str, int]], runs: Links) -> Difference:
    """A comparison in words; what: the output, point: as `spans` gives it, runs: see run_links."""
    found, decision = one.comparison, one.decision
    value, interval = with_interval(found)
    n = str(found.n) if found.n == found.n_reference else f"{found.n_reference}, {found.n}"
    return Difference(point, one.row.subject, what, unit, n, seed_list(one.seeds), style.number(found.reference),
                      style.number(found.mean), value, interval, found.method, p_value(decision.p),
                      mark(decision), decision.words, runs)


def with_interval(found: stats.Comparison) -> tuple[str, str]:
    """(difference with its sign, or factor; its interval), with two digits of half the interval's width."""
    if found.ratio:
        if found.low is None or found.high is None:
            return f"\u00d7 {style.number(found.difference)}", ""
        factor, low, high = style.with_ends(found.difference, found.low, found.high)
        return f"\u00d7 {factor}", f"{low} to {high}"
    if found.low is None or found.high is None:
        return _signed(found.difference, style.number(abs(found.difference))), ""
    values = found.difference, found.low, found.high
    half = (found.high - found.low) / 2
    texts = [_signed(value, style.plus_minus(abs(value), half)[0]) for value in values]
    return texts[0], f"{texts[1]} to {texts[2]}"


def _signed(value: float, text: str) -> str:
    sign = "\u2212" if value < 0 else "+"
    return text if not float(text) else sign + text


def p_value(p: float | None) -> str:
    """A p-value to two digits, as small as it matters."""
    if p is None:
        return "\u2013"
    return "< 0.0001" if p < 0.0001 else f"{p:.2g}" if p < 0.995 else "1"


def seed_list(seeds: Sequence[int]) -> str:
    """1, 2, 3, 7 -> 1\u20133, 7"""
    parts: list[list[int]] = []
    for seed in sorted(seeds):
        if parts and seed == parts[-1][1] + 1:
            parts[-1][1] = seed
        else:
            parts.append([seed, seed])
    return ", ".join(str(low) if low == high else f"{low}\u2013{high}" if high > low + 1 else f"{low}, {high}"
                     for low, high in parts)


def spans(points: list[tuple[str, ...]]) -> list[list[tuple[str, int]]]:
    """For each point (value, number of rows from here on that share it), 0 where an earlier row spans it."""
    found: list[list[tuple[str, int]]] = []
    for place, point in enumerate(points):
        cells = []
        for axis, value in enumerate(point):
            if place and points[place - 1][:axis + 1] == point[:axis + 1]:
                cells.append((value, 0))
            else:
                rest = points[place:]
                count = next((n for n, other in enumerate(rest) if other[:axis + 1] != point[:axis + 1]), len(rest))
                cells.append((value, count))
        found.append(cells)
    return found
