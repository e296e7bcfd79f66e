# SPDX-License-Identifier: GPL-2.0-only
"""Runs of a scenario with the revisions of a git tree, for `testbed bisect`: what is measured, and with what."""
from __future__ import annotations

import abc
import argparse
import contextlib
import fcntl
import hashlib
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

import kernel
from analysis import metrics, stats
from analysis.compare import run_lists, unchanged
from analysis.read import counters
from analysis.read.runs import Run
from kernel import revisions
from testbed import engines, executors
from testbed.cli import _runs, _shared
from testbed.core import stack_counters
from testbed.core.errors import EnvironmentProblem, RunFailed, UsageError
from testbed.packet_scripts import runner as packet_runner
from testbed.runs import campaign, experiment, git_history, queries, symptoms
from testbed.runs.engine import EngineBase
from testbed.runs.git_history import Commit, History
from testbed.runs.plan import Plan
from testbed.runs.run import read_verdict
from testbed.runs.store import Store, results_dir
from testbed.scenario import ccas, scenario

AXIS = "commit"


class Measured(NamedTuple):
    """The metric of a revision: values by pairing key, and the runs by the same."""
    commit: Commit
    values: Mapping[run_lists.PairingKey, float]
    runs: Mapping[run_lists.PairingKey, Run]

    @property
    def mean(self) -> float:
        return stats.summarise(list(self.values.values())).mean

    def same_as(self, other: Measured) -> bool:
        """Whether all runs left the same raw data."""
        same, count = unchanged.count((run, other.runs[key]) for key, run in self.runs.items() if key in other.runs)
        return 0 < same == count


class Observed(NamedTuple):
    """Whether a revision shows a symptom: how many of how many runs do, and what the first of them says."""
    commit: Commit
    shown: int
    runs: int
    words: str


class Unusable(RunFailed):
    """A revision of which nothing can be measured: it does not build, crashes, or its runs are invalid."""


class Source(abc.ABC):
    """Where a revision's congestion control and kernel come from."""
    #: what experiments are called by, and paths that revisions must change something in ([]: any)
    name: str
    paths: list[str]

    @abc.abstractmethod
    def ready(self, commit: Commit) -> tuple[EngineBase, ccas.Subject]:
        """An engine and a subject for runs of it. RunFailed or UsageError if it does not build."""


class ModuleSource(Source):
    """A module (a .c file or a folder) of the tree, in a kernel that stays the same."""

    def __init__(self, history: History, path: str, engine: EngineBase) -> None:
        self._history, self._engine = history, engine
        self._path = _inside(history.prefix, path)
        self.paths, self.name = [self._path], pathlib.PurePosixPath(self._path).stem
        self._folder = kernel.source.cache_dir() / "bisect" / "modules"

    def ready(self, commit: Commit) -> tuple[EngineBase, ccas.Subject]:
        folder = self._folder / hashlib.sha256(f"{commit.hash}\0{self._path}".encode()).hexdigest()[:16]
        source = self._history.extract(commit, self._path, folder)
        subject = ccas.Subject(self.name, (ccas.find(str(source)),))
        try:
            return self._engine, ccas.make_ready(subject, self._engine, _shared.reporter())
        except RunFailed as problem:            # with paths as the tree has them
            raise RunFailed(str(problem).replace(f"{folder}/", "")) from None


class KernelSource(Source):
    """A kernel tree, of which each revision is built from what the one before left; the subject stays the same."""

    def __init__(self, history: History, folder: pathlib.Path, one: scenario.Scenario, arguments: argparse.Namespace) \
            -> None:
        if arguments.kernel is not None:
            raise UsageError(f"--kernel {arguments.kernel}: the kernels are those of --tree; for a module of it, "
                             "--module")
        self._scenario = one
        self.paths = [_inside(history.prefix, path, "--path", "net/ipv4") for path in arguments.paths]
        self.name = tree_name(arguments.tree)
        subjects = ccas.parse(arguments.cca or one.default_ccas[0])
        if len(subjects) > 1 or any(variant.module for variant in subjects[0].variants):
            raise UsageError(f"--cca {arguments.cca or one.default_ccas[0]}: one congestion control of the kernel "
                             "expected")
        self._subject, self._name = subjects[0], arguments.engine
        self._options = _shared.engine_options(arguments)
        engines.load(arguments.engine, {**self._options, "kernel": kernel.build.BUILT})    # UsageError: has no kernels
        self._kernels = _Kernels(history, folder, self._options.get("hz", kernel.USUAL_HZ),
                                 kernel.ordered_options([*arguments.kernel_options, *one.kernel_options]))

    def ready(self, commit: Commit) -> tuple[EngineBase, ccas.Subject]:
        key = self._kernels.key(commit)
        engine = engines.load(self._name, {**self._options, "kernel": f"{kernel.build.BUILT}{key}"})
        _runs.make_engine_ready(engine, [self._scenario])
        return engine, ccas.make_ready(self._subject, engine, _shared.reporter())


