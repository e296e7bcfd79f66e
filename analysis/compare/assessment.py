# SPDX-License-Identifier: GPL-2.0-only
"""A congestion control against the criteria of a document: a verdict for each test, point and reference.

A seed gives one value of a statistic (`testbed.core.assessed.CriterionTest`); the mean over the seeds has a 95 %
interval. Ratios and shares are averaged as logarithms; where a reference has none in some seed, r / (1 + r) is
averaged, which is 1 there. A finding

* meets: the whole interval is on the good side of the threshold `meets`. Of a test of every seed, no seed is beyond
  `fails` in either seat, either, of at least fourteen: where a fifth of all seeds were, one of fourteen would show it
  with 95 %;
* does not meet: the mean is on the bad side of `fails`, by Holm's correction over all findings of the page: that any of
  them is said to fail by chance has a probability of 5 % at most;
* needs judgement: the mean lies between the two, or on one of them, or single seeds are beyond `fails`;
* needs more seeds: the interval is too wide for the side on which the mean lies, or there are fewer than five seeds.

A criterion is as bad as its worst finding.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

from analysis import stats
from analysis.compare.run_lists import PairingKey
from analysis.estimates import CONFIDENCE, t_quantile
from analysis.read.experiment import Experiment, Row
from analysis.read.parts import Runs, opened
from analysis.read.runs import AnalysisError
from analysis.read.tables import Results
from testbed.core import assessed
from testbed.core.assessed import Criterion, CriterionTest

#: what a value is of
_OF = {assessed.VALUE: "", assessed.RATIO: ", over the reference's", assessed.HARM: ", of the reference",
       assessed.SHARE: ", over the reference's", assessed.BESIDE: ", beside the reference"}
MEETS, JUDGE, SEEDS, FAILS, UNKNOWN, NOTHING = WORDS = (
    "meets", "needs judgement", "needs more seeds", "does not meet", "cannot be tested here", "no verdict")
_BADNESS = (MEETS, UNKNOWN, JUDGE, SEEDS, NOTHING, FAILS)
#: who asks for more than this would not get an answer
MOST_SEEDS = 1000

_Values = Mapping[PairingKey, float]
_Thing = TypeVar("_Thing")


class OfSeed(NamedTuple):
    """What a seed gives: the value of the statistic, and that of each seat (the same, where there are none)."""

    seed: int
    value: float
    seats: Sequence[float]


class Finding(NamedTuple):
    """A test at a point, against a reference ('' if there is none).

    said: {short name of an axis: value of the point with its unit}; asked: how many seeds were asked for; needed: how
    many would decide; why: what else is to be known of the verdict;
    measured: {whose: mean of the metric}, in `unit`; p: how likely it is, where the true mean is at the threshold
    `fails`, that seeds give a mean so far away from it (two-sided), None if that was not tested; p_holm: after the
    correction.
    """

    test: CriterionTest
    point: Mapping[str, str]
    said: Mapping[str, str]
    against: str
    unit: str
    measured: Mapping[str, float]
    seeds: Sequence[OfSeed]
    asked: int
    found: stats.Summary | None
    word: str
    needed: int | None = None
    why: str = ""
    p: float | None = None
    p_holm: float | None = None

    @property
    def at(self) -> str:
        """Its point, in words: buffer 8 BDP."""
        return ", ".join(f"{name} {value}" for name, value in self.said.items())

    @property
    def values(self) -> list[float]:
        return [one.value for one in self.seeds]

    @property
    def worst(self) -> OfSeed | None:
        """The seed with the worst value."""
        return self._worst([(one.value, one) for one in self.seeds])

    @property
    def worst_in_seat(self) -> tuple[int, OfSeed] | None:
        """(seat, seed) with the worst value; None without seats."""
        return self._worst([(value, (seat, one)) for one in self.seeds if len(one.seats) > 1
                            for seat, value in enumerate(one.seats, start=1)])

    def _worst(self, found: Sequence[tuple[float, _Thing]]) -> _Thing | None:
        sign = -1 if self.test.high_meets else 1
        return max(found, key=lambda one: sign * one[0])[1] if found else None

    @property
    def beyond(self) -> list[OfSeed]:
        """Seeds that are beyond `fails` in some seat."""
        sign = -1 if self.test.high_meets else 1
        return [one for one in self.seeds
                if any(sign * value > sign * self.test.threshold.fails for value in one.seats)]

    @property
    def shortfall(self) -> str:
        """n = 3 of 5; '' if all seeds that were asked for have a value."""
        return f"n = {len(self.seeds)} of {self.asked}" if len(self.seeds) < self.asked else ""


@dataclass
class Assessed:
    """A criterion with its runs. Its findings are those of the criterion alone, until `correct`."""

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
        """Those of `alone`; after `correct`, corrected."""
        return self.alone

    @cached_property
    def alone(self) -> list[Finding]:
        """Test by test, point by point, reference by reference; each on its own."""
        if self._opened is None or isinstance(self._opened, AnalysisError):
            return []
        return [finding for test in self.about.tests for finding in self._of(test, self._opened)]

    def _of(self, test: CriterionTest, results: Results) -> Iterator[Finding]:
        experiment = results.experiment
        others = [one for one in self.references if one != self.candidate] if test.of != assessed.VALUE else [""]
        places = [{value: place for place, value in enumerate(axis.values)} for axis in experiment.axes]
        for point in sorted({row.point for row in experiment.rows},
                            key=lambda point: [place[value] for place, value in zip(places, point)]):
            named = {axis.key: value for axis, value in zip(experiment.axes, point)}
            said = {axis.short: axis.with_unit(value) for axis, value in zip(experiment.axes, point)}
            rows = {row.subject: row for row in experiment.rows if row.point == point}
            for other in others:
                seats = _Seats(results, rows, test)
                asked = max(len(experiment.names[row]) for row in rows.values())
                yield _judged(test, named, said, other, results.unit(test.metric, _some_scope(test)) or "",
                              self._measured(seats, other), _STATISTICS[test.of](seats, self.candidate, other), asked)

    def _measured(self, seats: _Seats, other: str) -> dict[str, float]:
        """Means of the metric: of all in the same place, or of who is beside whom."""
        if seats.test.of == assessed.BESIDE:
            whose: dict[str, Sequence[_Values]] = {
                f"{self.candidate} beside {other}": seats.beside(self.candidate, other)}
        elif seats.test.of in (assessed.VALUE, assessed.RATIO):
            names = dict.fromkeys([self.candidate, *self.references])
            whose = {name: [seats.of(name, 1)] for name in names}
        else:
            mine, its = (self.candidate, other) if seats.test.of == assessed.SHARE else (other, self.candidate)
            whose = {f"{mine} beside {its}": seats.beside(mine, its), f"{other} beside itself": seats.itself(other)}
        means = {}
        for name, by_seat in whose.items():
            values = [value for seat in by_seat for value in seat.values()]
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
    def more_seeds(self) -> Finding | None:
        """The finding for which more seeds are most needed, where the verdict on the criterion is that. Not those of
        which most runs are one run though their seeds differ, or cannot be used: more seeds would not help."""
        short = [one for one in self.decisive if one.word == SEEDS and 2 * len(one.seeds) > one.asked]
        return max(short, key=lambda one: one.needed or MOST_SEEDS) if short else None

    @property
    def decisive(self) -> list[Finding]:
        """The findings that make the verdict."""
        return [one for one in self.findings if one.word == self.word]

    @property
    def experiment(self) -> Experiment | None:
        """None if nothing was run, or it cannot be read."""
        return self._opened.experiment if isinstance(self._opened, Results) else None

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


def _value(seats: _Seats, candidate: str, other: str) -> list[OfSeed]:
    return [OfSeed(key.seed, value, [value]) for key, value in sorted(seats.of(candidate, 1).items())]


def _ratio(seats: _Seats, candidate: str, other: str) -> list[OfSeed]:
    return _over_seats([seats.of(candidate, 1)], [seats.of(other, 1)], _over)


def _over(ours: float, theirs: float) -> float:
    """Nothing over nothing is the same."""
    return ours / theirs if theirs else math.inf if ours else 1.0


def _share(seats: _Seats, candidate: str, other: str) -> list[OfSeed]:
    return _over_seats(seats.beside(candidate, other), seats.itself(other), _over)


def _harm(seats: _Seats, candidate: str, other: str) -> list[OfSeed]:
    def harm(beside: float, itself: float) -> float:
        worse, better = (beside, itself) if seats.test.more_is_better else (itself, beside)
        return 1 - worse / better if better else 0.0
    return _over_seats(seats.beside(other, candidate), seats.itself(other), harm)


def _beside(seats: _Seats, candidate: str, other: str) -> list[OfSeed]:
    first, second = seats.beside(candidate, other)
    return [OfSeed(key.seed, statistics.fmean((first[key], second[key])), [first[key], second[key]])
            for key in sorted({*first} & {*second})]


def _over_seats(ours: Sequence[_Values], theirs: Sequence[_Values], compare: Callable[[float, float], float]) \
        -> list[OfSeed]:
    """Seed by seed, the means over both seats compared, and each seat. Seeds with one seat only do not count, nor those
    in which neither side's value is finite, such as a percentile that was not reached."""
    keys = sorted(key for key in set.intersection(*({*one} for one in (*ours, *theirs)))
                  if not all(any(math.isinf(one[key]) for one in side) for side in (ours, theirs)))
    return [OfSeed(key.seed, compare(statistics.fmean(one[key] for one in ours),
                                     statistics.fmean(one[key] for one in theirs)),
                   [compare(mine[key], its[key]) for mine, its in zip(ours, theirs)]) for key in keys]


