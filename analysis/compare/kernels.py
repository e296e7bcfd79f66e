# SPDX-License-Identifier: GPL-2.0-only
"""An experiment with several kernels: each kernel against each that was named before it, in runs of the same seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from analysis.compare import run_lists, unchanged
from analysis.compare.rows import Comparisons, Reference
from analysis.pages import report_tables
from analysis.pages.columns import Columns
from analysis.read.experiment import KERNEL_AXIS, Experiment, Row
from analysis.read.runs import Run
from analysis.read.tables import Results


class Level(NamedTuple):
    """A kernel of the experiment, as the first of its usable runs describes it."""

    name: str
    release: str
    source: str
    identity: str


class Line(NamedTuple):
    """What became of a subject at a point: a row of the table of a pair of kernels.

    pairs: runs of the same seed and traffic with both kernels; same: how many of them have the same raw data;
    compared, different: how many comparisons of the report's tables have a verdict, and how many say "different".
    """

    subject: str
    point: tuple[str, ...]      # without the kernel
    seeds: str
    pairs: int
    same: int
    compared: int
    different: int

    @property
    def words(self) -> str:
        if not self.pairs:
            return "no seed with usable runs of both kernels"
        runs = "1 run" if self.pairs == 1 else f"{self.pairs} runs"
        if self.same == self.pairs:
            return f"{unchanged.WORDS} ({runs}, raw data the same to the byte)"
        if not self.compared:
            return (f"other data; no comparison has a verdict ({runs} with each"
                    + (f", {self.same} of them the same to the byte" if self.same else "") + ")")
        return (f"{self.different} of {self.compared} comparisons different ({runs} with each"
                + (f", {self.same} of them the same to the byte" if self.same else "") + ")")


class Pair(NamedTuple):
    """A kernel against an earlier one; axes: of the points, without the kernel; tables: (title, differences one by one)
    of the rows that changed."""

    reference: str
    other: str
    rows: dict[Row, Line]
    axes: list[str]
    tables: list[tuple[str, list[report_tables.Difference]]]
    comparisons: Comparisons

    @property
    def lines(self) -> list[Line]:
        return list(self.rows.values())

    @property
    def unchanged(self) -> bool:
        return all(line.pairs and line.same == line.pairs for line in self.lines)


def levels(experiment: Experiment) -> list[Level]:
    """The kernels of an experiment that has several, in the order asked for; else []."""
    place = experiment.kernel_place
    if place is None:
        return []
    found = []
    for name in experiment.axes[place].values:
        run = next((run for row in experiment.rows if row.point[place] == name for run in experiment.usable(row)), None)
        found.append(Level(name, "", "", "") if run is None else Level(
            name, run.kernel, run.environment.kernel_source or "", run.plan.kernel_key))
    return found


def pairs(results: Results, tables: Sequence[Columns], margin: float) -> list[Pair]:
    """Every kernel against every earlier one; [] where there are not several."""
    place = results.experiment.kernel_place
    if place is None:
        return []
    names = results.experiment.axes[place].values
    return [_pair(results, tables, margin, place, reference, other)
            for number, other in enumerate(names) for reference in names[:number]]


def _pair(results: Results, tables: Sequence[Columns], margin: float, place: int, reference: str, other: str) -> Pair:
    experiment = results.experiment
    known = {(row.subject, row.point): row for row in experiment.rows}

    def before(row: Row) -> Row | None:
        """The same row with the reference kernel."""
        if row.point[place] != other:
            return None
        return known.get((row.subject, (*row.point[:place], reference, *row.point[place + 1:])))
    rows = {row: first for row in experiment.rows if (first := before(row))}
    found = {row: list(_paired(experiment, first, row)) for row, first in rows.items()}
    counts = {row: unchanged.count(of_row) for row, of_row in found.items()}
    changed = {row for row, (same, count) in counts.items() if not count or same < count}

    def compared_with(row: Row) -> Reference | None:
        return Reference(results, rows[row], reference) if row in changed else None
    comparisons = Comparisons(results, tables, margin, compared_with)
    differences = [(table.title, [_without(one, place) for one in of_table]) for table in tables
                   if (of_table := report_tables.differences(results, comparisons, table))]
    said = [one for table in tables for one in comparisons.family(table.title)]
    lines = {row: Line(row.subject, (*row.point[:place], *row.point[place + 1:]),
                       report_tables.seed_list([run.seed for run, _ in found[row]]), counts[row][1], counts[row][0],
                       sum(one.row == row and one.decision.p is not None for one in said),
                       sum(one.row == row and one.decision.different for one in said)) for row in rows}
    axes = [axis.short for at, axis in enumerate(experiment.axes) if at != place]
    return Pair(reference, other, lines, axes, differences, comparisons)


def _paired(experiment: Experiment, first: Row, second: Row) -> Iterator[tuple[Run, Run]]:
    """Usable runs of two rows with the same seed and traffic."""
    known = {run_lists.pairing_key(run): run for run in experiment.usable(first)}
    for run in experiment.usable(second):
        if mine := known.get(run_lists.pairing_key(run)):
            yield mine, run


def _without(one: report_tables.Difference, place: int) -> report_tables.Difference:
    """A difference whose point does not name the kernel, which is the same in its table."""
    return one._replace(point=[cell for at, cell in enumerate(one.point) if at != place])


def frames(found: Sequence[Pair]) -> dict[str, pd.DataFrame]:
    """Tables of the report, by name."""
    tables = [pair.comparisons.frame() for pair in found]
    return {"kernels": pd.DataFrame([
        (pair.reference, pair.other, line.subject, " ".join(line.point), line.seeds, line.pairs, line.same,
         line.compared, line.different, line.words) for pair in found for line in pair.lines],
        columns=["reference", "kernel", "subject", "point", "seeds", "pairs_of_runs", "pairs_with_the_same_raw_data",
                 "comparisons", "comparisons_different", "result"]),
        "kernels_comparison": pd.concat([table for table in tables if not table.empty] or tables[:1]).rename(
            columns={f"axis.{KERNEL_AXIS}": KERNEL_AXIS})}


def context(results: Results, found: Sequence[Pair]) -> dict[str, object]:
    """What the page's section shows; nothing where there are not several kernels."""
    experiment = results.experiment
    return {"kernel_levels": levels(experiment), "kernel_pairs": found,
            "kernel_axes": [axis.head for place, axis in enumerate(experiment.axes)
                            if place != experiment.kernel_place]}
