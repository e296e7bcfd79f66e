# SPDX-License-Identifier: GPL-2.0-only
"""What changed: the metrics of the report's tables that differ from a reference, in words, before everything else.

Of a kernel, a setting or a version of the code. What counts as changed is what the tables call different, and besides
what has one value in all seeds of one side and is higher, or lower, in each seed of the other: tests of means say
nothing of that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from analysis import metrics, stats
from analysis.compare import kernels, unchanged
from analysis.compare.experiments import Versus
from analysis.compare.rows import Compared, Comparisons
from analysis.drawing import style
from analysis.pages import report_tables
from analysis.pages.columns import Columns
from analysis.read import counters
from analysis.read.experiment import Row
from analysis.read.runs import Run
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
    NOTHING; pairs: runs of a seed with both; compared: metrics with a verdict; counters: of the TCP/IP stacks that
    changed, in words."""

    who: str
    subject: str
    state: str
    pairs: int
    compared: int
    changes: list[Change]
    counters: list[str] = []

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


def counters_of(pairs: Sequence[tuple[Run, Run]]) -> list[str]:
    """The counters of the TCP/IP stacks that differ between runs of the same seed, in words: sums over all nodes in the
    measured interval, a family of their own. [] of fewer than stats.LEAST pairs."""
    if len(pairs) < stats.LEAST:
        return []
    names = sorted({name for pair in pairs for run in pair for name in counters.seen(run)},
                   key=lambda name: (not name.startswith("Tcp"), name))
    samples: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in names}
    for pair in pairs:
        for place, run in enumerate(pair):
            table = counters.table(run, names)
            for name, value in table[table["scope"] == counters.ALL][["metric", "value"]].itertuples(index=False):
                samples[name][place].append(float(value))
    both = {name: values for name, values in samples.items() if len(values[0]) == len(values[1]) == len(pairs)}
    compared = {name: stats.compare_paired(*values) for name, values in both.items()}
    found = []
    for (name, one), decision in zip(compared.items(), stats.decide(list(compared.values()))):
        apart = [second - first for first, second in zip(*both[name])]
        one_way = min(apart) > 0 or max(apart) < 0
        if decision.different or one.silence.startswith("no spread") and one_way:
            difference, interval = report_tables.with_interval(one)
            found.append(f"{name} from {style.number(one.reference)} to {style.number(one.mean)}, {difference}"
                         + (f" ({interval})" if interval else f" in each of {len(pairs)} seeds"))
    return found


def _who(subject: str, point: Sequence[str], axes: Sequence[str]) -> str:
    return " ".join([subject, *(f"{axis}={value}" for axis, value in zip(axes, point) if value)])


def _of_row(results: Results, tables: Sequence[Columns], comparisons: Comparisons, row: Row, who: str, same: int,
            pairs: int) -> Changed:
    if 0 < pairs == same:
        return Changed(who, row.subject, SAME, pairs, 0, [])
    found = [(table, one) for table in tables for one in comparisons.family(table.title) if one.row == row]
    if not found:
        return Changed(who, row.subject, NOTHING, pairs, 0, [])
    idle = _without_data(results, row)
    changes = [_change(results, table, one, idle) for table, one in found if _has_changed(one)]
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


def _without_data(results: Results, row: Row) -> set[str]:
    """Links, and directions of links, that only acknowledgements cross: nobody wants more of them, or fewer."""
    run = next(iter(results.experiment.usable(row)), None)
    if run is None or any(flow.both_ways for flow in run.flows):
        return set()
    data = {hop for flow in run.flows for hop in flow.hops}
    places = {name: {name, link.direction or name} for name, link in run.bottlenecks.items()}
    return set().union(*places.values()) - set().union(*(places[name] for name in data if name in places))


def _change(results: Results, table: Columns, one: Compared, idle: Collection[str]) -> Change:
    column = next(column for column in table.columns if (column.metric, column.scope) == (one.metric, one.scope))
    title = f"{table.title[:1].lower()}{table.title[1:]}"
    what = f"{report_tables.head(results, column)} ({title})" if column.label else title
    difference = report_tables.difference(one, what, report_tables.unit_words(results, column), [], [])
    mean = one.comparison.reference, one.comparison.mean, one.comparison.difference
    return Change(what, one.metric, one.scope, mean, difference, "" if one.scope in idle else _good(one),
                  not one.decision.different)


def _good(one: Compared) -> str:
    """Whether users want what it became."""
    wish = metrics.better().get(one.metric)
    rises = one.comparison.difference > (1 if one.comparison.ratio else 0)
    return "" if wish is None else BETTER if rises == (wish == "higher") else WORSE


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
