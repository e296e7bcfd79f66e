# SPDX-License-Identifier: GPL-2.0-only
"""Every row of an experiment against its reference, and what may be said of it.

The reference is the first subject at the same point, or the same subject and point of another experiment.

The comparisons of one table of the report are a family: their p-values are adjusted together. Metrics that stand in no
table have a family each, with all scopes of the metric.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import pandas as pd

from analysis import metrics, stats
from analysis.compare import run_lists
from analysis.pages.columns import Columns
from analysis.read.experiment import Row
from analysis.read.tables import COMPARISON_COLUMNS, Results


class Reference(NamedTuple):
    """What a row is compared with: a row of some results, and what it is called."""

    results: Results
    row: Row
    name: str


class Compared(NamedTuple):
    """A row against its reference in one metric; seeds: those that were paired, else those of the row; one_way: whether
    every pair differs, and all in the same direction."""

    family: str
    row: Row
    reference: str
    metric: str
    scope: str
    seeds: list[int]
    comparison: stats.Comparison
    decision: stats.Decision
    one_way: bool = False


class Comparisons:
    """All comparisons of an experiment, family by family.

    reference: what a row is compared with, None if with nothing; without it, with the first subject at its point.
    """

    def __init__(self, results: Results, tables: Iterable[Columns], margin: float = stats.MARGIN,
                 reference: Callable[[Row], Reference | None] | None = None) -> None:
        self._results = results
        self._margin = margin
        self._not_compared = metrics.not_compared()
        self._references = {row: (reference or self._first)(row) for row in results.experiment.rows}
        self._found: dict[tuple[str, str, str], Compared] = {}
        for table in tables:
            self._add(table.title, [(column.metric, column.scope) for column in table.columns])
        rest: dict[str, list[tuple[str, str]]] = {}
        for metric, scope in results.measured():
            rest.setdefault(metric, []).append((metric, scope))
        for metric, wanted in rest.items():
            self._add(metric, wanted)

    def _first(self, row: Row) -> Reference | None:
        first = self._results.experiment.reference(row)
        return None if first == row else Reference(self._results, first, first.subject)

    def of(self, row: Row, metric: str, scope: str) -> Compared | None:
        """None where nothing is compared: the reference itself, what the workload decides, what one side lacks."""
        return self._found.get((row.label, metric, scope))

    def family(self, name: str) -> list[Compared]:
        return [one for one in self._found.values() if one.family == name]

    def frame(self) -> pd.DataFrame:
        """comparison.csv"""
        rows = []
        for one in self._found.values():
            found, decision = one.comparison, one.decision
            rows.append((
                *one.row.point, one.family, one.metric, one.scope, self._results.unit(one.metric, one.scope),
                one.reference, one.row.subject, found.method, " ".join(map(str, one.seeds)),
                found.n_reference, found.n, found.reference, found.mean, "factor" if found.ratio else "difference",
                found.difference, found.low, found.high, found.p, decision.p, found.p_equal, decision.p_equal,
                100 * found.margin, found.margin_in_unit, decision.words))
        return pd.DataFrame(rows, columns=[*self._results.axes(), *COMPARISON_COLUMNS])

    def _add(self, family: str, wanted: Iterable[tuple[str, str]]) -> None:
        """Compare what is not in an earlier family yet."""
        compared = [one for metric, scope in wanted for row, reference in self._references.items()
                    if reference and metric not in self._not_compared and (row.label, metric, scope) not in self._found
                    and (one := self._compare(family, row, reference, metric, scope))]
        for one, decision in zip(compared, stats.decide([one.comparison for one in compared])):
            self._found[one.row.label, one.metric, one.scope] = one._replace(decision=decision)

    def _compare(self, family: str, row: Row, reference: Reference, metric: str, scope: str) -> Compared | None:
        first, second = reference.results.keyed(reference.row, metric, scope), self._results.keyed(row, metric, scope)
        if not run_lists.comparable(first, second):
            return None
        found = run_lists.compare(first, second, self._results.is_ratio(metric),
                                  *metrics.margin(metric, self._margin), metrics.most(metric))
        seeds = sorted(key.seed for key in second if found.method != stats.PAIRED or key in first)
        apart = [second[key] - first[key] for key in first if key in second]
        one_way = bool(apart) and (min(apart) > 0 or max(apart) < 0)
        return Compared(family, row, reference.name, metric, scope, seeds, found, stats.decide([found])[0], one_way)
