# SPDX-License-Identifier: GPL-2.0-only
"""Experiments against a reference: another kernel, another engine, another setting, another version of the code.

Rows of two that have the same subject and point belong together, and of these the runs with the same pairing key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from analysis import metrics, stats
from analysis.compare import run_lists
from analysis.compare.rows import Comparisons, Reference
from analysis.pages import columns
from analysis.read.experiment import Experiment, Row
from analysis.read.runs import AnalysisError, Run
from analysis.read.tables import Results, flatten

_ABSENT = "–"
_MOST_SHOWN = 3     # values of one fact in a table


class Fact(NamedTuple):
    """Something in which paired runs differ: of what kind it is, what it is called, its values on both sides."""

    kind: str
    name: str
    reference: str
    other: str


@dataclass(frozen=True)
class Versus:
    """An experiment against a reference experiment. AnalysisError if they have no row in common."""

    reference: Experiment
    other: Experiment
    margin: float = stats.MARGIN

    def __post_init__(self) -> None:
        if not self.pairs:
            subjects = [", ".join(one.subjects) for one in (self.reference, self.other)]
            raise AnalysisError(
                f"{self.reference.path.name} and {self.other.path.name} have no congestion control at the same point "
                f"in common of which both have usable runs ({subjects[0]}; {subjects[1]})")

    @cached_property
    def results(self) -> tuple[Results, Results]:
        """Of the reference, and of the other."""
        both = Results(self.reference), Results(self.other)
        for one in both:
            one.experiment.discard(one.problems)
        return both

    @cached_property
    def pairs(self) -> dict[Row, Row]:
        """{row of the other: the same row of the reference}, of those for which both have usable runs."""
        first, second = (one.experiment for one in self.results)
        known = {_place(first, row): row for row in first.rows if first.usable(row)}
        return {row: known[_place(second, row)] for row in second.rows
                if second.usable(row) and _place(second, row) in known}

    @cached_property
    def tables(self) -> columns.Tables:
        """The tables of the report of the other experiment, without what cannot be compared."""
        return columns.Tables(*([kept for table in part if (kept := _comparable(table)).columns]
                                for part in columns.tables(self.results[1])))

    @cached_property
    def comparisons(self) -> Comparisons:
        def reference(row: Row) -> Reference | None:
            return Reference(self.results[0], self.pairs[row], self.reference.path.name) if row in self.pairs else None
        return Comparisons(self.results[1], self.tables.all(), self.margin, reference)

    def alone(self) -> list[tuple[str, list[str]]]:
        """(name of the experiment, labels of its rows that the other lacks), where there are such."""
        sides = (self.reference, set(self.pairs.values())), (self.other, set(self.pairs))
        return [(side.path.name, left) for side, paired in sides
                if (left := [row.label for row in side.rows if row not in paired])]

    def facts(self) -> list[Fact]:
        """In what the runs differ that belong together: by what is the same in all runs, then by plans."""
        values: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
        for first, second in self.runs():
            mine, theirs = _facts(first), _facts(second)
            for key in [*mine, *(key for key in theirs if key not in mine)]:
                both = mine.get(key, _ABSENT), theirs.get(key, _ABSENT)
                if both[0] != both[1]:
                    for known, value in zip(values.setdefault(key, ([], [])), both):
                        if value not in known:
                            known.append(value)
        order = ("engine", "kernel", "code", "scenario", "congestion control", "traces")
        return [Fact(kind, name, *map(_shown, both)) for (kind, name), both
                in sorted(values.items(), key=lambda item: order.index(item[0][0]))]

    def runs(self) -> Iterator[tuple[Run, Run]]:
        """Runs of the same row and seed; where no seed is common, the first of both."""
        for row, first_row in self.pairs.items():
            first, second = ({run.seed: run for run in usable} for usable in (
                self.reference.usable(first_row), self.other.usable(row)))
            common = [seed for seed in first if seed in second]
            if common:
                yield from ((first[seed], second[seed]) for seed in common)
            else:
                yield next(iter(first.values())), next(iter(second.values()))


class Group:
    """Experiments against the first of them. AnalysisError if none has a row in common with it.

    labels: {path of an experiment: what it is called here}: its engine where each has another one, else its name.
    """

    def __init__(self, experiments: Sequence[Experiment], margin: float = stats.MARGIN) -> None:
        self.reference, *others = experiments
        self.margin = margin
        self.versus: list[Versus] = []
        self.left_out: list[str] = []   # why others are not compared
        for other in others:
            try:
                self.versus.append(Versus(self.reference, other, margin))
            except AnalysisError as problem:
                self.left_out.append(str(problem))
        if not self.versus:
            raise AnalysisError("; ".join(self.left_out))
        self.experiments = [self.reference, *(one.other for one in self.versus)]
        engines = [one.engine for one in self.experiments]
        distinct = len(set(engines)) == len(engines) and all(engines)
        self.labels = {one.path: one.engine if distinct else one.path.name for one in self.experiments}

    @property
    def rows(self) -> list[Row]:
        """Rows of the reference that another experiment has, too."""
        paired = {row for one in self.versus for row in one.pairs.values()}
        return [row for row in self.reference.rows if row in paired]

    def runs(self, row: Row) -> dict[str, list[Run]]:
        """{label: usable runs} of a row of the reference, of every experiment that has it."""
        found = {self.labels[self.reference.path]: self.reference.usable(row)}
        for one in self.versus:
            found.update({self.labels[one.other.path]: one.other.usable(theirs)
                          for theirs, mine in one.pairs.items() if mine == row})
        return found

    def pairs(self, row: Row) -> dict[str, list[tuple[Run, Run]]]:
        """{label of another: [(run of the reference, its run)]} with the same seed and the same traffic."""
        (_, mine), *others = self.runs(row).items()
        known = {run_lists.pairing_key(run): run for run in mine}
        return {label: [(known[key], run) for run in runs if (key := run_lists.pairing_key(run)) in known]
                for label, runs in others}

    def one_seed(self, row: Row) -> dict[str, Run]:
        """{label: run} with the same traffic, as many experiments as have one like the reference's; {} if none."""
        pairs = self.pairs(row)
        first = next((mine for run_pairs in pairs.values() for mine, _ in run_pairs), None)
        if first is None:
            return {}
        found = {self.labels[self.reference.path]: first}
        for label, of_label in pairs.items():
            found.update({label: run for mine, run in of_label if mine is first})
        return found


