# SPDX-License-Identifier: GPL-2.0-only
"""A congestion control against the criteria of a document: a verdict for each test, point and reference.

A seed gives one value of a statistic (`testbed.core.assessed.CriterionTest`); the mean over the seeds has a 95 %
interval. Ratios and shares are averaged as logarithms. A finding

* meets: the whole interval is on the good side of the threshold `meets`;
* does not meet: it is on the bad side of `fails`;
* needs judgement: the mean lies between the two;
* needs more seeds: the interval is too wide for the side on which the mean lies, or there are fewer than five seeds.

A criterion is as bad as its worst finding.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from analysis import stats
from analysis.compare.published import Runs, opened
from analysis.compare.run_lists import PairingKey
from analysis.estimates import t_quantile
from analysis.read.experiment import Row
from analysis.read.runs import AnalysisError
from analysis.read.tables import Results
from testbed.core import assessed
from testbed.core.assessed import Criterion, CriterionTest

MEETS, JUDGE, SEEDS, FAILS, UNKNOWN, NOTHING = WORDS = (
    "meets", "needs judgement", "needs more seeds", "does not meet", "cannot be tested here", "no verdict")
_BADNESS = (MEETS, UNKNOWN, JUDGE, SEEDS, NOTHING, FAILS)
#: who asks for more than this would not get an answer
MOST_SEEDS = 1000

_Values = Mapping[PairingKey, float]


class Finding(NamedTuple):
    """A test at a point, against a reference ('' if there is none). values: of the seeds; needed: how many seeds would
    decide; why_not: why there is no verdict; measured: {whose: mean of the metric}, in `unit`."""

    test: CriterionTest
    point: Mapping[str, str]
    against: str
    unit: str
    measured: Mapping[str, float]
    values: Sequence[float]
    found: stats.Summary | None
    word: str
    needed: int | None = None
    why_not: str = ""


@dataclass(frozen=True)
class Assessed:
    """A criterion with its runs."""

    about: Criterion
    candidate: str
    references: Sequence[str]
    runs: Runs

    @cached_property
    def problems(self) -> list[str]:
        """What could not be run or read."""
        said = [self.runs.problem] if self.runs.problem and not self.about.not_run else []
        return said + ([str(self._opened)] if isinstance(self._opened, AnalysisError) else [])

    @cached_property
    def _opened(self) -> Results | AnalysisError | None:
        return None if self.about.not_run else opened(self.runs)

    @cached_property
    def findings(self) -> list[Finding]:
        """Test by test, point by point, reference by reference."""
        if self._opened is None or isinstance(self._opened, AnalysisError):
            return []
        return [finding for test in self.about.tests for finding in self._of(test, self._opened)]

    def _of(self, test: CriterionTest, results: Results) -> Iterator[Finding]:
        experiment = results.experiment
        others = [one for one in self.references if one != self.candidate] if test.of != assessed.VALUE else [""]
        places = [{value: place for place, value in enumerate(axis.values)} for axis in experiment.axes]
        for point in sorted({row.point for row in experiment.rows},
                            key=lambda point: [place[value] for place, value in zip(places, point)]):
            named = {axis.key: value for axis, value in zip(experiment.axes, point) if len(axis.values) > 1}
            rows = {row.subject: row for row in experiment.rows if row.point == point}
            for other in others:
                seats = _Seats(results, rows, test)
                yield _judged(test, named, other, results.unit(test.metric, _some_scope(test)) or "",
                              self._measured(seats, other), _STATISTICS[test.of](seats, self.candidate, other))

    def _measured(self, seats: _Seats, other: str) -> dict[str, float]:
        """Means of the metric: of all in the same place, or of who is beside whom."""
        if seats.test.of in (assessed.VALUE, assessed.RATIO):
            names = dict.fromkeys([self.candidate, *self.references])
            whose: dict[str, Sequence[_Values]] = {name: [seats.of(name, 1)] for name in names}
        else:
            mine, its = (self.candidate, other) if seats.test.of == assessed.SHARE else (other, self.candidate)
            whose = {f"{mine} beside {its}": seats.beside(mine, its), f"{other} beside itself": seats.itself(other)}
        means = {}
        for name, seats_of_it in whose.items():
            values = [value for seat in seats_of_it for value in seat.values()]
            if values:
                means[name] = statistics.fmean(values)
        return means

    @cached_property
    def runs_said(self) -> str:
        """45 runs: 44 valid, 1 invalid; Linux 6.12.117; '' if there are none"""
        if self._opened is None or isinstance(self._opened, AnalysisError):
            return ""
        experiment = self._opened.experiment
        counts = Counter(experiment.verdict(run) for run in experiment.runs)
        said = ", ".join(f"{count} {word}" for word, count in counts.most_common())
        return f"{sum(counts.values())} runs: {said}" + (f"; Linux {experiment.kernel}" if experiment.kernel else "")

    @property
    def word(self) -> str:
        """The verdict on the criterion."""
        if not self.findings:
            return UNKNOWN if self.about.not_run else NOTHING
        words = [one.word for one in self.findings] + [NOTHING] * bool(self.problems)
        return max(words, key=_BADNESS.index)

    @property
    def decisive(self) -> list[Finding]:
        """The findings that make the verdict."""
        return [one for one in self.findings if one.word == self.word]

    @property
    def folder_name(self) -> str:
        return self.runs.folder.name if self.runs.folder else ""


class _Seats(NamedTuple):
    """The runs of a point, by their subjects."""

    results: Results
    rows: Mapping[str, Row]
    test: CriterionTest

    def of(self, subject: str, seat: int) -> _Values:
        """{seed: value} of a subject's runs; of a metric of flows, of that in the seat."""
        row = self.rows.get(subject)
        scope = f"flow_{seat}" if self.test.scope == assessed.SEAT else self.test.scope
        return self.results.keyed(row, self.test.metric, scope) if row else {}

    def itself(self, subject: str) -> Sequence[_Values]:
        """Beside itself, by seats."""
        return [self.of(subject, seat) for seat in (1, 2)]

    def beside(self, subject: str, other: str) -> Sequence[_Values]:
        """Beside another one, by seats."""
        return [self.of(f"{subject}+{other}", 1), self.of(f"{other}+{subject}", 2)]


