# SPDX-License-Identifier: GPL-2.0-only
"""Metrics of one run.  Every file in this folder is found by listing it.

A metric file has `compute(run) -> list[Metric]` and returns nothing for what
the run did not record.  `UNITS = {name: unit}` names all that it may return: what
scenarios can expect something of (core/metric_names.py).  A file some of whose metrics are ratios, of which 2 is as
far from 1 as 0.5 is, names them in `RATIOS`: they are averaged and compared on the
logarithmic scale.  Times until something that may not happen are named in
`CENSORED`: one that was not reached, or a percentile of theirs (NAME_p50), is infinite.
`MARGINS = {name: difference in its unit}` says what counts as equal where a share of the mean does not, as of Jain's
index. `MOST = {name: number in its unit}` says what can never be more, such as 100 %: nor can an interval, and near it
values are as skewed as near 0. `resolution(run)` says how exactly values are known that come from samples: {name of
UNITS that is no ratio: in its unit}.
`BETTER = {name: "higher" or "lower"}` says which values users want; what is not in it is neither better nor worse.
`SHOWN` lists the columns that the file adds to tables of the report (`TABLES`). `NOT_COMPARED` names metrics that the
workload decides, or that are another column in another unit: the report shows them without a comparison.
`WINDOWED`, a literal, names metrics that follow from `run.interval` alone: an expectation may be of a part of a run.
A file may draw its metrics, too: it then has what a figure file has (analysis/figures).
Definitions and sources: docs/reference/metrics.md.

A file that raises costs its own metrics only: the error is kept with its
traceback in derived.json, and the verdict on the run is suspect at best.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import importlib
import io
import math
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pandas as pd

from analysis.read.runs import AnalysisError, Interval, Run
from testbed.core import derived, ending, metric_names

NAME = "metrics.csv"
#: {table of the report: of which scopes its columns are}; analysis/pages/columns.py lays them out
TABLES = {
    "links": "each bottleneck, or its direction; a table for each",
    "cells": "each radio channel", "stations": "all stations, and each; a table for each",
    "run": "all", "journeys": "all, where packets were followed from host to host",
    "connections": "all, where connections start after the warm-up",
    "crossings": "across_N: connections that cross N bottlenecks; a table for each",
    "camp_ratios": "camp_NAME and its quarters, against the baseline", "camp_times": "camp_NAME and its quarters",
    "slowdown": "all",
    "flows": "flow_N, of a few flows", "flow_ratios": "one flow to another, beside `flows`",
    "ccas": "cca_NAME, a mean over its flows", "mixed": "cca_NAME, of its connections", "udp": "flow_N of UDP",
    "quic": "flow_N of QUIC",
    "ramp_up": "flow_N/bytes_SIZE; a table for each flow", "transients": "any", "arrived": "any",
    "recovery": "the flow whose losses were chosen",
    "fairness": "bin_WIDTH", "episodes": "each link; a table for each", "episode_flows": "flow_N, beside `episodes`",
    "load": "each bottleneck, or its direction; a table for each",
    "sizes": "size classes, of a direction or of all; a table for each metric",
    "flow_layers": "flow_N", "link_layers": "each link", "network_layers": "all, or bin_WIDTH",
}


class Metric(NamedTuple):
    """One number: what, of what (a link, a size class, `all`), in which unit."""

    metric: str
    scope: str
    unit: str
    value: float


class Shown(NamedTuple):
    """A metric's column in a table of the report; in tables by size and by layers, its row.

    table: one of TABLES. heading: '' where the scope says enough. order: columns with smaller numbers come first. best:
    of tables by layers, which value is shaded: the highest (1), the lowest (-1), none (0). counted_by: of tables by
    size, the metric that counts what there is in a class.
    """

    table: str
    metric: str
    heading: str
    order: int
    best: int = 0
    counted_by: str = ""


class Measured(NamedTuple):
    """The metrics of a run as a table (metric, scope, unit, value), and what went wrong: where, message, traceback."""

    values: pd.DataFrame
    errors: list[dict[str, str]]


def names() -> list[str]:
    """Names of the metric files."""
    return sorted({path.stem for folder in __path__ for path in Path(folder).glob("[a-z]*.py")})


def module(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")


def ratios() -> frozenset[str]:
    """Metrics that say of themselves that they are ratios; always above zero."""
    return frozenset(metric for file in files() for metric in getattr(file, "RATIOS", ()))


def not_compared() -> frozenset[str]:
    """Metrics that are shown without a comparison."""
    return frozenset(metric for file in files() for metric in getattr(file, "NOT_COMPARED", ()))


def better() -> dict[str, str]:
    """{metric: "higher" or "lower"} of those of which that is known."""
    return {metric: wish for file in files() for metric, wish in getattr(file, "BETTER", {}).items()}


def shown(table: str) -> list[Shown]:
    """The columns that files add to a table, in their order."""
    return sorted((one for file in files() for one in getattr(file, "SHOWN", ()) if one.table == table),
                  key=lambda one: (one.order, one.metric))


def files() -> Iterator[ModuleType]:
    """All files that make metrics, those of two runs, too."""
    for name in (*(f"{__name__}.{name}" for name in names()), *metric_names.OF_TWO_RUNS):
        # what keeps a file from being imported is reported where its metrics are missed
        with contextlib.suppress(Exception):
            yield importlib.import_module(name)


def margin(metric: str, share: float) -> tuple[float, float]:
    """What counts as equal, as `run_lists.compare` takes it: a share of the mean, or the metric's own margin."""
    own = margins().get(metric)
    return (share, 0.0) if own is None else (0.0, own)


