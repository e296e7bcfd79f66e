# SPDX-License-Identifier: GPL-2.0-only
"""Every subject of an experiment against the first one at the same point, and what may be said of it.

The comparisons of one table of the report are a family: their p-values are adjusted together. Metrics that stand in no
table have a family each, with all scopes of the metric.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

from analysis import comparing, stats
from analysis.columns import NOT_COMPARED, Columns
from analysis.experiment import Row
from analysis.tables import COMPARISON_COLUMNS, Results


class Compared(NamedTuple):
    """A row against its reference in one metric; seeds: those that were paired, else those of the row."""

    family: str
    row: Row
    reference: Row
    metric: str
    scope: str
    seeds: list[int]
    comparison: stats.Comparison
    decision: stats.Decision


class Comparisons:
    """All comparisons of an experiment, family by family."""

    def __init__(self, results: Results, tables: Iterable[Columns], margin: float = stats.MARGIN) -> None:
        self._results = results
        self._margin = margin
        self._found: dict[tuple[str, str, str], Compared] = {}
        for table in tables:
            self._add(table.title, [(column.metric, column.scope) for column in table.columns])
        rest: dict[str, list[tuple[str, str]]] = {}
        for metric, scope in results.measured():
            rest.setdefault(metric, []).append((metric, scope))
        for metric, wanted in rest.items():
            self._add(metric, wanted)

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
                one.reference.subject, one.row.subject, found.method, " ".join(map(str, one.seeds)),
                found.n_reference, found.n, found.reference, found.mean, "factor" if found.ratio else "difference",
                found.difference, found.low, found.high, found.p, decision.p, found.p_equal, decision.p_equal,
                100 * found.margin, decision.words))
        return pd.DataFrame(rows, columns=[*self._results.axes(), *COMPARISON_COLUMNS])

    def _add(self, family: str, wanted: Iterable[tuple[str, str]]) -> None:
        """Compare what is not in an earlier family yet."""
        experiment = self._results.experiment
        places = [(row, experiment.reference(row), metric, scope) for metric, scope in wanted
                  for row in experiment.rows
                  if metric not in NOT_COMPARED and (row.label, metric, scope) not in self._found]
        compared = [(*place, found) for place in places if (found := self._compare(*place))]
        decisions = stats.decide([found for *_, found in compared])
        for (row, reference, metric, scope, found), decision in zip(compared, decisions):
            first, second = (self._results.keyed(one, metric, scope) for one in (reference, row))
            seeds = sorted(key.seed for key in second if found.method != stats.PAIRED or key in first)
            self._found[row.label, metric, scope] = Compared(
                family, row, reference, metric, scope, seeds, found, decision)

    def _compare(self, row: Row, reference: Row, metric: str, scope: str) -> stats.Comparison | None:
        first, second = (self._results.keyed(one, metric, scope) for one in (reference, row))
        if row == reference or not first or not second:
            return None
        return comparing.compare(first, second, self._results.is_ratio(metric), self._margin)