def _some_scope(test: CriterionTest) -> str:
    return "flow_1" if test.scope == assessed.SEAT else test.scope


def _value(seats: _Seats, candidate: str, other: str) -> list[float]:
    return list(seats.of(candidate, 1).values())


def _ratio(seats: _Seats, candidate: str, other: str) -> list[float]:
    ours, theirs = seats.of(candidate, 1), seats.of(other, 1)
    return [_over(ours[key], theirs[key]) for key in sorted({*ours} & {*theirs})]


def _over(ours: float, theirs: float) -> float:
    """Nothing over nothing is the same."""
    return ours / theirs if theirs else math.inf if ours else 1.0


def _share(seats: _Seats, candidate: str, other: str) -> list[float]:
    return _over_seats(seats.beside(candidate, other), seats.itself(other), _over)


def _harm(seats: _Seats, candidate: str, other: str) -> list[float]:
    def harm(beside: float, itself: float) -> float:
        worse, better = (beside, itself) if seats.test.more_is_better else (itself, beside)
        return 1 - worse / better if better else 0.0
    return _over_seats(seats.beside(other, candidate), seats.itself(other), harm)


def _over_seats(ours: Sequence[_Values], theirs: Sequence[_Values], compare: Callable[[float, float], float]) \
        -> list[float]:
    """Seed by seed, the means over both seats compared. Seeds with one seat only do not count."""
    keys = sorted(set.intersection(*({*one} for one in (*ours, *theirs))))
    return [compare(statistics.fmean(one[key] for one in ours), statistics.fmean(one[key] for one in theirs))
            for key in keys]


_STATISTICS: Mapping[str, Callable[[_Seats, str, str], list[float]]] = {
    assessed.VALUE: _value, assessed.RATIO: _ratio, assessed.HARM: _harm, assessed.SHARE: _share}


