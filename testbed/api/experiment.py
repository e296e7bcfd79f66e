# SPDX-License-Identifier: GPL-2.0-only
"""An experiment as tables, series and pictures."""
from __future__ import annotations

import functools
import os
import pathlib
import sys
import warnings
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import pandas as pd

from analysis import metrics, stats
from analysis.compare import changes, kernels
from analysis.compare.rows import Comparisons
from analysis.pages import columns
from analysis.pages.report import build_report
from analysis.read import counters, curves, expectations
from analysis.read.experiment import KERNEL_AXIS, Experiment as Read
from analysis.read.runs import Run as RunFolder
from analysis.read.tables import Results
from analysis.read.zooms import Span
from testbed.api.pictures import Gallery, Picture
from testbed.core import guesses, raw_tables, stack_counters
from testbed.core.errors import RunFailed, UsageError
from testbed.runs import experiment as listing, queries

METRICS = ["cca", "seed", "point", "metric", "scope", "value", "unit"]
SUMMARY = ["cca", "metric", "scope", "unit", "n", "mean", "ci95_low", "ci95_high"]
COMPARISON = ["cca", "reference", "metric", "scope", "unit", "n", "reference_mean", "mean", "scale",
              "difference", "ci95_low", "ci95_high", "result"]
KERNELS = ["kernel", "release", "tree", "hash"]
CHANGES = ["kernel", "reference", "cca", "state", "metric", "scope", "unit", "n", "reference_mean", "mean",
           "difference", "good", "words"]
VERDICTS = ["run", "cca", "seed", "point", "status", "verdict", "reasons"]
_ALL_SCOPES = ":*"
EXPECTATIONS = ["cca", "point", "expectation", "result", "found"]


class Run(NamedTuple):
    """A run of an experiment: a congestion control (or several, joined by +) with a seed, at a point of a sweep."""
    name: str
    cca: str
    seed: int
    point: dict[str, str]
    id: str
    path: pathlib.Path