class _Kernels:
    """Kernels of revisions, each built from what the one before left; folder: where tree and build are kept."""

    def __init__(self, history: History, folder: pathlib.Path, hz: int, options: Sequence[str]) -> None:
        self._history, self._folder, self._hz, self._options = history, folder, hz, options

    def key(self, commit: Commit) -> str:
        """The key of a revision's kernel, which is built if it is not there. RunFailed if that cannot be."""
        try:
            version = kernel.source.tree_version(self._history.extract(
                commit, "Makefile", self._folder / "makefile").parent)
        except UsageError:                      # it has none
            version = None
        if version is None:
            raise UsageError("no kernel tree (for a module of it, --module)")
        try:
            built = revisions.find(commit.hash, version, self._hz, self._options) or revisions.build(
                commit.hash, lambda tree: self._history.check_out(commit, tree), self._folder, _shared.reporter(),
                self._hz, self._options)
        except kernel.KernelError as problem:
            raise RunFailed(str(problem)) from None
        return built.key


class ScriptBench:
    """Carries out a packet script with the revisions of a kernel tree, or of a module in it."""

    def __init__(self, arguments: argparse.Namespace, history: History, folder: pathlib.Path) -> None:
        self._script = packet_runner.read(arguments.scenario, {}, ())
        self._history, self._cca, self._path = history, arguments.cca, ""
        self._options = {name: value for name in _shared.KERNEL_OPTIONS
                         if (value := getattr(arguments, name)) not in (None, [])}
        options = kernel.ordered_options([*arguments.kernel_options, *packet_runner.KERNEL_OPTIONS])
        self._kernels = _Kernels(history, folder, arguments.hz or kernel.USUAL_HZ, options)
        if arguments.module:
            self._path = _inside(history.prefix, arguments.module)
            self.paths = [self._path]
        else:
            self.paths = [_inside(history.prefix, path, "--path", "net/ipv4") for path in arguments.paths]
        self.folder = results_dir() / f"{pathlib.PurePath(arguments.scenario).stem}-bisect-{tree_name(arguments.tree)}"

    def observe(self, commit: Commit) -> Observed:
        """Whether the script fails. Unusable if the revision cannot be built, or the script not be run."""
        try:
            options, cca = dict(self._options), self._cca
            if self._path:
                name = hashlib.sha256(f"{commit.hash}\0{self._path}".encode()).hexdigest()[:16]
                folder = kernel.source.cache_dir() / "bisect" / "modules" / name
                cca = str(self._history.extract(commit, self._path, folder))
            else:
                options["kernel"] = f"{kernel.build.BUILT}{self._kernels.key(commit)}"
            outcome, = packet_runner.runner(options, _shared.reporter()).run([self._script], cca)
        except (RunFailed, UsageError) as problem:
            raise Unusable(str(problem)) from problem
        if outcome.skipped:
            raise Unusable(outcome.skipped)
        self.folder.mkdir(parents=True, exist_ok=True)
        return Observed(commit, 0 if outcome.ok else 1, 1, "" if outcome.ok else outcome.problem[0])


def tree_name(tree: pathlib.Path) -> str:
    """What experiments with the revisions of a tree are called by."""
    return re.sub(r"[^a-z0-9]+", "-", tree.resolve().name.lower()).strip("-") or "kernel"


@contextlib.contextmanager
def work_folder(tree: pathlib.Path) -> Iterator[pathlib.Path]:
    """Where what belongs to a tree is kept, in the cache; EnvironmentProblem if another command uses it."""
    git_history.check_tree(tree)                # nothing is left of a wrong one
    folder = kernel.source.cache_dir() / "bisect" / hashlib.sha256(os.fsencode(tree.resolve())).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EnvironmentProblem(f"--tree {tree}: another `testbed bisect` works on it at this moment") from None
        yield folder


def _inside(prefix: str, path: str, option: str = "--module", example: str = "tcp_mine.c") -> str:
    """A path as git names it. UsageError if it leads out of the tree."""
    parts = pathlib.PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or not path.isprintable():
        raise UsageError(f"{option} {path}: a path inside --tree expected, such as {example}")
    return str(pathlib.PurePosixPath(prefix, *parts))