_STATISTICS: Mapping[str, Callable[[_Seats, str, str], list[OfSeed]]] = {
    assessed.VALUE: _value, assessed.RATIO: _ratio, assessed.HARM: _harm, assessed.SHARE: _share,
    assessed.BESIDE: _beside}


class _Scale(NamedTuple):
    """On which values are averaged and compared with thresholds."""

    to: Callable[[float], float]
    back: Callable[[float], float]

    @classmethod
    def of(cls, test: CriterionTest, values: Sequence[float]) -> _Scale:
        if math.isinf(max(values)):
            return cls(lambda ratio: 1.0 if math.isinf(ratio) else ratio / (1 + ratio),
                       lambda share: math.inf if share >= 1 else max(0.0, share) / (1 - max(0.0, share)))
        if test.of in (assessed.RATIO, assessed.SHARE) and min(values) > 0:
            return cls(math.log, math.exp)
        if test.of == assessed.HARM:            # whether it spreads widely is asked of what is left: harm may be near 0
            return cls(lambda harm: harm - 1, lambda lost: lost + 1)
        return cls(float, float)


def _judged(test: CriterionTest, point: Mapping[str, str], said: Mapping[str, str], against: str, unit: str,
            measured: Mapping[str, float], seeds: Sequence[OfSeed], asked: int) -> Finding:
    """The finding of these values, on its own."""
    finding = Finding(test, point, said, against, unit, measured, seeds, asked, None, NOTHING)
    values = finding.values
    if not values:
        return finding._replace(why="no usable run has a value")
    scale = _Scale.of(test, values)
    scaled = stats.summarise([scale.to(value) for value in values])
    if scale.to is math.log:
        scaled = _logarithms(stats.summarise(values, True))
    finding = finding._replace(found=_back(scaled, scale), why=_lacking(finding))
    if len(values) < stats.LEAST:
        return finding._replace(word=SEEDS, needed=stats.LEAST,
                                why=f"a verdict needs {stats.LEAST} seeds that differ, and has {len(values)}")
    # runs that are one run count once: these differ, and have the same value, such as no drops
    low_end, high_end = (scaled.mean if end is None else end for end in (scaled.low, scaled.high))
    sign = -1 if test.high_meets else 1         # the smaller, the better
    low, high = sorted((sign * low_end, sign * high_end))
    mean, meets, fails = (sign * one for one in (scaled.mean, scale.to(test.threshold.meets),
                                                 scale.to(test.threshold.fails)))
    half = max(mean - low, high - mean)
    finding = finding._replace(p=_probability(mean - fails, mean - low if mean > fails else high - mean, len(values)))
    if meets < mean <= fails and (low >= meets or high <= fails):
        return finding._replace(word=JUDGE)
    if low > fails:
        return finding._replace(word=FAILS)
    if high <= meets:
        return _every_seed(finding._replace(word=MEETS))
    distance = abs(mean - (meets if mean < meets else fails))
    needed = _needed(len(values), half, distance)
    if needed is None:
        return finding._replace(word=JUDGE, why=f"so near to the threshold that {MOST_SEEDS} seeds would not decide")
    return finding._replace(word=SEEDS, needed=needed)


