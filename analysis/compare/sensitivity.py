# SPDX-License-Identifier: GPL-2.0-only
"""Which conclusions of a comparison survive when a knob is turned (knobs/).

The experiment is a sweep over one axis, whose points are the scenario as it is and every variation of it. At each point
its subjects are compared with the first of them, as if that point were all there is: what somebody would have concluded
who had it set that way. Whether the difference itself has changed is another question, with a test of its own: the
differences of the same seeds with and without the knob.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from analysis import metrics, stats
from analysis.compare import run_lists
from analysis.drawing import style
from analysis.read.experiment import Experiment
from analysis.read.runs import AnalysisError
from analysis.read.tables import Results

AXIS = "knob"
#: the point at which no knob is turned
AS_IT_IS = "as-it-is"
#: what conclusions are drawn from unless somebody names metrics; first those of links, then those of everything
OF_LINKS = (("queueing_delay_mean", "queueing delay, mean"), ("drop_rate", "drop rate"))
OF_DIRECTIONS = (("goodput", "goodput"),)
OF_ALL = (("flow_completion_time_p50", "completion, median"), ("flow_completion_time_mean", "completion, mean"))
OF_FLOWS = (("throughput_ratio_short_long", "throughput ratio, short : long"),
            ("jains_index", "Jain's fairness index"))

SURVIVES, FLIPS, LOST, EQUAL, APPEARS, STILL_NONE, NO_VERDICT = (
    "survives", "flips", "not distinguishable", "equal now", "different now", "nothing either", "no verdict")
NOT_JUDGED = "not judged"


class Quantity(NamedTuple):
    """A metric of a scope, and what it is called."""

    metric: str
    scope: str
    label: str
    unit: str


class Statement(NamedTuple):
    """A subject against the first at one point; change: of the difference, against the point as it is."""

    quantity: Quantity
    subject: str
    knob: str
    comparison: stats.Comparison
    decision: stats.Decision
    outcome: str
    change: stats.Comparison | None = None
    change_p: float | None = None

    @property
    def changed(self) -> bool:
        return self.change_p is not None and self.change_p <= 1 - stats.CONFIDENCE


@dataclass(frozen=True)
class Sensitivity:
    """Statements of an experiment whose axis is the knob. AnalysisError if there is nothing to compare.

    named: metrics to look at instead of the usual ones; order: subjects, the reference first, if not as the experiment
    lists them; not_reached: (knob, subject, quantity) that some run has no
    finite value of, such as a percentile of transfers of which too few came to their end.
    """

    experiment: Experiment
    margin: float = stats.MARGIN
    named: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    not_reached: list[tuple[str, str, Quantity]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if [axis.key for axis in self.experiment.axes] != [AXIS]:
            raise AnalysisError(f"{self.experiment.path.name}: not an experiment of `testbed sensitivity`")
        self.results.experiment.discard(self.results.problems)
        if not self.base:
            raise AnalysisError(f"{self.experiment.path.name}: no two congestion controls have usable runs as it is"
                                + (f", or no metric {', '.join(self.named)}" if self.named else ""))

    @cached_property
    def results(self) -> Results:
        return Results(self.experiment)

    @property
    def reference(self) -> str:
        """The subject with which the others are compared."""
        return self.subjects[0]

    @property
    def subjects(self) -> list[str]:
        """The reference first."""
        there = self.experiment.subjects
        return list(dict.fromkeys([*(name for name in self.order if name in there), *there]))

    @cached_property
    def knobs(self) -> list[str]:
        """Labels of the variations, in the order in which they were made; some may have no usable run."""
        there = {run.point.get(AXIS) for run in self.experiment.runs}
        return [label for label in self.experiment.axes[0].values if label in there and label != AS_IT_IS]

    @cached_property
    def quantities(self) -> list[Quantity]:
        """What is looked at, of what any run has."""
        if self.named:
            found = [(metric, scope, f"{metric}, {scope}") for metric in self.named
                     for scope in self.results.scopes(metric) if "bytes_" not in scope]
        else:
            found = self._usual()
        return [Quantity(metric, scope, label, unit) for metric, scope, label in found
                if (unit := self.results.unit(metric, scope)) is not None]

    def _usual(self) -> list[tuple[str, str, str]]:
        run = next(iter(self.experiment.usable_runs), None)
        targets = run.targets if run else []
        links = [(name, f", {style.direction(name)}" * (len(targets) > 1)) for name in targets]
        ways = dict.fromkeys((run.bottlenecks[name].direction or name) for name in targets) if run else {}
        return [*((metric, name, label + where) for name, where in links for metric, label in OF_LINKS),
                *((metric, way, label) for way in ways for metric, label in OF_DIRECTIONS),
                *((metric, "all", label) for metric, label in OF_ALL),
                *((metric, scope, label) for metric, label in OF_FLOWS for scope in self.results.scopes(metric))]

    @cached_property
    def base(self) -> list[Statement]:
        """What the scenario as it is says."""
        return self._at(AS_IT_IS)

    @cached_property
    def statements(self) -> list[Statement]:
        """All points, that as it is first; changes are one family, whatever the knob."""
        known = {(one.quantity, one.subject): one for one in self.base}
        found = [one._replace(outcome=_outcome(known[one.quantity, one.subject], one), change=self._change(one))
                 for label in self.knobs for one in self._at(label) if (one.quantity, one.subject) in known]
        adjusted = stats.holm([one.change.p if one.change else None for one in found])
        return [*self.base, *(one._replace(change_p=p) for one, p in zip(found, adjusted))]

    def of(self, knob: str) -> list[Statement]:
        return [one for one in self.statements if one.knob == knob]

    def outcome(self, knob: str, subject: str, quantity: Quantity) -> str:
        """What becomes of a conclusion with a variation; NOT_JUDGED if a side has no usable run there."""
        return next((one.outcome for one in self.of(knob) if (one.subject, one.quantity) == (subject, quantity)),
                    NOT_JUDGED)

    def _at(self, label: str) -> list[Statement]:
        """Of one point; its comparisons are a family."""
        found = []
        for quantity in self.quantities:
            for subject in self.subjects[1:]:
                first, second = (self._sample(name, label, quantity) for name in (self.reference, subject))
                if run_lists.comparable(first, second):
                    found.append((quantity, subject, run_lists.compare(
                        first, second, self._ratio(quantity), *self._margin(quantity), metrics.most(quantity.metric))))
                elif first and second:
                    self.not_reached.append((label, subject, quantity))
        decisions = stats.decide([comparison for _, _, comparison in found])
        return [Statement(quantity, subject, label, comparison, decision, "")
                for (quantity, subject, comparison), decision in zip(found, decisions)]

    def _change(self, one: Statement) -> stats.Comparison | None:
        """How much more, or by which factor more, the subject differs from the reference than as it is."""
        ratio = self._ratio(one.quantity)
        before, after = (run_lists.differences(
            run_lists.by_seed(self._sample(self.reference, label, one.quantity)),
            run_lists.by_seed(self._sample(one.subject, label, one.quantity)), ratio)
            for label in (AS_IT_IS, one.knob))
        if not run_lists.comparable(before, after):
            return None
        return run_lists.compare(before, after, ratio, *self._margin(one.quantity))

    def _sample(self, subject: str, label: str, quantity: Quantity) -> dict[run_lists.PairingKey, float]:
        row = next((row for row in self.experiment.rows if (row.subject, row.point) == (subject, (label,))), None)
        return self.results.keyed(row, quantity.metric, quantity.scope) if row else {}

    def _margin(self, quantity: Quantity) -> tuple[float, float]:
        return metrics.margin(quantity.metric, self.margin)

    def _ratio(self, quantity: Quantity) -> bool:
        return self.results.is_ratio(quantity.metric)


def _outcome(base: Statement, turned: Statement) -> str:
    """What becomes of a conclusion."""
    if base.decision.p is None or turned.decision.p is None:
        return NO_VERDICT
    was, now = base.decision, turned.decision
    if was.different:
        if now.different:
            return SURVIVES if _sign(base.comparison) == _sign(turned.comparison) else FLIPS
        if now.equal:
            return SURVIVES if was.equal else EQUAL
        return LOST
    if now.equal:
        return SURVIVES if was.equal else EQUAL
    if now.different:
        return APPEARS
    return LOST if was.equal else STILL_NONE


def concluded(decision: stats.Decision) -> bool:
    """Whether a comparison came to a conclusion: different, or equal within the margin."""
    return decision.different or decision.equal


def _sign(comparison: stats.Comparison) -> bool:
    return comparison.difference > (1 if comparison.ratio else 0)