def _comparable(table: columns.Columns) -> columns.Columns:
    left_out = metrics.not_compared()
    return table._replace(columns=[column for column in table.columns if column.metric not in left_out])


def _place(experiment: Experiment, row: Row) -> tuple[str, tuple[tuple[str, str], ...]]:
    """A row by its subject and point, whatever the order of the axes."""
    return row.subject, tuple(sorted((axis.key, value) for axis, value in zip(experiment.axes, row.point)))


def _facts(run: Run) -> dict[tuple[str, str], str]:
    """{(kind, name): value} of what a run was made from, without its seed."""
    found: dict[tuple[str, str], object] = {
        ("engine", "engine"): run.engine, ("engine", "clock"): run.environment.clock,
        ("kernel", "release"): run.kernel, ("kernel", "source"): run.environment.kernel_source,
        ("kernel", "options"): ", ".join(run.environment.kernel_options),
        ("kernel", "identity"): run.plan.kernel_key,
        ("code", "testbed"): run.environment.code_version,
        ("code", "inside the guest"): run.plan.guest_code[:12]}
    # the network follows from the section `topology`
    scenario = {key: value for key, value in run.scenario.content().items() if key != "network"}
    found.update({("scenario", name): value for name, value in flatten(scenario).items()})
    for variant in run.variants:
        facts = {"kernel_cca": variant.kernel_cca, "module_sha256": variant.module_sha256, "sysctls": variant.sysctls,
                 "parameters": variant.parameters,
                 "socket_options": {option.name: option.value for option in variant.socket_options}}
        found.update({("congestion control", f"{variant.name}: {name}"): value
                      for name, value in flatten(facts).items()})
    for path, digest in run.plan.inputs.items():
        found["traces", path] = str(digest)[:12]
    return {key: str(value) for key, value in found.items() if value not in (None, "")}


def _shown(values: list[str]) -> str:
    rest = len(values) - _MOST_SHOWN
    return "; ".join(values[:_MOST_SHOWN]) + (f"; and {rest} more" if rest > 0 else "")