def margins() -> dict[str, float]:
    """{metric: differences below this are none, in its unit} of those that do not take a share of the mean."""
    return numbers("MARGINS")


def most(metric: str) -> float:
    """What no value can exceed, in its unit; infinite where nothing is known."""
    return numbers("MOST").get(metric, math.inf)


@functools.cache
def numbers(what: str) -> dict[str, float]:
    """{metric: number} that files have under a name."""
    found: dict[str, float] = {}
    for name in names():
        with contextlib.suppress(Exception):            # reported where its metrics are missed
            found.update(_numbers_of(name, what))
    return found


def _numbers_of(name: str, what: str) -> dict[str, float]:
    """{metric: number above 0} that a file has under a name, {} if nothing. AnalysisError if that is of no use."""
    found = getattr(module(name), what, {})
    if not isinstance(found, dict):
        raise AnalysisError(f"{what}: a mapping such as {{'jains_index': 0.01}} expected, not {found!r}")
    for metric, value in found.items():
        if metric not in _units_of(name) or metric in _ratios_of(name):
            raise AnalysisError(f"{what}: {metric} is " + ("a ratio" if metric in _ratios_of(name) else
                                                           "not among the UNITS of its file"))
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise AnalysisError(f"{what}: {value!r} of {metric}; a number above 0 expected")
    return found


def resolutions(run: Run) -> dict[str, float]:
    """{metric: how exactly its values are known, in its unit} of those that say so."""
    found: dict[str, float] = {}
    for name in names():
        with contextlib.suppress(Exception):            # what it raises was kept when the run was measured
            found.update(_resolution_of(name, run))
    return found


def _resolution_of(name: str, run: Run) -> dict[str, float]:
    """What a file says of how exactly its values are known, {} if nothing. AnalysisError if that is of no use."""
    of_file = getattr(module(name), "resolution", None)
    found: dict[str, float] = of_file(run) if of_file else {}
    for metric, value in found.items():
        if metric not in _units_of(name) or metric in _ratios_of(name):
            raise AnalysisError(f"resolution: {metric} is " + ("a ratio" if metric in _ratios_of(name) else
                                                               "not among the UNITS of its file"))
        if not (math.isfinite(value) and value >= 0):
            raise AnalysisError(f"resolution: {value!r} of {metric}; a number of 0 or more expected")
    return found


def _check_better(name: str) -> None:
    """AnalysisError if what a file says in BETTER is of no use."""
    for metric, wish in getattr(module(name), "BETTER", {}).items():
        if metric not in _units_of(name) or wish not in ("higher", "lower"):
            raise AnalysisError(f"BETTER: {metric}: {wish!r}; metrics of UNITS expected, each higher or lower")


def _check_shown(name: str) -> None:
    """AnalysisError if a file adds a column that cannot be."""
    for one in getattr(module(name), "SHOWN", ()):
        if one.table not in TABLES:
            raise AnalysisError(f"SHOWN: no table {one.table!r}; there are: {', '.join(TABLES)}")
        if one.metric not in _units_of(name):
            raise AnalysisError(f"SHOWN: {one.metric} is not among the UNITS of its file")


def _ratios_of(name: str) -> frozenset[str]:
    return frozenset(getattr(module(name), "RATIOS", ()))


def _units_of(name: str) -> dict[str, str]:
    """What a file says of its metrics, {} if nothing."""
    units: dict[str, str] = getattr(module(name), "UNITS", {})
    return units


def _may_not_be_reached(file: str, metric: str) -> bool:
    censored = getattr(module(file), "CENSORED", ())
    name, _, percent = metric.rpartition("_p")
    return metric in censored or percent.isdigit() and name in censored


