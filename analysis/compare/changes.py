# SPDX-License-Identifier: GPL-2.0-only
"""What changed: the metrics of the report's tables that differ from a reference, in words, before everything else.

Of a kernel, a setting or a version of the code. What counts as changed is what the tables call different, and besides
what has one value in all seeds of one side and is higher, or lower, in each seed of the other: tests of means say
nothing of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from analysis import metrics, stats
from analysis.compare import kernels, unchanged
from analysis.compare.experiments import Versus
from analysis.compare.rows import Compared, Comparisons
from analysis.pages import report_tables
from analysis.pages.columns import Columns
from analysis.read.experiment import Row
from analysis.read.tables import Results

#: what became of a congestion control at a point
SAME, CHANGED, OTHER_DATA, TOO_FEW, NOTHING = "same", "changed", "other data", "too few seeds", "nothing"
BETTER, WORSE = "better", "worse"
#: changed metrics that a line of text names; the page has all
MOST_TOLD = 6


class Change(NamedTuple):
    """A metric that changed. mean: of the reference, of the other, and their difference (of a ratio: factor);
    difference: it, in words; good: BETTER, WORSE or '' where that is not known; in_all: of
    metrics with one value in all seeds of each side."""

    what: str
    metric: str
    scope: str
    mean: tuple[float, float, float]
    difference: report_tables.Difference
    good: str
    in_all: bool

    @property
    def words(self) -> str:
        """queueing delay (bottleneck, right to left) from 12.1 to 14.3 ms, +2.2 (1.9 to 2.5): worse"""
        one = self.difference
        unit = f" {one.unit}" if one.unit else ""
        spread = f" ({one.interval})" if one.interval else f" in each of {one.n} seeds" if self.in_all else ""
        return (f"{self.what} from {one.reference} to {one.mean}{unit}, {one.difference}{spread}"
                + (f": {self.good}" if self.good else ""))


class Changed(NamedTuple):
    """What changed of a congestion control at a point. who: both; state: SAME, CHANGED, OTHER_DATA, TOO_FEW or
    NOTHING; pairs: runs of a seed with both; compared: metrics with a verdict."""

    who: str
    subject: str
    state: str
    pairs: int
    compared: int
    changes: list[Change]

    @property
    def summary(self) -> str:
        """One line without the metrics."""
        runs = f"{self.pairs} seed{'s' * (self.pairs != 1)}"
        return {
            SAME: f"{unchanged.WORDS}, the same to the byte ({runs})",
            CHANGED: f"{_count(len(self.changes), 'metric')} changed{self._ways()} ({runs})",
            OTHER_DATA: f"other packets; none of {self.compared} metrics can be told apart ({runs})",
            TOO_FEW: f"other packets; metrics need {stats.LEAST} seeds ({runs})",
            NOTHING: "no seed with usable runs of both"}[self.state]

    def _ways(self) -> str:
        counts = [(word, sum(one.good == word for one in self.changes)) for word in (WORSE, BETTER)]
        told = ", ".join(f"{count} {word}" for word, count in counts if count)
        return f", {told}" if told else ""


class Section(NamedTuple):
    """What changed of all congestion controls. title: with what, against what."""

    title: str
    rows: list[Changed]

    @property
    def changed(self) -> list[Changed]:
        return [row for row in self.rows if row.changes]

    @property
    def others(self) -> list[tuple[str, str]]:
        """(who, what is said of them) of those without a changed metric; who has the same said of them stand
        together."""
        found: dict[str, list[str]] = {}
        for row in self.rows:
            if not row.changes:
                found.setdefault(row.summary, []).append(row.who)
        return [(", ".join(who), said) for said, who in found.items()]

    def lines(self) -> Iterator[str]:
        """The same for a terminal."""
        yield f"{self.title}:"
        for row in self.changed:
            yield f"  {row.who}: {row.summary}"
            yield from (f"    {one.words}" for one in row.changes[:MOST_TOLD])
            if len(row.changes) > MOST_TOLD:
                yield f"    and {len(row.changes) - MOST_TOLD} more"
        yield from (f"  {who}: {said}" for who, said in self.others)


def of_kernels(results: Results, tables: Sequence[Columns], pairs: Iterable[kernels.Pair]) -> list[Section]:
    """Each kernel against each earlier one of an experiment."""
    found = []
    for pair in pairs:
        found.append(Section(f"kernel {pair.other} against {pair.reference}", [
            _of_row(results, tables, pair.comparisons, row, _who(line.subject, line.point, pair.axes), line.same,
                    line.pairs) for row, line in pair.rows.items()]))
    return found


def of_experiments(versus: Versus, other: str, reference: str) -> Section:
    """An experiment against another."""
    results = versus.results[1]
    counts: dict[Row, tuple[int, int]] = {}
    for row, first_row in versus.pairs.items():
        known = {run.seed: run for run in versus.reference.usable(first_row)}
        counts[row] = unchanged.count((known[run.seed], run) for run in versus.other.usable(row) if run.seed in known)
    return Section(f"{other} against {reference}", [
        _of_row(results, versus.tables.all(), versus.comparisons, row, row.label, *counts[row])
        for row in versus.pairs])


def _who(subject: str, point: Sequence[str], axes: Sequence[str]) -> str:
    return " ".join([subject, *(f"{axis}={value}" for axis, value in zip(axes, point) if value)])


def _of_row(results: Results, tables: Sequence[Columns], comparisons: Comparisons, row: Row, who: str, same: int,
            pairs: int) -> Changed:
    if 0 < pairs == same:
        return Changed(who, row.subject, SAME, pairs, 0, [])
    found = [(table, one) for table in tables for one in comparisons.family(table.title) if one.row == row]
    if not found:
        return Changed(who, row.subject, NOTHING, pairs, 0, [])
    changes = [_change(results, table, one) for table, one in found if _has_changed(one)]
    judged = sum(one.decision.p is not None for _, one in found)
    most = max(min(one.comparison.n, one.comparison.n_reference) for _, one in found)
    state = CHANGED if changes else TOO_FEW if most < stats.LEAST else OTHER_DATA
    return Changed(who, row.subject, state, pairs, judged, changes)


def _has_changed(one: Compared) -> bool:
    return one.decision.different or _in_all(one)


def _in_all(one: Compared) -> bool:
    """Whether a side has one value in all seeds, of which there are enough, and the other a higher one in each, or a
    lower one in each."""
    found = one.comparison
    return found.silence.startswith("no spread") and found.n >= stats.LEAST and one.one_way


def _change(results: Results, table: Columns, one: Compared) -> Change:
    column = next(column for column in table.columns if (column.metric, column.scope) == (one.metric, one.scope))
    title = f"{table.title[:1].lower()}{table.title[1:]}"
    what = f"{report_tables.head(results, column)} ({title})" if column.label else title
    difference = report_tables.difference(one, what, report_tables.unit_words(results, column), [], [])
    mean = one.comparison.reference, one.comparison.mean, one.comparison.difference
    return Change(what, one.metric, one.scope, mean, difference, _good(one), not one.decision.different)


def _good(one: Compared) -> str:
    """Whether users want what it became."""
    wish = metrics.better().get(one.metric)
    rises = one.comparison.difference > (1 if one.comparison.ratio else 0)
    return "" if wish is None else BETTER if rises == (wish == "higher") else WORSE


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