class Experiment:
    """Runs of one scenario, with their metrics, series and figures.

    What it tells is worked out when it is asked for, and kept. Only runs that finished and are not invalid enter
    tables and figures, as in a report; `verdicts()` has them all.
    """

    def __init__(self, path: pathlib.Path | str, only: Collection[str] | None = None,
                 order: Sequence[str] = ()) -> None:
        """path: its folder; only: ids of the runs that count; order: of the congestion controls, the first of which is
        the reference of comparisons."""
        self._read = Read(path, only)
        if order:
            self._read.description = self._read.description.changed(subjects=list(order))
        if self._read.runs and all(run.state.kind == "missing" for run in self._read.runs):
            raise RunFailed(f"{self._read.path}: none of its {len(self._read.runs)} runs is there; "
                            "`testbed run` makes them again")
        self._galleries: dict[Span | None, Gallery] = {}

    @property
    def path(self) -> pathlib.Path:
        """Its folder."""
        return self._read.path

    @property
    def name(self) -> str:
        """The name by which `testbed.open` finds it."""
        return self._read.path.name

    @property
    def ccas(self) -> list[str]:
        """The congestion controls, in their order."""
        return self._read.subjects

    @functools.cached_property
    def runs(self) -> list[Run]:
        """All of its runs."""
        return [Run(run.name, run.subject, run.seed, run.point, run.path.name, run.path) for run in self._read.runs]

    def __repr__(self) -> str:
        seeds = {run.seed for run in self.runs}
        return (f"<{self.name}: {_count(len(self.runs), 'run')} of {', '.join(self.ccas)}; "
                f"{_count(len(seeds), 'seed')}>")

    @functools.cached_property
    def _results(self) -> Results:
        found = Results(self._read)
        self._read.discard(found.problems)
        if left_out := [run.name for run in self._read.runs if run not in self._read.usable_runs]:
            warnings.warn(f"{_count(len(left_out), 'run')} of {len(self.runs)} left out of tables and figures "
                          f"({', '.join(left_out[:3])}{' ...' * (len(left_out) > 3)}): verdicts() says why",
                          stacklevel=_depth_of_caller())
        return found

    def _with_counters(self, names: Sequence[str]) -> Results:
        """The results, with the counters of the TCP/IP stacks that are among the names."""
        results = self._results
        if not any(stack_counters.is_name(name.partition(":")[0]) for name in names):
            return results
        counted = {name for run in self._read.usable_runs for name in counters.seen(run)}
        return Results(self._read, counters.full_names(names, counted))

    def metrics(self, *names: str) -> pd.DataFrame:
        """A row for each metric of each run: cca, seed, point, metric, scope, value, unit, and a column for each axis
        of a sweep.

        names: metrics of docs/reference/metrics.md, or enough words of one ("throughput", "p95_delay"), with the scope
        behind it: "throughput_mean:left_to_right", or "throughput_mean:*" for all scopes. Without a scope it is `all`
        if there is that, else the first one, which is the main bottleneck. Without names, all metrics in all scopes.
        Counters of the TCP/IP stacks have nstat's names: "TCPTimeouts", "TcpExtTCPTimeouts:n1".
        """
        results = self._with_counters(names)
        runs = {run.name: run for run in self._read.runs}
        used = results.values[results.values["usable"].astype(bool)]
        chosen = self._chosen(results, names)
        used = used.assign(place=[chosen.get(key, -1) for key in zip(used["metric"], used["scope"])])
        used = used[used["place"] >= 0].sort_values("place", kind="stable")
        order = {run.name: place for place, run in enumerate(self._read.runs)}
        used = used.sort_values("run", key=lambda column: column.map(order), kind="stable")
        rows = [runs[name] for name in used["run"]]
        table = pd.DataFrame({"cca": [run.subject for run in rows], "seed": [run.seed for run in rows],
                              "point": [self._point(self._read.row_of(run).point) for run in rows],
                              **{name: used[name].to_numpy() for name in METRICS[3:]}}, columns=METRICS)
        return self._with_axes(table, [self._read.row_of(run).point for run in rows])

    def summary(self, *names: str) -> pd.DataFrame:
        """A row for each metric of each congestion control (and point): n, mean, and its 95 % interval.

        names: as of `metrics`. Seeds that turned out to be one and the same run count once. The mean of a ratio is
        geometric (docs/explanation/statistics.md).
        """
        results = self._with_counters(names)
        rows, points = [], []
        for row in self._read.rows:
            for metric, scope in self._chosen(results, names):
                if sample := results.sample(row, metric, scope):
                    found = results.summarise(metric, sample)
                    rows.append((row.subject, metric, scope, results.unit(metric, scope), found.n, found.mean,
                                 found.low, found.high))
                    points.append(row.point)
        table = pd.DataFrame(rows, columns=SUMMARY).astype({name: "float64" for name in SUMMARY[-3:]})
        return self._with_axes(table, points)

    def compare(self, *names: str, margin: float = stats.MARGIN) -> pd.DataFrame:
        """A row for each metric of each congestion control but the first, with the first as reference: difference, its
        95 % interval, and in words whether they are different, equal, or cannot be told apart.

        names: as of `metrics`. margin: what counts as equal, as a share of the reference.
        """
        results = self._with_counters(names)
        chosen = self._chosen(results, names)
        for metric, _ in chosen:
            if names and metric in metrics.not_compared():
                raise UsageError(f"metric {metric} is not compared: another metric says the same, or the scenario "
                                 "decides it (docs/reference/metrics.md)")
        comparisons = Comparisons(results, columns.tables(results).all(), margin)
        found = comparisons.frame().rename(columns={"subject": "cca"})
        axes = results.axes()
        found["place"] = [chosen.get(key, -1) for key in zip(found["metric"], found["scope"])]
        found = found[found["place"] >= 0].sort_values("place", kind="stable")
        table = found[COMPARISON].reset_index(drop=True)
        return self._with_axes(table, [tuple(point) for point in found[axes].to_numpy()])

    def _chosen(self, results: Results, names: Sequence[str]) -> dict[tuple[str, str], int]:
        """{(metric, scope): its place} of the metrics that are asked for, all if none is. UsageError for others."""
        there = results.measured()
        table = pd.DataFrame(there, columns=["metric", "scope"])
        chosen: list[tuple[str, str]] = [] if names and there else there
        for name in names if there else ():
            wanted = queries.wanted_of(name.removesuffix(_ALL_SCOPES), [table])
            scopes = [scope for metric, scope in there if metric == wanted.metric]
            if not name.endswith(_ALL_SCOPES):
                scopes = [wanted.scope or ("all" if "all" in scopes else scopes[0])]
            chosen += [(wanted.metric, scope) for scope in scopes]
        return {key: place for place, key in enumerate(dict.fromkeys(chosen))}

    def kernels(self) -> pd.DataFrame:
        """A row for each kernel: kernel (what it is called here), release, tree (or tarball, or package), and hash."""
        found: dict[str, tuple[str, str, str, str]] = {}
        for run in self._read.usable_runs:
            if run.kernel:
                name = run.point.get(KERNEL_AXIS, run.kernel) if self._read.kernel_place is not None else run.kernel
                found.setdefault(name, (name, run.kernel, run.environment.kernel_source or "",
                                        run.plan.kernel_key.rpartition("-")[2]))
        return pd.DataFrame(list(found.values()), columns=KERNELS)

    def changes(self, margin: float = stats.MARGIN) -> pd.DataFrame:
        """What changed from kernel to kernel: a row for each changed metric of each congestion control (and point),
        and one for each without any, whose state says why: the same to the byte, or metrics that cannot be told apart.
        Empty where there are not several kernels.

        good: "better" or "worse" where users want one of both. words: the row as a sentence.
        """
        results = self._results
        tables = columns.tables(results).all()
        pairs = kernels.pairs(results, tables, margin)
        rows: list[tuple[object, ...]] = []
        for pair, section in zip(pairs, changes.of_kernels(results, tables, pairs)):
            for row in section.rows:
                head = (pair.other, pair.reference, row.who, row.state)
                rows += [(*head, one.metric, one.scope, one.difference.unit, row.pairs, one.mean[0], one.mean[1],
                          one.mean[2], one.good, one.words) for one in row.changes]
                if not row.changes:
                    rows.append((*head, "", "", "", row.pairs, None, None, None, "", f"{row.who}: {row.summary}"))
        return pd.DataFrame(rows, columns=CHANGES).astype(
            {name: "float64" for name in ("reference_mean", "mean", "difference")})

    def verdicts(self) -> pd.DataFrame:
        """A row for each run: run, cca, seed, point, status (finished, failed, ...), verdict (valid, suspect, invalid),
        and the reasons."""
        rows = []
        known = self._read.verdicts             # may find runs damaged
        for run in self._read.runs:
            verdict = known.get(run.name)
            reasons = [reason["message"] for reason in verdict["reasons"]] if verdict else []
            rows.append((run.name, run.subject, run.seed, self._point(self._read.row_of(run).point), run.state.kind,
                         verdict["verdict"] if verdict else "", "; ".join(reasons) or run.state.message))
        return pd.DataFrame(rows, columns=VERDICTS)

    def expectations(self) -> pd.DataFrame:
        """What the scenario expects of its metrics (docs/howto/expectations.md), and whether it was met."""
        return pd.DataFrame([(one.row.subject, self._point(one.row.point), one.expectation.text, one.result, one.found)
                             for one in expectations.judge(self._results)], columns=EXPECTATIONS)

    def series(self, run: Run | str, name: str) -> pd.DataFrame:
        """A series of a run over time, with a column for each flow or bottleneck; the index is time in seconds,
        attrs["unit"] the unit. `testbed.series_names()` lists names.

        run: one of `runs`, or its name ("cubic-seed1").
        """
        return curves.of(self._folder_of(run), name)

    def table(self, run: Run | str, name: str) -> pd.DataFrame:
        """A raw table of a run with all its columns (docs/reference/run-folder.md), such as tcp_info or queue."""
        folder = self._folder_of(run)
        there = sorted(path.name.removesuffix(".csv.gz") for path in (folder.path / "raw").glob("*.csv.gz"))
        if name not in there or name not in raw_tables.TABLES:
            raise UsageError(f"{folder.name} has no table {name!r}; {guesses.alternatives(name, there)}")
        found = folder.frame(name, *raw_tables.TABLES[name].columns)
        assert found is not None
        return found

    def _folder_of(self, run: Run | str) -> RunFolder:
        name = run.name if isinstance(run, Run) else str(run)
        for found in self._read.runs:
            if found.name == name:
                if not found.finished:
                    raise RunFailed(f"{name}: {found.state.message}")
                return found
        raise UsageError(f"no run {name!r} in {self.name}; "
                         f"{guesses.alternatives(name, [one.name for one in self.runs])}")

    def figures(self) -> dict[str, str]:
        """{name: title} of the figures that there are of these runs."""
        return self._gallery(None).titles()

    def figure(self, name: str, zoom: tuple[float, float] | None = None) -> Picture:
        """A figure, as the report has it. zoom: from when to when (seconds) figures with a part drawn larger show it,
        by default about the first loss."""
        return self._gallery(zoom and Span(1e6 * zoom[0], 1e6 * zoom[1])).picture(name)

    def _gallery(self, zoom: Span | None) -> Gallery:
        _ = self._results                       # knows which runs cannot be used
        self._read.zoom = zoom
        if zoom not in self._galleries:
            self._galleries[zoom] = Gallery(self._read)
        return self._galleries[zoom]

    def report(self) -> pathlib.Path:
        """Make the report of the whole experiment, as `testbed report` does; its page."""
        return build_report(self.path).path

    def _point(self, point: Sequence[str]) -> str:
        """'limit=85, rate=10 Mbit/s', '' without a sweep."""
        return ", ".join(axis.say(value) for axis, value in zip(self._read.axes, point) if value)

    def _with_axes(self, table: pd.DataFrame, points: Sequence[tuple[str, ...]]) -> pd.DataFrame:
        """The table with a column for each axis, behind the point or the congestion control: numbers where its values
        are quantities, else text."""
        behind = 1 + list(table).index("point" if "point" in table else "cca")
        for place, axis in enumerate(self._read.axes):
            of: dict[str, Any] = dict(zip(axis.values, _short_numbers(axis.numbers) or axis.values))
            name = axis.short if axis.short not in table else axis.key
            table.insert(behind + place, name, [of.get(point[place]) for point in points])
        return table


def open_experiment(path_or_name: pathlib.Path | str) -> Experiment:
    """An experiment that is there: its folder, or its name in the results folder (./results, or TESTBED_RESULTS)."""
    return Experiment(listing.find(os.fspath(path_or_name)))


def _short_numbers(numbers: Sequence[float] | None) -> Sequence[float] | None:
    """Whole ones as such."""
    return [int(one) for one in numbers] if numbers and all(float(one).is_integer() for one in numbers) else numbers


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _depth_of_caller() -> int:
    """For warnings: how far up whoever called this module is."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back and frame.f_code.co_filename in (__file__, functools.__file__):
        frame, depth = frame.f_back, depth + 1
    return depth
