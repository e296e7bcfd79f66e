# SPDX-License-Identifier: GPL-2.0-only
"""A suite: experiments that are judged together, congestion controls under test against a baseline.

What the suite is stands in a description (`suite.json`): its parts, which experiment and which runs belong to each,
which metrics are its outputs and which values of them are better. Of an experiment only the listed runs count, whatever
else it has.

The comparisons of one part are a family: all its outputs, points and congestion controls are decided together.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypedDict

from analysis import metrics, stats
from analysis.compare import run_lists
from analysis.compare.rows import Compared
from analysis.flows import camps
from analysis.read.experiment import Experiment, Row
from analysis.read.runs import AnalysisError
from analysis.read.tables import Results
from testbed.core import shapes
from testbed.core.record import ListOf, Record

BETTER, EQUAL, WORSE, DIFFERENT, UNKNOWN, NO_VERDICT, NO_VALUE = WORDS = (
    "better", "equal", "worse", "different", "not distinguishable", "no verdict", "no value")
#: scales of statements
DISTANCE, RECIPROCAL = "distance from 1", "1/time"
#: of a statement without a value: both sides have some, of which all are infinite
NOBODY = "reached by neither"
_OPPOSITE = {"lower": "higher", "higher": "lower"}
_DIRECTIONS = ("lower", "higher", "one", "none")


class _Deviation(TypedDict):
    what: str
    why: str


class _Output(TypedDict):
    metric: str
    scope: str
    label: str
    better: str


class Parameter(TypedDict):
    what: str
    published: str
    run: str
    text: str


class PartRecord(Record):
    """A part in suite.json."""

    name: str
    title: str
    section: str
    #: why nothing of it was run, what is wrong with it; '' for nothing
    not_run: str
    problem: str
    #: name of the experiment's folder, and the ids of the runs that count
    experiment: str | None
    runs: Sequence[str]
    outputs: Sequence[_Output]
    parameters: Sequence[Parameter]
    deviations: Sequence[_Deviation]


class SuiteRecord(Record):
    """suite.json"""

    schema: Literal[1]
    name: str
    title: str
    source: str
    description: str
    quick: bool
    baseline: str
    subjects: Annotated[Sequence[str], (1, 10**6)]
    command: Sequence[str]
    #: titles of parts that were not asked for
    left_out: Sequence[str]
    margin: Annotated[float, (0, 1)] = stats.MARGIN
    deviations: Sequence[_Deviation]
    parts = ListOf(PartRecord, least=1)


class Output(NamedTuple):
    """A metric of a scope; better: which values are: lower, higher, one (nearer to 1, of a ratio) or none."""

    metric: str
    scope: str
    label: str
    better: str


class Statement(NamedTuple):
    """An output of a row against the baseline at the same point; compared: None where one side has no value.

    scale: what of the values is compared. Of a ratio that should be 1, how far they are from it: 2 and 0.5 are as far.
    Of times of which one was not reached, the reciprocals: who never arrives has 0.
    """

    output: Output
    row: Row
    word: str
    compared: Compared | None
    scale: str = ""


@dataclass(frozen=True)
class Part:
    """A part of the suite; `description`: what suite.json says of it, results: the results folder."""

    description: PartRecord
    results_dir: Path
    baseline: str
    subjects: tuple[str, ...]
    margin: float

    @property
    def name(self) -> str:
        return self.description.name

    @property
    def title(self) -> str:
        return self.description.title or self.name

    @property
    def outputs(self) -> list[Output]:
        return [Output(**one) for one in self.description.outputs]

    @cached_property
    def problem(self) -> str:
        """Why there is nothing of it, or not all; '' if there is all."""
        said = self.description.problem
        try:
            self._opened
        except AnalysisError as error:
            return "; ".join(filter(None, [said, str(error)]))
        return said

    @cached_property
    def _opened(self) -> Experiment | None:
        name = self.description.experiment
        if name is None:
            return None
        experiment = Experiment(self.results_dir / name, only=frozenset(self.description.runs))
        if not experiment.runs:
            raise AnalysisError(f"{name}: none of the runs of the suite is in it")
        return experiment

    @property
    def experiment(self) -> Experiment | None:
        """Its runs; None if there are none."""
        return None if self.problem and self.problem != self.description.problem else self._opened

    @cached_property
    def results(self) -> Results | None:
        if self.experiment is None:
            return None
        found = Results(self.experiment)
        self.experiment.discard(found.problems)
        return found

    @cached_property
    def statements(self) -> list[Statement]:
        """Output by output, then point by point, the congestion controls in their order."""
        if self.results is None:
            return []
        found = [one for output in self.outputs for row in self.results.experiment.rows if row.subject in self.subjects
                 and (one := self._compare(self.results, output, row))]
        there = [one.compared for one in found if one.compared]
        decisions = iter(stats.decide([one.comparison for one in there]))
        return [one if one.compared is None else self._decided(one, next(decisions)) for one in found]

    @cached_property
    def absent(self) -> list[str]:
        """Outputs of links, flows or camps that no usable run knows, in words: most likely they are misspelt.

        What is only too rare or too late for short runs, such as the time to the 150 millionth byte, is none of them.
        """
        if self.results is None or not self.experiment or not self.experiment.usable_runs:
            return []
        known = {scope.partition("/")[0] for _, scope in self.results.measured()}
        return [f"{self.title}: no run has {one.metric} of {one.scope}; there are: "
                + ", ".join(self.results.scopes(one.metric) or sorted(known))
                for one in self.outputs if one.scope.partition("/")[0] not in
                ({scope.partition("/")[0] for scope in self.results.scopes(one.metric)} or known)]

    def seeds_to_decide(self, one: Statement) -> int | None:
        """With how many seeds it would be decided, if it is not distinguishable; else, or where none is known, None."""
        return stats.seeds_to_decide(one.compared.comparison, self._undecided) \
            if one.compared and one.word == UNKNOWN else None

    @cached_property
    def _undecided(self) -> int:
        return sum(one.word == UNKNOWN for one in self.statements)

    def of(self, row: Row, output: Output) -> Statement | None:
        """None of the baseline."""
        return self._by_place.get((row.label, output))

    @cached_property
    def _by_place(self) -> dict[tuple[str, Output], Statement]:
        return {(one.row.label, one.output): one for one in self.statements}

    def _compare(self, results: Results, output: Output, row: Row) -> Statement | None:
        """None where neither side has a value: of outputs that some points do not have."""
        reference = next((other for other in results.experiment.rows
                          if (other.subject, other.point) == (self.baseline, row.point)), None)
        first = results.keyed(reference, output.metric, output.scope) if reference else {}
        second = results.keyed(row, output.metric, output.scope)
        if output.metric in camps.RATIOS:       # it is one to the baseline already
            first = dict.fromkeys(second, 1.0)
        if not first and not second:
            return None
        values = [*first.values(), *second.values()]
        scale = _scale(output, values) if first and second else None
        if scale is None:
            nobody = bool(first and second) and set(values) == {math.inf}
            return Statement(output, row, NO_VALUE, None, NOBODY * nobody)
        first, second = _scaled(first, scale), _scaled(second, scale)
        ratio = scale == DISTANCE or not scale and results.is_ratio(output.metric)
        # of 1/time it would be another for each time
        known = 0.0 if scale else max(self._resolutions.get((one.label, output.metric), 0.0)
                                      for one in (reference, row) if one)
        margin, own = metrics.margin(output.metric, self.margin)
        comparison = run_lists.compare(first, second, ratio, margin, max(known, own),
                                       math.inf if scale else metrics.most(output.metric))
        seeds = sorted(key.seed for key in second if comparison.method != stats.PAIRED or key in first)
        return Statement(output, row, NO_VERDICT, Compared(
            self.title, row, self.baseline, output.metric, output.scope, seeds, comparison,
            stats.decide([comparison])[0]), scale)

    @cached_property
    def _resolutions(self) -> dict[tuple[str, str], float]:
        """{(label of a row, metric): how exactly its values are known}, as the coarsest of its runs."""
        found: dict[tuple[str, str], float] = {}
        for run in self.experiment.usable_runs if self.experiment else []:
            assert self.experiment is not None
            label = self.experiment.row_of(run).label
            for metric, value in metrics.resolutions(run).items():
                found[label, metric] = max(value, found.get((label, metric), 0.0))
        return found

    @staticmethod
    def _decided(one: Statement, decision: stats.Decision) -> Statement:
        if one.compared is None:
            return one
        better = _OPPOSITE.get(one.output.better, one.output.better) if one.scale == RECIPROCAL else one.output.better
        return one._replace(compared=one.compared._replace(decision=decision),
                            word=word(one.output._replace(better=better), one.compared.comparison, decision))


@dataclass(frozen=True)
class Suite:
    """All parts, as `description` (suite.json) says. AnalysisError if that is damaged."""

    description: SuiteRecord
    results_dir: Path
    margin: float = stats.MARGIN

    def __post_init__(self) -> None:
        shapes.check(self.description.content(), shapes.of(SuiteRecord), "suite.json")
        for output in (output for part in self.parts for output in part.outputs):
            if output.better not in _DIRECTIONS:
                raise AnalysisError(f"suite.json: parts.outputs.better: {', '.join(_DIRECTIONS)} expected, not "
                                    f"{output.better!r}")

    @property
    def baseline(self) -> str:
        return self.description.baseline

    @property
    def subjects(self) -> tuple[str, ...]:
        """Those under test."""
        return tuple(self.description.subjects)

    @cached_property
    def parts(self) -> list[Part]:
        return [Part(one, self.results_dir, self.baseline, self.subjects, self.margin)
                for one in self.description.parts]

    def counts(self, subject: str) -> Counter[str]:
        """How often each word is said of a congestion control, over all parts."""
        return Counter(one.word for part in self.parts for one in part.statements if one.row.subject == subject)

    def sentences(self) -> Iterator[str]:
        """mine against sack: better in 3, equal in 5, worse in 1, not distinguishable in 4 of 13 comparisons"""
        for subject in self.subjects:
            counts = self.counts(subject)
            said = ", ".join(f"{word} in {counts[word]}" for word in WORDS if counts[word])
            count = sum(counts.values())
            yield f"{subject} against {self.baseline}: " + (
                f"{said} of {count} comparison{'s' * (count != 1)}" if count else "nothing to compare")
        yield from (sentence for part in self.parts for sentence in part.absent)
        for part in self.parts:
            if part.experiment and not part.experiment.usable_runs:
                yield f"{part.title}: none of its {len(part.experiment.runs)} runs is usable"

    def seeds_to_decide(self) -> str:
        """How many seeds what is not distinguishable needs, in a sentence; '' where all is decided or none is known."""
        undecided = [part.seeds_to_decide(one) for part in self.parts for one in part.statements if one.word == UNKNOWN]
        needed = sorted(count for count in undecided if count is not None)
        if not needed:
            return ""
        half, most = (_about(needed[math.ceil(share * len(needed)) - 1]) for share in (0.5, 0.9))
        if len(needed) == 1:
            said = f"About {most} seeds would decide the comparison that is not distinguishable"
        elif half == most:
            said = f"About {most} seeds would decide most of {len(needed)} comparisons that are not distinguishable"
        else:
            said = (f"Of {len(needed)} comparisons that are not distinguishable, about {half} seeds would decide half, "
                    f"and about {most} nine in ten")
        more = len(undecided) - len(needed)
        return (f"{said}, if differences and spread are as in these runs"
                + f"; of {more} more no number is known, as both means are 0" * bool(more))


def _about(count: int) -> str:
    """Two digits, rounded up: the spread is known no better."""
    unit = 10 ** max(0, len(str(count)) - 2)
    return str(-(-count // unit) * unit)


def word(output: Output, comparison: stats.Comparison, decision: stats.Decision) -> str:
    """What the scorecard says. A difference that is less than the margin for sure counts as equal."""
    if decision.p is None:
        return NO_VERDICT
    if decision.equal:
        return EQUAL
    if not decision.different:
        return UNKNOWN
    if output.better == "none":
        return DIFFERENT
    more = comparison.difference > (1 if comparison.ratio else 0)
    return BETTER if more == (output.better == "higher") else WORSE


def _scale(output: Output, values: list[float]) -> str | None:
    """What of the values of both sides can be compared: all of it (''), DISTANCE, RECIPROCAL; None: nothing."""
    if all(map(math.isfinite, values)):
        return "" if output.better != "one" else DISTANCE if min(values) > 0 else None
    # nobody arrived at all, or somebody was there from the beginning: no difference, or no reciprocal
    return RECIPROCAL if output.better != "one" and any(map(math.isfinite, values)) and min(values) > 0 else None


def _scaled(sample: Mapping[run_lists.PairingKey, float], scale: str) -> dict[run_lists.PairingKey, float]:
    if scale == RECIPROCAL:
        return {key: 1 / value for key, value in sample.items()}
    # how many times the larger of a ratio's two sides is the smaller
    return {key: math.exp(abs(math.log(value))) if scale == DISTANCE else value for key, value in sample.items()}


def as_run(part: Part, key: str) -> list[tuple[str, object]]:
    """[(name with its unit, value)] of a field of the resolved scenario, each value once, in the order of the runs."""
    found: list[tuple[str, object]] = []
    for run in part.experiment.runs if part.experiment else []:
        if not run.finished:            # its plan may be what is damaged
            continue
        at: object = run.scenario.content()
        for name in key.split("."):
            if isinstance(at, list):
                at = next((one for one in at if isinstance(one, dict) and one.get("name") == name), None)
            else:
                at = at.get(name) if isinstance(at, dict) else None
        if at is not None and (key, at) not in found:
            found.append((key, at))
    return found
