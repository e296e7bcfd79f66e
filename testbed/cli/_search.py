# SPDX-License-Identifier: GPL-2.0-only
"""What `testbed search` does with candidates and findings: carries them out, writes them down."""
from __future__ import annotations

import argparse
import collections
import dataclasses
import math
import pathlib
import re
import shlex
from collections.abc import Iterable, Sequence

from analysis import metrics
from analysis.read.runs import Run
from testbed import engines
from testbed.cli import _runs, _shared
from testbed.core.errors import RunFailed, ScenarioError
from testbed.core.files import write_text
from testbed.core.progress import Display, Listener, heard_by
from testbed.core.run_files import Labels
from testbed.runs import campaign, queries
from testbed.runs.engine import EngineBase
from testbed.runs.executor import ExecutorBase
from testbed.runs.goals import Goal
from testbed.runs.plan import Plan, digest
from testbed.runs.run import read_verdict
from testbed.runs.searching import FAILED, REFUSED, SHARED, VALID, VERDICTS, Finding, Neighbour, Trial, shown
from testbed.runs.store import Store, read_record
from testbed.scenario import ccas, scenario, written
from testbed.scenario.scenario import Scenario
from testbed.scenario.search_space import Candidate

ROBUST_SEEDS = (1, 2, 3)


class Loader:
    """The scenario of a candidate. ScenarioError if there can be none such."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments, self._choices = arguments, _runs.choices(arguments)

    def __call__(self, candidate: Candidate) -> Scenario:
        return scenario.load(self._arguments.scenario, self._choices, self._arguments.quick,
                             [*self._arguments.settings, *candidate.options()])


@dataclasses.dataclass(frozen=True)
class Question:
    """In which networks a subject meets a goal. words: the subject as it was given; reference: who must not meet it
    there, or whom the goal compares with."""
    scenario: Scenario
    goal: Goal
    words: str
    subject: ccas.Subject
    reference: ccas.Subject | None
    load: Loader


class Bench:
    """Carries out candidates and reads the goal's metric. With several seeds, the others follow where the first meets
    the goal, and the value is the one that is furthest from it. A reference follows there, too: if it meets the goal
    with any seed, the effect is shared. If the goal is a share of the reference, both run in each network, and the
    value is that share."""

    def __init__(self, question: Question, seeds: Sequence[int], engine: EngineBase, executor: ExecutorBase,
                 store: Store, again: bool) -> None:
        self._load, self._goal = question.load, question.goal
        self._subject, self._reference = question.subject, question.reference
        self._seeds, self._engine, self._executor, self._store, self._again = seeds, engine, executor, store, again

    def __call__(self, candidates: Sequence[Candidate]) -> list[Trial]:
        by_seed = self._values(candidates, self._seeds[:1])
        found = {one: by_seed[one][0] for one in candidates}
        met = [one for one in candidates if found[one].meets(self._goal)]
        if len(self._seeds) > 1:
            others = self._values(met, self._seeds[1:])
            found.update({one: self._together([*by_seed[one], *others[one]]) for one in met})
        if self._reference and not self._goal.of:
            met = [one for one in met if found[one].meets(self._goal)]
            there = self._carried_out(met, [self._reference], self._seeds)
            found.update({one: self._beside(found[one], max((some[0] for some in there[one]), key=self._goodness))
                          for one in met})
        return [found[one] for one in candidates]

    def _values(self, candidates: Sequence[Candidate], seeds: Sequence[int]) -> dict[Candidate, list[Trial]]:
        """The trial of each seed."""
        if self._reference and self._goal.of:
            carried_out = self._carried_out(candidates, [self._subject, self._reference], seeds)
            return {one: [self._share(*some) for some in by_seed] for one, by_seed in carried_out.items()}
        return {one: [trial for trial, in by_seed]
                for one, by_seed in self._carried_out(candidates, [self._subject], seeds).items()}

    def _together(self, trials: Sequence[Trial]) -> Trial:
        """The one of several seeds that says least for a finding, with the limit of their mean."""
        worst = max(trials, key=self._badness)
        limits = [one.limit for one in trials if one.limit is not None]
        return dataclasses.replace(worst, limit=sum(limits) / len(limits) if limits else None)

    def _share(self, trial: Trial, reference: Trial) -> Trial:
        """A trial whose value is its share of the reference's, in %."""
        own, there = trial.value, reference.value
        found = dataclasses.replace(trial, value=None, own=own, reference=there)
        if trial.verdict != VALID or own is None:
            return found
        if reference.verdict != VALID or there is None:
            return dataclasses.replace(found, verdict=reference.verdict, reason=f"{self._goal.of}: {reference.reason}")
        if not there > 0 or not math.isfinite(there):
            return dataclasses.replace(found, reason=f"{self._goal.of} has {there:g}, of which nothing is a share")
        return dataclasses.replace(found, value=100 * own / there, limit=self._goal.limit / 100 * there)

    def _beside(self, trial: Trial, reference: Trial) -> Trial:
        """A trial that meets the goal, with what the reference did in the same network."""
        name = self._reference.name if self._reference else ""
        if reference.verdict != VALID:
            return dataclasses.replace(trial, verdict=reference.verdict, reason=f"{name}: {reference.reason}")
        if reference.meets(self._goal):
            return dataclasses.replace(trial, verdict=SHARED, reason=f"{name} meets the goal, too",
                                       reference=reference.value)
        return dataclasses.replace(trial, reference=reference.value)

    def _badness(self, trial: Trial) -> tuple[int, float]:
        """Larger for a trial that says less for a finding."""
        value = math.inf if trial.value is None else trial.value
        return VERDICTS.index(trial.verdict), value if self._goal.comparison.startswith("<") else -value

    def _goodness(self, trial: Trial) -> tuple[int, float]:
        """Larger for a trial of a reference that says more against a finding."""
        verdict, value = self._badness(trial)
        return verdict, -value

    def _carried_out(self, candidates: Sequence[Candidate], subjects: Sequence[ccas.Subject], seeds: Sequence[int]) \
            -> dict[Candidate, list[list[Trial]]]:
        """What each subject did in each candidate: by seed, then in the order of the subjects."""
        found: dict[Candidate, list[list[Trial]]] = {}
        plans: dict[Candidate, list[list[Plan]]] = {}
        for candidate in candidates:
            try:
                plans[candidate] = [self._plans(candidate, subject, seeds) for subject in subjects]
            except ScenarioError as problem:
                found[candidate] = [[Trial(candidate, REFUSED, reason=str(problem))] * len(subjects) for _ in seeds]
        with heard_by(_Quiet()):
            campaign.carry_out([plan for by_subject in plans.values() for some in by_subject for plan in some],
                               self._executor, self._store, self._again)
        found.update({candidate: [[self._trial(candidate, plan) for plan in some] for some in zip(*by_subject)]
                      for candidate, by_subject in plans.items()})
        return found

    def _plans(self, candidate: Candidate, subject: ccas.Subject, seeds: Sequence[int]) -> list[Plan]:
        one = self._load(candidate)
        plans = campaign.make_plans([({}, one)], [subject], seeds, self._engine, lambda text: None)
        for plan in plans:
            if refused := self._engine.cannot(plan):
                raise one.error(refused.field, str(refused))
        return plans

    def _trial(self, candidate: Candidate, plan: Plan) -> Trial:
        folder = self._store.run_dir(plan.id)
        if self._store.finished(plan.id) is None:
            record = read_record(folder)
            return Trial(candidate, FAILED, reason=str(record.error) if record else "it left nothing", run_id=plan.id)
        verdict = read_verdict(folder)
        table = metrics.load_metrics(Run(folder))
        goal = self._goal
        row = queries.value_of(queries.Wanted(goal.metric, goal.scope, goal.metric), table)
        if row is None:
            scopes = sorted({str(scope) for scope in table["scope"][table["metric"] == goal.metric]})
            reason = f"the run has no {goal.metric}" + (f" of {goal.scope}; there are: {', '.join(scopes)}"
                                                        if scopes else "")
            return Trial(candidate, verdict, reason=reason, run_id=plan.id)
        reason = "" if verdict == VALID else f"its verdict is in {folder}"
        return Trial(candidate, verdict, float(row["value"]), reason, plan.id)


