# SPDX-License-Identifier: GPL-2.0-only
"""What an experiment was expected to show, judged on the mean over usable runs of each subject and point."""

from __future__ import annotations

import math
from typing import NamedTuple

from analysis import metrics
from analysis.read.experiment import Experiment, Row
from analysis.read.runs import AnalysisError, Interval
from analysis.read.tables import Results
from testbed.core.expectations import COMPARISONS, Expectation, Window
from testbed.core.fields import FieldError

MET, NOT_MET, UNKNOWN, NOT_CONCERNED = "met", "not met", "cannot be judged", "does not apply"
_MOST_SCOPES = 10


class Outcome(NamedTuple):
    """An expectation of one row; `result` is one of the four above.

    scope: of the metric that was judged, '' if none was. n: runs with that metric; of: usable runs. mean is None where
    nothing could be judged, and `reason` says why.
    """

    expectation: Expectation
    row: Row
    result: str
    scope: str
    n: int
    of: int
    mean: float | None
    reason: str

    @property
    def found(self) -> str:
        """What was found, in words: '71.2 % (right_to_left, n = 3)'."""
        if self.mean is None:
            return self.reason
        unit = "" if self.expectation.unit == "1" else f" {self.expectation.unit}"
        number = "not reached" if math.isinf(self.mean) else f"{self.mean:.5g}{unit}"
        scope = f"{self.scope}, " if not self.expectation.scope and self.scope != "all" else ""
        return f"{number} ({scope}n = {self.n}{f' of {self.of} usable runs' if self.n < self.of else ''})"


def of_experiment(experiment: Experiment) -> list[Expectation]:
    """What experiment.json says. AnalysisError if it was edited to something that is no expectation."""
    found = []
    for record in experiment.description.expect:
        if record.comparison not in COMPARISONS:
            raise AnalysisError(f"{experiment.path / 'experiment.json'}: expect: comparison is one of "
                                f"{', '.join(COMPARISONS)}")
        part = record.window
        window = Window(part.from_us, part.to_us, part.after) if part else None
        found.append(Expectation(record.metric, record.scope, record.comparison, record.limit, record.unit,
                                 tuple(record.ccas), window))
    return found


def judge(results: Results) -> list[Outcome]:
    """Each expectation for each row that it is of, and once for each of its subjects that has no row."""
    rows = results.experiment.rows
    outcomes = []
    for one in of_experiment(results.experiment):
        outcomes += [_judged(results, one, row) for row in rows if not one.ccas or row.subject in one.ccas]
        outcomes += [Outcome(one, Row(name, (), name), NOT_CONCERNED, "", 0, 0, None, f"no run has {name}")
                     for name in one.ccas if name not in {row.subject for row in rows}]
    return outcomes


def _judged(results: Results, one: Expectation, row: Row) -> Outcome:
    usable = len(results.experiment.usable(row))
    scopes = results.scopes(one.metric)
    scope = one.scope or ("all" if "all" in scopes else next(iter(scopes), ""))
    try:
        sample = _of_window(results, one, row, scope, one.window) if one.window else \
            results.sample(row, one.metric, scope)
    except (AnalysisError, FieldError) as problem:
        return Outcome(one, row, UNKNOWN, "", 0, usable, None, str(problem))
    if not sample:
        if not usable:
            reason = "no usable run"
        elif scope in scopes:
            reason = f"none of the {usable} usable runs has {one.metric} of {scope}"
        elif scopes:
            shown = ", ".join(scopes[:_MOST_SCOPES]) + (", ..." if len(scopes) > _MOST_SCOPES else "")
            reason = f"{one.metric} has no scope {scope}; there are: {shown}"
        else:
            reason = f"no run has {one.metric}"
        return Outcome(one, row, UNKNOWN, "", 0, usable, None, reason)
    mean = results.summarise(one.metric, sample).mean
    return Outcome(one, row, MET if one.met_by(mean) else NOT_MET, scope, len(sample), usable, mean, "")


def _of_window(results: Results, one: Expectation, row: Row, scope: str, window: Window) -> list[float]:
    """The metric in the window, of each run of a row that has it there. AnalysisError or FieldError if none can."""
    found = []
    for run in results.counted(row):
        interval = Interval(*window.interval_us(run.scenario.traffic, *run.interval))
        found += [metric.value for metric in metrics.of_part(run, interval, one.metric) if metric.scope == scope]
    return found