class Bench:
    """Carries out the runs of revisions and reads the metric; `folder`: the experiment that lists them."""

    def __init__(self, arguments: argparse.Namespace, one: scenario.Scenario, source: Source, seeds: Sequence[int],
                 command: list[str]) -> None:
        self._arguments, self._scenario, self._source, self._seeds = arguments, one, source, seeds
        self._command, self._points = command, dict[str, None]()
        self._executor = executors.choose(arguments.executor, arguments.cluster)
        self._store = Store(results_dir())
        self._store.create()
        self._wanted: queries.Wanted | None = None
        self.folder = pathlib.Path()

    @property
    def metric(self) -> str:
        """As it is called in metrics.csv, with its scope; known once something was measured."""
        assert self._wanted is not None
        return f"{self._wanted.metric}:{self._wanted.scope}"

    @property
    def is_ratio(self) -> bool:
        return self._wanted is not None and self._wanted.metric in metrics.ratios()

    def margin(self, share: float) -> tuple[float, float]:
        """What counts as equal: a share of the mean, or the metric's own margin."""
        return metrics.margin(self._wanted.metric if self._wanted else "", share)

    def measure(self, commit: Commit) -> Measured:
        """Runs that are there are not repeated. Unusable if it cannot be built, run or measured; what has other reasons
        (a cluster that is gone, no such metric) is an error of its own."""
        plans, failures = self._carried_out(commit)
        if failures:
            raise Unusable(f"{len(failures)} of {len(plans)} runs failed: {next(iter(failures.values()))}")
        return self._read(commit, plans)

    def observe(self, commit: Commit, symptom: Callable[[pathlib.Path], str]) -> Observed:
        """The same of a symptom (testbed/runs/symptoms.py). One run that shows it is enough; Unusable if none does and
        not all of them can say."""
        plans, _ = self._carried_out(commit)
        shown: list[str] = []
        unknown: list[str] = []
        for plan in plans:
            try:
                if words := symptom(self._store.run_dir(plan.id)):
                    shown.append(words)
            except symptoms.Unknown as problem:
                unknown.append(f"seed {plan.seed}: {problem}")
        if unknown and not shown:
            raise Unusable(unknown[0])
        return Observed(commit, len(shown), len(plans), shown[0] if shown else "")

    def _carried_out(self, commit: Commit) -> tuple[list[Plan], dict[str, str]]:
        """The runs of a revision, and {run: error} of those that failed. Unusable if it cannot be built."""
        try:
            engine, subject = self._source.ready(commit)
        except (RunFailed, UsageError) as problem:
            raise Unusable(str(problem)) from problem
        plans = campaign.make_plans([({AXIS: commit.short}, self._scenario)], [subject], self._seeds, engine,
                                    _shared.reporter())
        for plan in plans:
            if refused := engine.cannot(plan):
                raise self._scenario.error(refused.field, str(refused))
        self._list(plans, engine)
        failures = campaign.carry_out(plans, self._executor(engine, self._store, self._arguments.jobs), self._store,
                                      self._arguments.again)
        _runs.note_experiment(self._store, self.folder)
        return plans, failures

    def _list(self, plans: list[Plan], engine: EngineBase) -> None:
        self._points[plans[0].point[AXIS]] = None
        labels = self._scenario.labels()
        described = experiment.Description(
            labels=labels.changed(name=f"{labels.name}-bisect-{self._source.name}"), base=self._scenario.resolved(),
            engine=engine.name, kernel_spec=self._arguments.kernel, hz=self._arguments.hz, kernel_key="",
            command=self._command, axes={AXIS: list(self._points)},
            kernel_options=sorted(set(self._arguments.kernel_options)))
        self.folder = experiment.add(self._store.results, described, plans)

    def _table(self, run: Run) -> pd.DataFrame:
        """The metrics of a run, and the counter that is asked for."""
        name = self._arguments.metric.partition(":")[0]
        names: list[str] = []
        if stack_counters.is_name(name):
            # a revision may not have it yet: then it counted nothing
            names = counters.full_names([name], counters.seen(run)) or [name]
        return queries.with_counters(run, metrics.load_metrics(run), names)

    def _read(self, commit: Commit, plans: list[Plan]) -> Measured:
        values: dict[run_lists.PairingKey, float] = {}
        runs: dict[run_lists.PairingKey, Run] = {}
        for plan in plans:
            run = Run(self._store.run_dir(plan.id))
            name = f"seed {plan.seed}"
            if read_verdict(run.path) == "invalid":
                raise Unusable(f"{name}: the run is invalid; its verdict is in {run.path}")
            table = self._table(run)
            if self._wanted is None:
                found = queries.wanted_of(self._arguments.metric, [table])
                row = queries.value_of(found, table)
                assert row is not None          # it was found in this table
                self._wanted = found._replace(scope=str(row["scope"]))
            row = queries.value_of(self._wanted, table)
            if row is None:
                raise Unusable(f"{name}: the run has no {self.metric}")
            key = run_lists.pairing_key(run)
            values[key], runs[key] = float(row["value"]), run
        return Measured(commit, values, runs)
