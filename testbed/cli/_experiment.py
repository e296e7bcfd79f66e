# SPDX-License-Identifier: GPL-2.0-only
"""One experiment in one engine: what `testbed run` does for each engine that is asked for."""
from __future__ import annotations

import argparse
import dataclasses
import pathlib
import shlex
import sys
from collections.abc import Collection

from testbed import campaign, ccas, engines, executors, experiment, idle, scenario
from testbed.cli import _precision, _runs, _shared
from testbed.engines.base import EngineBase
from testbed.errors import RunFailed, UsageError
from testbed.plan import Plan
from testbed.progress import print_error
from testbed.store import Store, results_dir


@dataclasses.dataclass(frozen=True)
class Done:
    """What became of it. failures: {run: error}; not_run: {subject: why}; runs: how many were asked for."""
    folder: pathlib.Path
    subjects: list[str]
    failures: dict[str, str]
    not_run: dict[str, str]
    runs: int


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

    def carry_out(self, engine: EngineBase, among_others: bool) -> Done:
        """All runs of an engine, and what is beyond them: --slowdown, --precision.

        among_others: other engines carry out the same. Then what this one does not have (a congestion control, a
        probe, an option) is told and left out.
        """
        arguments, report = self.arguments, _shared.reporter()
        probes, points = arguments.probe, self.points
        if among_others and engine.capabilities.probes is not None:
            probes = [name for name in arguments.probe if name in engine.capabilities.probes]
            for name in arguments.probe:
                if name not in probes:
                    print(f"engine {engine.name} has no probe {name}", file=sys.stderr)
            points = self._expand(probes)
        campaign.check_probes(probes, engine)
        for name in campaign.lacking_probes(points, engine):
            print(f"engine {engine.name} has no probe {name}, which the scenario asks for: its runs are without",
                  file=sys.stderr)
        ready = _runs.prepare(engine, self.subjects, [one for _, one in points], among_others)
        alone = [(point, idle.scenario_of(loaded)) for point, loaded in points] if arguments.slowdown else []
        plans, refused = campaign.possible(
            campaign.make_plans(points, ready.subjects, self.seeds, engine, report), points, engine)
        for name, reason in refused.items():
            print_error(f"{name}: {reason}")
        not_run = {**ready.broken, **refused}
        if not plans:
            raise (RunFailed if ready.broken else UsageError)(f"not run: {', '.join(not_run)}")
        subjects = [subject for subject in ready.subjects if subject.name not in refused]

        def idle_plans(seeds: list[int]) -> list[Plan]:
            """Companion runs, under the first subject."""
            return campaign.make_plans(alone, subjects[:1], seeds, engine, report) if alone else []
        companions = idle_plans(self.seeds)
        store = Store(results_dir())
        store.create()
        described = self._described(engine, probes, points)
        folder = experiment.add(store.results, described, plans, companions)
        names = [subject.name for subject in subjects]
        print(f"{self.first.title}: {', '.join(names)}; " + (f"{len(points)} points, " if described.axes else "")
              + (f"engine {engine.name}, " if among_others else "")
              + f"{len(self.seeds)} seed{'s'[:len(self.seeds) > 1]}, {self.first.timing.duration_us / 1e6:.0f} s of "
              f"{engine.capabilities.clock} time each -> {folder}", file=sys.stderr)
        executor = self.executor(engine, store, arguments.jobs)

        def run(plans: list[Plan]) -> dict[str, str]:
            return campaign.carry_out(plans, executor, store, arguments.again, arguments.keep_work)
        failures = run([*plans, *companions])
        if arguments.precision is not None and not failures:
            def more(added: list[int]) -> dict[str, str]:
                new = campaign.make_plans(points, subjects, added, engine, report)
                more_idle = idle_plans(added)
                experiment.add(store.results, described, new, more_idle)
                plans.extend(new)
                return run([*new, *more_idle])
            failures = _precision.refine(folder, arguments, plans, more)
        _runs.note_experiment(store, folder)
        _runs.tell(failures)
        return Done(folder, names, failures, not_run, len(plans))

    def _described(self, engine: EngineBase, probes: list[str],
                   points: list[tuple[campaign.Point, scenario.Scenario]]) -> experiment.Description:
        axes = {key: list(dict.fromkeys(point[key] for point, _ in points)) for key in points[0][0]}
        # the scenario without what a sweep varies
        base = scenario.load(*self._selected(probes)) if axes else points[0][1]
        labels = base.labels()
        labels["parameters"] = {key: value for key, value in labels["parameters"].items() if key not in axes}
        arguments = self.arguments
        return experiment.Description(
            labels=labels, base=base.resolved(), engine=engine.name, kernel_spec=engine.options.get("kernel"),
            hz=engine.options.get("hz"), kernel_key=engine.kernel_key(),
            kernel_options=_kernel_options(arguments, engine.options),
            command=command(arguments, engine.name, probes, [name for name in ("kernel", "hz", "kernel_options", "ns3")
                                                             if name in engine.options]), axes=axes,
            expect=[one.record() for one in base.expect])


def _kernel_options(arguments: argparse.Namespace, options: Collection[str]) -> list[str]:
    """Those that were given to an engine that has any."""
    return sorted(set(arguments.kernel_options)) if "kernel_options" in options else []


def command(arguments: argparse.Namespace, engine: str, probes: list[str], options: list[str]) -> list[str]:
    """The command as it can be typed again, word by word. options: of the engine, those that were given."""
    words = ["bin/testbed", "run", arguments.scenario]
    for name in ("cca", "load", "seeds", *options):
        if name != "kernel_options" and getattr(arguments, name):
            words += [f"--{name}", str(getattr(arguments, name))]
    words += _precision.words(arguments)
    words += _runs.version_words(arguments)
    words += ["--slowdown"] if arguments.slowdown else []
    words += ["--engine", engine] if engine != engines.DEFAULT else []
    for option, values in (("choose", arguments.choose), ("set", arguments.settings), ("sweep", arguments.sweeps),
                           ("probe", probes), ("kernel-option", _kernel_options(arguments, options))):
        for value in values:
            words += [f"--{option}", value]
    return shlex.split(shlex.join(words))
