# SPDX-License-Identifier: GPL-2.0-only
"""From what was asked for to plans, and from plans to an experiment: what `testbed run` does."""
from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Callable, Mapping, Sequence

import traffic
from testbed.core.errors import RunFailed, UsageError
from testbed.core.fields import FieldError
from testbed.core.progress import open_display
from testbed.runs import experiment, index
from testbed.runs.engine import EngineBase
from testbed.runs.executor import ExecutorBase, Listener
from testbed.runs.plan import Plan
from testbed.runs.run import Job, Outcome
from testbed.runs.store import Store
from testbed.scenario import ccas, quic_flows, usual_jitter
from testbed.scenario.scenario import Scenario
from traffic.workload.records import Variant

Point = dict[str, str]
Report = Callable[[str], None]
MOST_RUNS = 100_000


@dataclasses.dataclass(frozen=True)
class Ready:
    """Subjects whose modules are built, and the names of those that cannot be used with the reason."""
    subjects: list[ccas.Subject]
    broken: dict[str, str]


def make_ready(subjects: Sequence[ccas.Subject], engine: EngineBase, report: Report, lenient: bool = False) -> Ready:
    """Build and try the modules of all subjects. A bad one does not keep the others from running.

    lenient: nor does one that the engine does not have.
    """
    ready: list[ccas.Subject] = []
    broken: dict[str, str] = {}
    names = [subject.name for subject in subjects]
    for subject in subjects:
        try:
            ready.append(ccas.make_ready(subject, engine, report))
        except (RunFailed, UsageError) as problem:
            if isinstance(problem, UsageError) and not lenient:
                raise
            # the name of a module's file may be that of another one
            broken[subject.name if names.count(subject.name) == 1 else subject.given] = str(problem)
    ccas.check_names(ready)
    return Ready(ready, broken)


def check_probes(probes: Sequence[str], engine: EngineBase) -> None:
    """UsageError if a probe is asked for that the engine does not have."""
    there = engine.capabilities.probes
    for name in probes:
        if there is not None and name not in there:
            raise UsageError(f"--probe {name}: engine {engine.name} has "
                             + (f"only {', '.join(there)}" if there else "no probes"))


def lacking_probes(points: Sequence[tuple[Point, Scenario]], engine: EngineBase) -> list[str]:
    """The probes of scenarios that the engine does not have."""
    there = engine.capabilities.probes
    return [] if there is None else sorted({name for _, one in points for name in one.probes} - set(there))


def fitting(scenario: Scenario, engine: EngineBase) -> Scenario:
    """A scenario without what is there by default only, if the engine has nothing for it."""
    return scenario if engine.JITTER else usual_jitter.without(scenario)


def lacks_usual_jitter(points: Sequence[tuple[Point, Scenario]], engine: EngineBase) -> bool:
    """Whether some of the scenarios would have jitter by default, which the engine has not."""
    return any(fitting(one, engine) is not one for _, one in points)


def make_plans(points: Sequence[tuple[Point, Scenario]], subjects: Sequence[ccas.Subject], seeds: Sequence[int],
               engine: EngineBase, report: Report) -> list[Plan]:
    """All runs of points x seeds x subjects, those of one seed after the other."""
    count = len(points) * len(subjects) * len(seeds)
    if count > MOST_RUNS:
        raise UsageError(f"{count} runs are asked for, at most {MOST_RUNS} are possible")
    kernel_key, codes = engine.kernel_key(), dict[bool, str]()
    fixed = _fixed_variants([scenario for _, scenario in points], subjects, engine, report)
    inputs = _Inputs()
    plans = []
    for point, scenario in ((point, fitting(one, engine)) for point, one in points):
        resolved, labels = scenario.resolved(), scenario.labels().changed(point=point)
        of_subjects = [quic_flows.resolved(scenario, resolved, subject) for subject in subjects]
        radios = bool(resolved.network.cells)
        guest_code = codes[radios] if radios in codes else codes.setdefault(
            radios, engine.code_for(resolved.network))
        names = set(traffic.component_ccas(scenario.traffic))
        others = [fixed[name] for name in sorted(names)]
        for seed in seeds:
            for subject, decides in zip(subjects, of_subjects):
                variants = _merge(subject, others)
                _check_hosts(scenario, [*subject.variants, *others])
                _check_sockets(scenario, variants)
                plans.append(Plan(
                    scenario=decides, labels=labels, subject=subject.name, variants=tuple(variants), seed=seed,
                    engine=engine.name, kernel_key=kernel_key, guest_code=guest_code,
                    inputs=inputs.of(scenario.traffic)))
    return plans


def possible(plans: Sequence[Plan], points: Sequence[tuple[Point, Scenario]], engine: EngineBase) \
        -> tuple[list[Plan], dict[str, str]]:
    """The plans that an engine can carry out, and {subject: why} of those of which it can do none; points: of whose
    scenarios they were made, which know file and line of every field."""
    scenarios = {tuple(point.items()): scenario for point, scenario in points}
    reasons = [(plan, _reason(engine.cannot(plan), scenarios[tuple(plan.point.items())])) for plan in plans]
    can = [plan for plan, reason in reasons if not reason]
    some = {plan.subject for plan in can}
    # of a subject that can be had at some points of a sweep the others fail, each by itself
    return ([plan for plan in plans if plan.subject in some],
            {plan.subject: reason for plan, reason in reasons if plan.subject not in some})