class _Quiet(Listener):
    """Hears of single runs and tells nothing: the search says what matters."""

    def say(self, text: str) -> None:
        pass

    title = step = say

    def open_display(self, total_runs: int, duration_s: float) -> Display:
        return _NoDisplay(total_runs, duration_s)


class _NoDisplay(Display):
    """Runs of several candidates have the same name here."""

    def start(self, run: str) -> None:
        pass

    def end(self, run: str, text: str) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def update(self, run: str, phase: str, t_us: int) -> None:
        pass


def path_word(text: str) -> str:
    """Text as a part of a scenario's name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:24] or "x"


def told(trials: Iterable[Trial], in_vain: int) -> str:
    """How many trials there were, and of which verdict those are that did not count; in_vain: besides them."""
    every = list(trials)
    counts = collections.Counter(one.verdict for one in every)
    others = [f"{counts[verdict]} {verdict}" for verdict in VERDICTS[1:] if counts[verdict]]
    if not every:
        return "no trials"
    return (f"{len(every)} trials, "
            + (f"of which did not count: {', '.join(others)}" if others else "all of them valid")
            + (f"; {in_vain} more ran beside them for nothing" if in_vain else ""))


class Written:
    """A finding as files."""

    def __init__(self, arguments: argparse.Namespace, question: Question, usual: Trial, finding: Finding,
                 counted: str) -> None:
        self._arguments, self._cca = arguments, question.words
        self._scenario, self._subject, self._goal = question.scenario, question.subject, question.goal
        self._usual, self._finding, self._counted = usual, finding, counted
        self._found = question.load(finding.trial.candidate)
        self.name = f"found-{path_word(self._subject.name)}-{digest([self._found.resolved(), self._goal.text])[:6]}"

    def write_scenario(self, path: pathlib.Path) -> None:
        """Write the scenario file. RunFailed if it does not decide the same run."""
        in_kernel = all(variant.module is None for variant in self._subject.variants) and "/" not in self._cca
        write_text(path, written.text(self._found, self.name, f"{self._subject.name}: {self._goal.text}",
                                      [self._cca] if in_kernel else (),
                                      [self._goal.absolute(self._finding.trial.limit).text]))
        if scenario.load(str(path)).resolved().content() != self._found.resolved().content():
            raise RunFailed(f"{path}: is not the scenario that was found")

    def run_words(self, path: pathlib.Path) -> list[str]:
        """The command that repeats it."""
        return ["bin/testbed", "run", str(path), "--cca", self._cca,
                *(["--seeds", str(len(ROBUST_SEEDS))] if self._arguments.robust else ["--seed", "1"]),
                *(["--engine", self._arguments.engine] if self._arguments.engine != engines.DEFAULT else []),
                *_shared.engine_words(self._arguments)]

    def summary(self, path: pathlib.Path) -> str:
        """For a terminal."""
        finding = self._finding
        lines = [f"found after {finding.after} trials: {shown(self._goal, finding.trial.value)}, where the scenario "
                 f"itself has {shown(self._goal, self._usual.value)}"]
        if beside := self._beside(finding.trial):
            lines.append(f"there: {beside}")
        lines += [f"  {part.text}" for part in finding.trial.candidate.parts]
        lines += [f"  {_neighbour(one)}: {self._outcome(one.trial)}" for one in finding.neighbours]
        return "\n".join([*lines, f"finding: {path} ({path.stat().st_size} bytes)",
                          f"repeat it: {shlex.join(self.run_words(path))}"])

    def report(self, path: pathlib.Path) -> str:
        """In Markdown."""
        finding, goal = self._finding, self._goal
        labels: Labels = self._scenario.labels()
        lines = [
            f"# {self._subject.name}: {goal.text}", "",
            f"In the scenario {labels.name} the congestion control {self._subject.name} has "
            f"{shown(goal, self._usual.value)}. With these changes it has {shown(goal, finding.trial.value)}:", "",
            *(f"- {part.text}" for part in finding.trial.candidate.parts), "",
            *([f"In this network: {beside}.", ""] if (beside := self._beside(finding.trial)) else ()),
            f"The verdict is {finding.trial.verdict}"
            + (f", with each of the seeds {', '.join(map(str, ROBUST_SEEDS))}; the value is the one furthest from the "
               "goal" if self._arguments.robust else "")
            + f". The first finding came after {finding.after} trials; it had {len(finding.first.candidate.parts)} "
            f"changes and {shown(goal, finding.first.value)}. In all: {self._counted}.", "",
            "## What it needs", "",
            "Each change was taken out in turn, and each value was moved to the next one nearer to the scenario's.", "",
            "| change | then | verdict | effect |", "|---|---|---|---|"]
        lines += [f"| {_neighbour(one)} | {shown(goal, one.trial.value)} | {one.trial.verdict} | "
                  f"{_effect(one.trial, goal)} |"
                  for one in finding.neighbours]
        lines += ["", "## Repeat it", "", f"    {shlex.join(self.run_words(path))}", "",
                  f"The run is `{finding.trial.run_id}`; the command makes its report with the usual figures, and says "
                  "whether the effect is still there.", "", "## The scenario", "", "```yaml",
                  path.read_text(encoding="utf-8").rstrip(), "```", ""]
        return "\n".join(lines)

    def _beside(self, trial: Trial) -> str:
        """'vegas 26.7 %, reno 97.7 %'; "" if no reference was run."""
        unit = "" if self._goal.unit == "1" else f" {self._goal.unit}"
        names = {self._subject.name: trial.value if trial.own is None else trial.own,
                 self._goal.of or self._arguments.against: trial.reference}
        return "" if trial.reference is None else ", ".join(
            f"{name} {value:.5g}{unit}" for name, value in names.items() if value is not None)

    def _outcome(self, trial: Trial) -> str:
        beside = f"; {words}" if (words := self._beside(trial)) else ""
        return shown(self._goal, trial.value) + beside + ("" if trial.verdict == VALID else f" ({trial.verdict})")


def _neighbour(one: Neighbour) -> str:
    return f"without {one.part.text}" if one.other is None else f"instead {one.other.text}"


def _effect(trial: Trial, goal: Goal) -> str:
    """What becomes of the effect of a finding in a neighbour."""
    if trial.meets(goal):
        return "stays"
    return {VALID: "gone", SHARED: "the reference has it, too"}.get(trial.verdict, "not known")