def of_part(run: Run, interval: Interval, metric: str) -> list[Metric]:
    """A metric (one of WINDOWED) of a part of a run, in all its scopes. AnalysisError if it cannot be computed."""
    files = [name for name in names() if metric in getattr(module(name), "WINDOWED", ())]
    found, errors = compute_metrics(run.within(interval), files)
    if errors:
        raise AnalysisError(errors[0]["message"])
    return [one for one in found if one.metric == metric]


def compute_metrics(run: Run, files: Sequence[str] | None = None) -> tuple[list[Metric], list[dict[str, str]]]:
    """All metrics of a run, and the errors of those that could not be computed. files: of these files only."""
    importlib.invalidate_caches()
    found: list[Metric] = []
    errors: list[dict[str, str]] = []
    for name in names() if files is None else files:
        try:
            for metric in module(name).compute(run):
                if not math.isfinite(metric.value) and not (
                        metric.value == math.inf and _may_not_be_reached(name, metric.metric)):
                    raise AnalysisError(f"{metric.metric} of {metric.scope} is {metric.value}")
                if _units_of(name).get(metric.metric, metric.unit) != metric.unit \
                        or _units_of(name) and metric.metric not in _units_of(name):
                    raise AnalysisError(f"{metric.metric} in {metric.unit} is not among the UNITS of its file")
                if metric.value <= 0 and metric.metric in _ratios_of(name):
                    raise AnalysisError(f"{metric.metric} of {metric.scope} is a ratio and {metric.value:g}")
                found.append(metric)
            _check_shown(name)
            _check_better(name)
            _numbers_of(name, "MARGINS")
            _numbers_of(name, "MOST")
            _resolution_of(name, run)               # here, because what goes wrong is kept
        except Exception as error:      # the fault of the metric, or of what it was given to read
            ending.if_asked()
            said = str(error) if isinstance(error, AnalysisError) else f"{type(error).__name__}: {error}"
            errors.append({"where": f"metric {name}", "message": said, "traceback": traceback.format_exc()})
    return found, errors


def measure_run(run_dir: Path | str) -> Measured:
    """Compute all metrics of a sealed run and write its metrics.csv.

    AnalysisError or DamagedRun if the run's files are not what it left; OSError if the file cannot be written.
    """
    return _parsed(*keep_metrics(run_dir))


def keep_metrics(run_dir: Path | str) -> tuple[str, list[dict[str, str]]]:
    """The same for who does not want to look at them now: (text of metrics.csv, errors)."""
    run, text, errors = _computed(Path(run_dir))
    derived.keep(run.path, NAME, text, _code(), str(run.status.raw_sha256), errors=errors)
    return text, errors


def measured(run: Run) -> Measured:
    """metrics.csv of a run, made again if it is not the work of this code on this data."""
    known = run.__dict__.get("_measured")
    if known is None:
        known = run.__dict__["_measured"] = _measured(run.path, str(run.status.raw_sha256))
    return known if isinstance(known, Measured) else Measured(*known)


def load_metrics(run: Run) -> pd.DataFrame:
    """The metrics of a run: metric, scope, unit, value."""
    return measured(run).values


def _measured(path: Path, raw_sha256: str) -> Measured:
    noted = derived.fresh(path, NAME, _code(), raw_sha256)
    if noted:
        return _parsed((path / NAME).read_text(encoding="utf-8"), derived.errors_of(noted))
    run, text, errors = _computed(path)
    try:
        derived.keep(path, NAME, text, _code(), str(run.status.raw_sha256), errors=errors)
    except OSError:                     # somebody else's results, or a full disk: the numbers are what counts
        pass
    return _parsed(text, errors)


def _computed(path: Path) -> tuple[Run, str, list[dict[str, str]]]:
    """(run, text of metrics.csv, errors)"""
    # a Run of its own, so that the large tables are freed afterwards
    run = Run(path)
    if run.state.kind != "finished":
        raise AnalysisError(run.state.message)
    metrics, errors = compute_metrics(run)
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(Metric._fields)
    rows.writerows((*metric[:-1], f"{metric.value:.10g}") for metric in metrics)
    return run, text.getvalue(), errors


def _parsed(text: str, errors: list[dict[str, str]]) -> Measured:
    columns: dict[str, type | str] = {"metric": str, "scope": str, "unit": str, "value": "float64"}
    return Measured(pd.read_csv(io.StringIO(text), dtype=columns, keep_default_na=False), errors)


def _code() -> str:
    """Hash of the code that makes metrics."""
    return derived.code_sha256(__path__)
