# SPDX-License-Identifier: GPL-2.0-only
"""A kernel against the one it was made from, scenario by scenario: what changed, and what did not."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from analysis import stats
from analysis.compare import changes, kernels, run_lists, unchanged
from analysis.pages import columns
from analysis.read.experiment import Experiment, Row
from analysis.read.runs import Run
from analysis.read.tables import Results

#: what became of a scenario; BROKEN: it cannot be compared
BROKEN, WORSE, BETTER, DIFFERENT, OTHER_DATA, SAME = "broken", "worse", "better", "different", "other data", "same"
#: those that count as a change
CHANGED = (WORSE, BETTER, DIFFERENT)
#: verdicts and states of runs, the best first
_MOST_TOLD = 5
_ORDER = ("valid", "suspect", "invalid", "damaged", "failed")


class Event(NamedTuple):
    """What changed that is no metric: runs that fail with one kernel only, a packet script that passes no more. good:
    WORSE, BETTER or DIFFERENT."""

    who: str
    words: str
    good: str = WORSE


class Outcome(NamedTuple):
    """What became of a scenario, or of anything else that is carried out with both kernels, such as packet scripts.

    problem: why it cannot be compared; '' if it can. same: how many things without metrics are the same, in words.
    report: the page with all of its numbers, '' without one.
    """

    name: str
    title: str
    problem: str = ""
    rows: list[changes.Changed] = []
    events: list[Event] = []
    same: str = ""
    report: str = ""

    @property
    def state(self) -> str:
        """The worst of its congestion controls."""
        goods = {one.good for row in self.rows for one in row.changes} | {one.good for one in self.events}
        if self.problem:
            return BROKEN
        if goods:
            return next((state for state in (WORSE, BETTER) if state in goods), DIFFERENT)
        if self.same:
            return SAME
        if not self.rows or any(row.state == changes.NOTHING for row in self.rows):
            return BROKEN
        return SAME if all(row.state == changes.SAME for row in self.rows) else OTHER_DATA

    @property
    def words(self) -> str:
        """One line."""
        found = [one for row in self.rows for one in row.changes]
        if self.state == SAME:
            return self.same or f"{unchanged.WORDS}, the same to the byte"
        if self.state == OTHER_DATA:
            few = any(row.state == changes.TOO_FEW for row in self.rows)
            return "other packets; " + (f"metrics need {stats.LEAST} seeds" if few else
                                        "no metric can be told apart")
        if self.state == BROKEN:
            return f"cannot be compared: {self.problem or 'no usable runs of both kernels'}"
        told = [f"{one.who}: {one.words}" for one in self.events[:_MOST_TOLD]]
        told += [f"and {len(self.events) - _MOST_TOLD} more"] if len(self.events) > _MOST_TOLD else []
        return "; ".join(filter(None, [_metrics(found), *told, self.same]))


class Regression(NamedTuple):
    """All of it. base, other: the kernels; kernels: what is known of them."""

    base: str
    other: str
    kernels: list[kernels.Level]
    outcomes: list[Outcome]

    @property
    def state(self) -> str:
        """The worst of all, where what cannot be compared comes last: that is no change."""
        found = {one.state for one in self.outcomes}
        return next((state for state in (WORSE, BETTER, DIFFERENT, BROKEN, OTHER_DATA) if state in found), SAME)

    @property
    def sentence(self) -> str:
        """The first sentence of the page."""
        total = _count(len(self.outcomes), "scenario")
        changed = [one for one in self.outcomes if one.state in CHANGED]
        broken = [one.name for one in self.outcomes if one.state == BROKEN]
        more = f" Of {', '.join(broken)} nothing is known." if broken else ""
        against = f"With kernel {self.other}, against {self.base},"
        if changed:
            found = [one for outcome in changed for row in outcome.rows for one in row.changes]
            events = [one.good for outcome in changed for one in outcome.events]
            said = " and ".join(filter(None, [_metrics(found), ", ".join(
                f"{_count(events.count(good), 'other change')} that is {good}" if events.count(good) == 1 else
                f"{events.count(good)} other changes that are {good}" for good in CHANGED if good in events)]))
            return f"{against} {len(changed)} of {total} changed: {said}.{more}"
        same = sum(one.state == SAME for one in self.outcomes)
        if same == len(self.outcomes):
            return f"{against} nothing changed: {total}, the same to the byte."
        if broken:
            return f"{against} nothing changed in {same} of {total}.{more}"
        return f"{against} no metric changed; {same} of {total} are the same to the byte."

    def lines(self) -> Iterator[str]:
        """For a terminal: the sentence, then scenario by scenario."""
        yield self.sentence
        for one in self.outcomes:
            yield f"{one.name}: {one.words}"
            section = changes.Section("", one.rows)
            if one.state not in (SAME, BROKEN):
                yield from list(section.lines())[1:]


def _metrics(found: list[changes.Change]) -> str:
    """12 metrics changed, 8 worse, 2 better"""
    if not found:
        return ""
    counts = [(word, sum(one.good == word for one in found)) for word in (changes.WORSE, changes.BETTER)]
    told = ", ".join(f"{count} {word}" for word, count in counts if count)
    return f"{_count(len(found), 'metric')} changed" + (f" ({told})" if told else "")


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def unsettled(folder: Path, only: Collection[str]) -> list[str]:
    """The subjects of which more seeds may tell something: whose raw data differ between two kernels, and that have
    runs with both. only: ids of the runs that count."""
    experiment = Experiment(folder, only)
    rows = _both(experiment)
    return [subject for subject in experiment.subjects
            if any(mine and not _all_same(mine) for mine in (
                _pairs(experiment, first, second) for first, second in rows if second.subject == subject))]


def _all_same(pairs: list[tuple[Run, Run]]) -> bool:
    same, count = unchanged.count(pairs)
    return same == count


def _pairs(experiment: Experiment, first: Row, second: Row) -> list[tuple[Run, Run]]:
    known = {run_lists.pairing_key(run): run for run in experiment.usable(first)}
    return [(known[key], run) for run in experiment.usable(second) if (key := run_lists.pairing_key(run)) in known]


def _both(experiment: Experiment) -> list[tuple[Row, Row]]:
    """Rows with the first of two kernels, each with the same row with the second."""
    place = experiment.kernel_place
    if place is None:
        return []
    base, other = experiment.axes[place].values[:2]
    known = {(row.subject, row.point): row for row in experiment.rows}
    found = []
    for row in experiment.rows:
        if row.point[place] == other:
            first = known.get((row.subject, (*row.point[:place], base, *row.point[place + 1:])))
            found += [(first, row)] if first else []
    return found


def of_experiment(name: str, title: str, folder: Path, only: Collection[str], margin: float = stats.MARGIN) \
        -> tuple[Outcome, list[kernels.Level]]:
    """What became of a scenario whose experiment has two kernels, and what is known of these.

    only: ids of the runs that count."""
    experiment = Experiment(folder, only)
    results = Results(experiment)
    experiment.discard(results.problems)
    tables = columns.tables(results).all()
    pairs = kernels.pairs(results, tables, margin)
    sections = changes.of_kernels(results, tables, pairs[:1])
    rows = [row if row.state == changes.SAME else row._replace(counters=changes.counters_of(
        _pairs(experiment, first, second))) for row, (first, second) in zip(sections[0].rows, _both(experiment))] \
        if sections else []
    events = _events(experiment)
    # what has no usable runs with one kernel stands among the events, if it has some with the base
    hurt = {one.who for one in events}
    outcome = Outcome(name, title, "" if rows else "no runs of both kernels",
                      [row for row in rows if row.state != changes.NOTHING or row.who not in hurt], events)
    return outcome, kernels.levels(experiment)


def _events(experiment: Experiment) -> list[Event]:
    """Rows of which more runs failed, or have a bad verdict, with the second kernel than with the first."""
    place = experiment.kernel_place
    found = []
    for first, second in _both(experiment):
        before = {run.seed: run for run in experiment.runs if experiment.row_of(run) == first}
        worse = [(run, experiment.verdict(run)) for run in experiment.runs
                 if experiment.row_of(run) == second and run.seed in before
                 and _rank(experiment.verdict(run)) > _rank(experiment.verdict(before[run.seed]))]
        if worse:
            state = max((verdict for _, verdict in worse), key=_rank)
            run = next(run for run, verdict in worse if verdict == state)
            known = experiment.verdicts.get(run.name)
            why = known["reasons"][0]["message"] if known and known["reasons"] else run.state.message
            axes = [axis.say(value) for at, (axis, value) in enumerate(zip(experiment.axes, second.point))
                    if at != place and value]
            found.append(Event(" ".join([second.subject, *axes]),
                               f"{len(worse)} of {_count(len(before), 'run')} {state}, and not with the base: "
                               f"{why.splitlines()[0] if why else 'no reason known'}"))
    return found


def _rank(verdict: str) -> int:
    return _ORDER.index(verdict) if verdict in _ORDER else len(_ORDER)