def _reason(problem: FieldError | None, scenario: Scenario) -> str:
    return str(scenario.error(problem.field, str(problem))) if problem else ""


def _check_hosts(scenario: Scenario, variants: Sequence[ccas.Variant]) -> None:
    """ScenarioError if the scenario says of hosts what a variant has otherwise: none of them wins without a word."""
    given = scenario.file.mapping("hosts") if scenario.file else {}
    for variant in variants:
        if wrong := ccas.contradiction(variant, scenario.hosts, given):
            field, message = wrong
            raise scenario.error(f"hosts.{field}", message)


def _check_sockets(scenario: Scenario, variants: Sequence[Variant]) -> None:
    """ScenarioError if a variant sets options of sockets that programs of others open."""
    try:
        traffic.check_socket_options(scenario.traffic, variants)
    except FieldError as problem:
        raise scenario.error(problem.inside("traffic").field, str(problem)) from None


def _fixed_variants(scenarios: Sequence[Scenario], subjects: Sequence[ccas.Subject], engine: EngineBase,
                    report: Report) -> dict[str, ccas.Variant]:
    """The variants that components ask for by name, whatever is under test: {name as written: Variant}.

    A name that nothing else has may be a label, or a module's, of those under test.
    """
    under_test = {variant.name: variant for subject in subjects for variant in subject.variants}
    others = {*ccas.names(), *engine.congestion_controls()}
    found: dict[str, ccas.Variant] = {name: variant for name, variant in under_test.items() if name not in others}
    for scenario in scenarios:
        for name in traffic.component_ccas(scenario.traffic):
            if name in found:
                continue
            try:
                subject = ccas.make_ready(ccas.Subject(name, (ccas.find(name),)), engine, report)
            except (RunFailed, UsageError) as problem:
                where = f"{scenario.cca_places[name]}: " if name in scenario.cca_places else ""
                raise type(problem)(where + str(problem).removeprefix("--cca: ")) from None
            found[name] = subject.variants[0]
    return found


def _merge(subject: ccas.Subject, others: Sequence[ccas.Variant]) -> list[Variant]:
    """Records of the variants under test and of those that stand beside them."""
    records = [record.changed(under_test=True) for record in subject.record()]
    for variant in others:
        same = next((record for record in records if record.name == variant.name), None)
        if same is None:
            records.append(variant.record().changed(under_test=False))
        elif variant.record().changed(under_test=same.under_test).content() != same.content():
            raise UsageError(f"{variant.name} of the scenario's traffic and {variant.name} "
                             f"{'under test' if same.under_test else 'of another component'} are two different "
                             "things: give one of them another name")
    ccas.check_together(records)
    return records


class _Inputs:
    """Hashes of the users' files that traffic is made from, each file read once."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, str]] = {}

    def of(self, components: Sequence[Mapping[str, object]]) -> dict[str, str]:
        key = repr(components)
        if key not in self._known:
            self._known[key] = traffic.inputs(components)
        return self._known[key]


def carry_out(plans: Sequence[Plan], executor: ExecutorBase, store: Store, again: bool = False, keep_work: bool = False,
              indexed: bool = True) -> dict[str, str]:
    """Carry out every plan that has no finished run yet, or one whose raw data is damaged; returns {run name: error} of
    those that failed."""
    wanted = {plan.id: plan for plan in plans}
    finished = set() if again else {run_id for run_id in wanted if store.finished(run_id)}
    damaged = {run_id: why for run_id in wanted if run_id in finished and (why := store.damage(run_id))}
    there = len(finished) - len(damaged)
    jobs = [Job(plan, again or run_id in damaged, keep_work) for run_id, plan in wanted.items()
            if run_id not in finished or run_id in damaged]
    names = [experiment.run_name(job.plan) for job in jobs]
    failures: dict[str, str] = {}
    longest_s = max((plan.timing.duration_us / 1e6 for plan in plans), default=0)
    with open_display(len(jobs), longest_s) as display:
        if there:
            display.note(f"{there} run{'s are' if there > 1 else ' is'} already there")
        if damaged:
            display.note(f"{len(damaged)} run{'s are' if len(damaged) > 1 else ' is'} damaged and made again: "
                         + next(iter(damaged.values())) + " ..." * (len(damaged) > 1))

        def ended(number: int, outcome: Outcome) -> None:
            name = names[number]
            if outcome.error:
                failures[name] = outcome.error
                display.end(name, "failed: " + outcome.error.splitlines()[0])
            else:
                display.end(name, f"finished{' by another command' if outcome.was_there else ''}, {outcome.verdict}")
            if indexed:
                try:
                    index.note_run(store.results, outcome.run_id)
                except (sqlite3.Error, OSError) as problem:     # a full disk, or a lock: the run is what counts
                    display.note(f"{name}: not noted in index.sqlite: {problem}")

        if jobs:
            executor.run(jobs, Listener(
                started=lambda number: display.start(names[number]), ended=ended,
                progress=lambda number, phase, t_us: display.update(names[number], phase, t_us)))
    return failures