def _lacking(finding: Finding) -> str:
    """Why values are infinite, and of how many seeds."""
    without = sum(map(math.isinf, finding.values))
    if not without:
        return ""
    why = "the value is infinite" if any(map(math.isinf, finding.measured.values())) else f"{finding.against} has none"
    return f"{why} in {without} of {len(finding.values)} seeds"


def _logarithms(found: stats.Summary) -> stats.Summary:
    low, high = (None if end is None else math.log(end) for end in (found.low, found.high))
    return replace(found, mean=math.log(found.mean), low=low, high=high, ratio=False)


def _back(scaled: stats.Summary, scale: _Scale) -> stats.Summary:
    low, high = (None if end is None else scale.back(end) for end in (scaled.low, scaled.high))
    return replace(scaled, mean=scale.back(scaled.mean), low=low, high=high, ratio=scale.to is math.log)


def _probability(distance: float, half: float, n: int) -> float:
    """p of a mean that is so far from a threshold; below it, 1: nobody asks there. half: of the 95 % interval."""
    if distance <= 0:
        return 1.0
    if half <= 0:
        return 0.0
    from scipy.special import stdtr
    return min(1.0, 2 * float(stdtr(n - 1, -distance / half * t_quantile(n - 1))))


def _every_seed(finding: Finding) -> Finding:
    """What meets on average, seed by seed."""
    if not finding.test.every_seed:
        return finding
    n, limit = len(finding.seeds), f"{finding.test.threshold.fails:g}"
    if finding.beyond:
        return finding._replace(word=JUDGE, why=f"{len(finding.beyond)} of {n} seeds are beyond {limit}")
    if n < stats.LEAST_EQUAL:
        return finding._replace(word=SEEDS, needed=stats.LEAST_EQUAL,
                                why=f"none of {n} seeds is beyond {limit}; up to {_bound(n)} of all may be")
    return finding._replace(why=f"none of {n} seeds is beyond {limit}, so that at most {_bound(n)} of all are")


