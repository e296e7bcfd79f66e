# SPDX-License-Identifier: GPL-2.0-only
"""One experiment in one engine, with one kernel or several: what `testbed run` does for each engine."""
from __future__ import annotations

import argparse
import dataclasses
import pathlib
import shlex
from collections.abc import Collection, Sequence

from testbed import engines, executors
from testbed.cli import _estimates, _precision, _runs, _shared
from testbed.cli._kernels import Level
from testbed.core.errors import RunFailed, UsageError
from testbed.core.progress import print_error, say, title
from testbed.runs import campaign, experiment
from testbed.runs.engine import EngineBase
from testbed.runs.plan import Plan
from testbed.runs.store import Store, results_dir
from testbed.scenario import alone, ccas, descriptions, scenario, usual_jitter


@dataclasses.dataclass(frozen=True)
class Done:
    """What became of it. failures: {run: error}; not_run: {subject: why}; ids: of the runs that were asked for."""
    folder: pathlib.Path
    subjects: list[str]
    failures: dict[str, str]
    not_run: dict[str, str]
    ids: list[str]

    @property
    def runs(self) -> int:
        return len(self.ids)


class Asked:
    """What the command line says, the same for all engines. UsageError for what makes no sense in any."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        _runs.check(arguments)
        self.arguments = arguments
        self._choices = _runs.choices(arguments)
        self.points = self._expand(arguments.probe)
        self.first = self.points[0][1]
        self.subjects = ccas.parse(arguments.cca if arguments.cca is not None else ",".join(self.first.default_ccas))
        self.seeds = _runs.seeds(arguments.seeds or str(self.first.default_seeds))
        _precision.check(arguments, self.seeds)
        self.executor = executors.choose(arguments.executor, arguments.cluster)

    def _expand(self, probes: list[str]) -> list[tuple[campaign.Point, scenario.Scenario]]:
        return scenario.expand(*self._selected(probes), sweeps=self.arguments.sweeps)

    def _selected(self, probes: list[str]) \
            -> tuple[str, dict[str, str | None], bool, list[str], list[str]]:
        return self.arguments.scenario, self._choices, self.arguments.quick, self.arguments.settings, probes

    def fit(self, levels: Sequence[Level]) -> str:
        """Give engines that are compared the same hosts: if one of them has no jitter, none has it by default.

        What was done about it, in words; '' if nothing.
        """
        without = [level.engine.name for level in levels if not level.engine.JITTER]
        if not without or len(without) == len(levels) or not all(one.usual_jitter for _, one in self.points):
            return ""
        self.arguments.settings = [*self.arguments.settings, usual_jitter.OFF]
        self.points = self._expand(self.arguments.probe)
        return (f"engine {', '.join(without)}: no jitter of hosts, which this traffic has by default; all engines run "
                f"with --set '{usual_jitter.OFF}'")

    def carry_out(self, levels: Sequence[Level], among_others: bool, say_how_long: bool = True) -> Done:
        """All runs of an engine, with its kernel or with several, and what is beyond them: --slowdown, --precision.

        among_others: other engines carry out the same. Then it leaves out, and names, what this one does not have (a
        congestion control, a probe, an option). say_how_long: say it, and ask before hours of runs.
        """
        arguments = self.arguments
        probes, points = self._probed(levels[0].engine, among_others)
        parts, not_run = self._parts(levels, points, among_others)
        store = Store(results_dir())
        store.create()
        described = self._described(levels, probes, [point for part in parts for point in part.points])
        plans, companions = _of_all(parts, self.seeds)
        if say_how_long:
            _estimates.announce([*plans, *companions], arguments, is_sweep=bool(described.axes))
        folder = experiment.add(store.results, described, plans, companions)
        names = list(dict.fromkeys(subject.name for part in parts for subject in part.subjects))
        title(f"{self.first.title}: {', '.join(names)}; "
              + (_count(sum(len(part.points) for part in parts), "point") + ", " if described.axes else "")
              + (f"engine {levels[0].engine.name}, " if among_others else "")
              + f"{_count(len(self.seeds), 'seed')}, {self.first.timing.duration_us / 1e6:.0f} s of "
              f"{levels[0].engine.capabilities.clock} time each -> {folder}")
        executors_of = [self.executor(part.level.engine, store, arguments.jobs) for part in parts]

        def run(seeds: list[int]) -> dict[str, str]:
            failures: dict[str, str] = {}
            for part, executor in zip(parts, executors_of):
                failures |= campaign.carry_out([*part.plans(seeds), *part.companions(seeds)], executor, store,
                                               arguments.again, arguments.keep_work)
            return failures
        failures = run(self.seeds)
        if arguments.precision is not None and not failures:
            def more(added: list[int]) -> dict[str, str]:
                new, more_idle = _of_all(parts, added)
                experiment.add(store.results, described, new, more_idle)
                plans.extend(new)
                return run(added)
            failures = _precision.refine(folder, arguments, plans, more)
        _runs.note_experiment(store, folder)
        _runs.tell(failures)
        return Done(folder, names, failures, not_run, [plan.id for plan in plans])

    def plans(self, levels: Sequence[Level]) -> list[Plan]:
        """What carry_out() would run, for who wants to do it otherwise. RunFailed, UsageError."""
        _, points = self._probed(levels[0].engine, among_others=False)
        parts, _ = self._parts(levels, points, among_others=False)
        return [plan for part in parts for plan in part.plans(self.seeds)]

    def _probed(self, engine: EngineBase, among_others: bool) \
            -> tuple[list[str], list[tuple[campaign.Point, scenario.Scenario]]]:
        """The probes of --probe that an engine has, and the points with them."""
        probes, points = self.arguments.probe, self.points
        if among_others and engine.capabilities.probes is not None:
            probes = [name for name in self.arguments.probe if name in engine.capabilities.probes]
            for name in self.arguments.probe:
                if name not in probes:
                    say(f"engine {engine.name} has no probe {name}")
            points = self._expand(probes)
        campaign.check_probes(probes, engine)
        for name in campaign.lacking_probes(points, engine):
            say(f"engine {engine.name} has no probe {name}, which the scenario asks for: its runs are without")
        if campaign.lacks_usual_jitter(points, engine):
            say(f"engine {engine.name} has no jitter of hosts, which this traffic has by default: its runs are "
                "without")
        return probes, points

    def _parts(self, levels: Sequence[Level], points: Sequence[tuple[campaign.Point, scenario.Scenario]],
               among_others: bool) -> tuple[list[_Part], dict[str, str]]:
        """What can be run with each kernel, and {subject: why} of what cannot. RunFailed or UsageError if nothing
        can: a kernel that cannot be had is an error of its own, before anything runs."""
        parts: list[_Part] = []
        not_run: dict[str, str] = {}
        kinds: list[type[RunFailed] | type[UsageError]] = []
        for level in levels:
            try:
                part = _Part(self, level, points, lenient=among_others or bool(level.kernel))
            except RunFailed as problem:            # none of the congestion controls is one of this kernel
                if len(levels) == 1:
                    raise
                print_error(f"kernel {level.kernel}: {problem}")
                not_run |= {level.said(subject.name): str(problem) for subject in self.subjects}
                continue
            not_run |= {level.said(name): reason for name, reason in part.not_run.items()}
            if part.subjects:
                parts.append(part)
            kinds.append(RunFailed if part.broken else UsageError)
        if not parts:
            raise (RunFailed if RunFailed in kinds or not kinds else UsageError)(f"not run: {', '.join(not_run)}")
        if len(levels) > 1:
            say(f"kernels: {', '.join(f'{one.kernel} ({one.engine.kernel_release()})' for one in levels)}")
        return parts, not_run

    def _described(self, levels: Sequence[Level], probes: list[str],
                   points: list[tuple[campaign.Point, scenario.Scenario]]) -> experiment.Description:
        axes = {key: list(dict.fromkeys(point[key] for point, _ in points)) for key in points[0][0]}
        # the scenario without what a sweep varies
        base = scenario.load(*self._selected(probes)) if axes else points[0][1]
        base = campaign.fitting(base, levels[0].engine)
        labels = base.labels().changed(
            parameters={key: value for key, value in base.parameters.items() if key not in axes},
            description=_of_all_points(base.description, [one for _, one in points]))
        arguments, engine = self.arguments, levels[0].engine
        kernels = [level.kernel for level in levels if level.kernel]
        return experiment.Description(
            labels=labels, base=base.resolved(), engine=engine.name,
            kernel_spec=arguments.kernel if kernels else engine.options.get("kernel"),
            hz=engine.options.get("hz"), kernel_key=",".join(level.engine.kernel_key() for level in levels),
            kernels=kernels,
            kernel_options=_kernel_options(arguments, engine.options),
            command=command(arguments, engine.name, probes, engine.options), axes=axes,
            units={key: unit for key, unit in base.units.items() if key in axes},
            expect=[one.record() for one in base.expect])


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"


class _Part:
    """The runs of an engine with one kernel; not_run: {subject: why} of those it cannot have, broken: of modules."""

    def __init__(self, asked: Asked, level: Level, points: Sequence[tuple[campaign.Point, scenario.Scenario]],
                 lenient: bool) -> None:
        self.level, self.points, self._report = level, level.points(points), _shared.reporter()
        ready = _runs.prepare(level.engine, asked.subjects, [one for _, one in points], lenient)
        self._alone = [(point, alone.scenario_of(loaded)) for point, loaded in self.points] \
            if asked.arguments.slowdown else []
        self._known: dict[tuple[int, ...], list[Plan]] = {}
        self.subjects, self.broken = ready.subjects, ready.broken
        plans, refused = campaign.possible(self._make(asked.seeds), self.points, level.engine)
        self._known[tuple(asked.seeds)] = plans
        for name, reason in refused.items():
            print_error(f"{level.said(name)}: {reason}")
        self.not_run = {**ready.broken, **refused}
        self.subjects = [subject for subject in ready.subjects if subject.name not in refused]

    def _make(self, seeds: Sequence[int]) -> list[Plan]:
        return campaign.make_plans(self.points, self.subjects, seeds, self.level.engine, self._report)

    def plans(self, seeds: Sequence[int]) -> list[Plan]:
        if tuple(seeds) not in self._known:
            self._known[tuple(seeds)] = self._make(seeds)
        return self._known[tuple(seeds)]

    def companions(self, seeds: Sequence[int]) -> list[Plan]:
        """Companion runs, under the first subject."""
        return campaign.make_plans(self._alone, self.subjects[:1], seeds, self.level.engine, self._report) \
            if self._alone else []


def _of_all_points(description: str, points: Sequence[scenario.Scenario]) -> str:
    """A description that says of what a sweep varies which values it has; what an engine added to it stays."""
    trees = [one.file.tree for one in points if one.file]
    text = " ".join(str(trees[0].get("description") or "").split()) if trees else ""
    of_one = descriptions.filled(text, trees[:1])
    of_base = next((one.description for one in points[:1]), "")
    added = description[len(of_base):] if description.startswith(of_base) else ""
    return descriptions.filled(text, trees) + added if of_one and len(trees) > 1 else description


def _of_all(parts: Sequence[_Part], seeds: Sequence[int]) -> tuple[list[Plan], list[Plan]]:
    """Plans of these seeds, and those of companion runs."""
    return ([plan for part in parts for plan in part.plans(seeds)],
            [plan for part in parts for plan in part.companions(seeds)])


def _kernel_options(arguments: argparse.Namespace, options: Collection[str]) -> list[str]:
    """Those that were given to an engine that has any."""
    return sorted(set(arguments.kernel_options)) if "kernel_options" in options else []


def command(arguments: argparse.Namespace, engine: str, probes: list[str], options: Collection[str]) -> list[str]:
    """The command as it can be typed again, word by word. options: of the engine, those that were given."""
    words = ["bin/testbed", "run", arguments.scenario]
    for name in ("cca", "load", "seeds"):
        if getattr(arguments, name):
            words += [f"--{name}", str(getattr(arguments, name))]
    words += _shared.engine_words(arguments, options)
    words += _precision.words(arguments)
    words += _runs.version_words(arguments)
    words += ["--slowdown"] if arguments.slowdown else []
    words += ["--engine", engine] if engine != engines.DEFAULT else []
    for option, values in (("choose", arguments.choose), ("set", arguments.settings), ("sweep", arguments.sweeps),
                           ("probe", probes)):
        for value in values:
            words += [f"--{option}", value]
    return shlex.split(shlex.join(words))