def _judged(test: CriterionTest, point: Mapping[str, str], against: str, unit: str, measured: Mapping[str, float],
            values: Sequence[float]) -> Finding:
    """The finding of these values."""
    if not values:
        return Finding(test, point, against, unit, measured, values, None, NOTHING, None, "no usable run has a value")
    logs = test.of in (assessed.RATIO, assessed.SHARE) and 0 < min(values) and max(values) < math.inf
    found = stats.summarise(values, logs)
    finding = Finding(test, point, against, unit, measured, values, found, JUDGE)
    if math.isinf(found.mean):
        return finding._replace(word=NOTHING, why_not=f"{against} has none")
    if len(values) < stats.LEAST:
        why_not = f"{stats.LEAST} seeds that differ expected, not {len(values)}"
        return finding._replace(word=SEEDS, needed=stats.LEAST, why_not=why_not)
    # runs that are one run count once: these differ, and have the same value, such as no drops
    low_end, high_end = (found.mean if end is None else end for end in (found.low, found.high))
    sign = -1 if test.high_meets else 1         # the smaller, the better
    low, high = sorted((sign * low_end, sign * high_end))
    mean, meets, fails = sign * found.mean, sign * test.threshold.meets, sign * test.threshold.fails
    if meets < mean <= fails and (low >= meets or high <= fails):
        return finding
    if high <= meets or low > fails:
        return finding._replace(word=MEETS if high <= meets else FAILS)
    return finding._replace(word=SEEDS, needed=_needed(len(values), found, sign * (meets if mean < meets else fails)))


def _needed(n: int, found: stats.Summary, threshold: float) -> int | None:
    """How many seeds would decide, if mean and spread stay; None if more than MOST_SEEDS."""
    def log(value: float) -> float:
        return math.log(value) if found.ratio else value
    assert found.low is not None and found.high is not None
    distance = abs(log(found.mean) - log(threshold)) if threshold > 0 or not found.ratio else math.inf
    half = max(log(found.high) - log(found.mean), log(found.mean) - log(found.low))
    sd = half * math.sqrt(n) / t_quantile(n - 1)
    for count in range(max(stats.LEAST, n + 1), MOST_SEEDS + 1):
        if t_quantile(count - 1) * sd / math.sqrt(count) < distance:
            return count
    return None


def sentences(found: Sequence[Assessed]) -> list[str]:
    """A line for each criterion, for people in a hurry."""
    return [f"{one.about.section:<7} {one.about.title}: {one.word}{_because(one)}" for one in found]


def _because(one: Assessed) -> str:
    if one.about.not_run:
        return f" ({one.about.not_run})"
    if not one.findings:
        return f" ({'; '.join(one.problems) or 'not run'})"
    if one.word == MEETS:
        return ""
    return f" ({say(one.decisive[0])}{f'; and {len(one.decisive) - 1} more' if len(one.decisive) > 1 else ''})"


def say(finding: Finding) -> str:
    """drops 9.7 %, buffer 0.5: at most 1 meets, above 5 fails"""
    test = finding.test
    unit = f" {finding.unit}" if test.of == assessed.VALUE and finding.unit not in ("", "1") else ""
    point = ", ".join(f"{axis.rpartition('.')[2]} {value}" for axis, value in finding.point.items())
    value = f"{finding.found.mean:.3g}" if finding.found else "no value"
    words = [f"{test.label}{f' against {finding.against}' * bool(finding.against)} {value}{unit}", point]
    if finding.needed:
        words.append(f"about {finding.needed} seeds would decide")
    return ", ".join(filter(None, words)) + f": {limits(test)}" if not finding.why_not else \
        ", ".join(filter(None, words)) + f": {finding.why_not}"


def limits(test: CriterionTest) -> str:
    """at most 20 meets, above 40 does not"""
    good, bad = ("at least", "below") if test.high_meets else ("at most", "above")
    return f"{good} {test.threshold.meets:g} meets, {bad} {test.threshold.fails:g} does not"