def _bound(n: int) -> str:
    """Where none of n seeds is beyond a limit, 95 % bound of the share of all seeds that are: 19 % for 14."""
    return f"{100 * (1 - (1 - CONFIDENCE) ** (1 / n)):.2g} %"


def _needed(n: int, half: float, distance: float, confidence: float = CONFIDENCE) -> int | None:
    """How many seeds would decide, if mean and spread stay; None if more than MOST_SEEDS."""
    sd = half * math.sqrt(n) / t_quantile(n - 1)
    for count in range(max(stats.LEAST, n + 1), MOST_SEEDS + 1):
        if t_quantile(count - 1, confidence) * sd / math.sqrt(count) < distance:
            return count
    return None


def correct(found: Sequence[Assessed], looks: int = 1) -> int:
    """Holm's correction of "does not meet" over all findings of a page. Returns over how many.

    looks: how often findings are judged at most, as seeds are added while a verdict needs some. p is multiplied by it
    (Bonferroni).
    """
    family = [finding for one in found for finding in one.alone]
    size = sum(finding.p is not None for finding in family)
    adjusted = dict(zip(map(id, family), stats.holm([finding.p for finding in family])))
    for one in found:
        one.findings = [_corrected(finding, adjusted[id(finding)], size, looks) for finding in one.alone]
    return size


def _corrected(finding: Finding, p_holm: float | None, size: int, looks: int) -> Finding:
    p_holm = None if p_holm is None else min(1.0, looks * p_holm)
    finding = finding._replace(p_holm=p_holm)
    if finding.word != FAILS or p_holm is None or p_holm <= 1 - CONFIDENCE:
        return finding
    assert finding.found
    scale = _Scale.of(finding.test, finding.values)
    mean, fails = scale.to(finding.found.mean), scale.to(finding.test.threshold.fails)
    half = max(abs(mean - scale.to(end)) for end in (finding.found.low, finding.found.high) if end is not None)
    needed = _needed(len(finding.seeds), half, abs(mean - fails), 1 - (1 - CONFIDENCE) / (size * looks))
    family = f"{size} findings{f', each judged up to {looks} times' * (looks > 1)}"
    return finding._replace(word=SEEDS, needed=needed, why="; ".join(filter(None, [
        finding.why, f"beyond the threshold alone, but not as one of {family}"])))


def sentences(found: Sequence[Assessed]) -> list[str]:
    """A line for each criterion, for people in a hurry."""
    return [f"{one.about.section:<7} {one.about.title}: {one.word}{_because(one)}" for one in found]


def _because(one: Assessed) -> str:
    if one.about.not_run:
        return f" ({one.about.not_run})"
    if not one.findings:
        return f" ({'; '.join(one.problems) or 'not run'})"
    if one.word == MEETS:
        short = next((finding.shortfall for finding in one.findings if finding.shortfall), "")
        return f" ({short})" if short else ""
    return f" ({say(one.decisive[0])}{f'; and {len(one.decisive) - 1} more' if len(one.decisive) > 1 else ''})"


def _shown(value: float, threshold: float) -> str:
    """A value beside a threshold: what is a thousandth of it is 0."""
    return "0" if abs(value) < abs(threshold) / 1000 else f"{value:.3g}"


def say(finding: Finding) -> str:
    """drops 9.7 %, buffer 0.5: at most 1 meets, above 5 does not"""
    test = finding.test
    unit = f" {finding.unit}" if test.of in assessed.IN_UNIT and finding.unit not in ("", "1") else ""
    value = _shown(finding.found.mean, test.threshold.fails) if finding.found else "no value"
    words = [f"{test.label}{f' against {finding.against}' * bool(finding.against)} {value}{unit}", finding.at]
    words.append(finding.shortfall)
    if finding.needed and finding.needed > stats.LEAST:         # with fewer, the reason says it
        words.append(f"about {finding.needed} seeds would decide")
    return f"{', '.join(filter(None, words))}: {limits(test)}" + (f"; {finding.why}" if finding.why else "")


def name_of(test: CriterionTest) -> str:
    """drops, over the reference's"""
    return test.label + _OF[test.of]


def limits(test: CriterionTest) -> str:
    """at most 20 meets, above 40 does not"""
    good, bad = ("at least", "below") if test.high_meets else ("at most", "above")
    return f"{good} {test.threshold.meets:g} meets, {bad} {test.threshold.fails:g} does not"
