# SPDX-License-Identifier: GPL-2.0-only
"""Runs and their metrics, across experiments, as a pandas table (docs/howto/queries.md)."""
from __future__ import annotations

import difflib
import pathlib
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pandas as pd

from analysis.metrics import load_metrics
from analysis.read import counters
from analysis.read.runs import Run
from testbed.core import metric_names, stack_counters
from testbed.core.errors import TestbedError, UsageError
from testbed.runs import conditions, index
from testbed.runs.store import RUNS, results_dir

#: columns of every table; those of choices, axes and metrics follow
COLUMNS = ("scenario", "cca", "seed", "engine", "kernel", "kernel_tree", "kernel_hash", "status", "verdict", "id",
           "experiment")
#: digits of a hash behind a name that is that of several things
_DIGITS = 8
Report = Callable[[str], None]


class Wanted(NamedTuple):
    """A metric that was asked for: its name in metrics.csv, of which scope ('': the first), and its column."""
    metric: str
    scope: str
    column: str


def query(text: str = "", *metrics: str, results: pathlib.Path | str | None = None,
          report: Report | None = None) -> pd.DataFrame:
    """A row for each run that meets the conditions (testbed/runs/conditions.py), by scenario, CCA, point, ... and seed.

    metrics: names of docs/reference/metrics.md, or enough words of one (throughput, p95_delay), or counters of the
    TCP/IP stacks by nstat's names (TCPHystartTrainDetect, TcpExtTCPTimeouts:n1); of one scope
    (throughput:all), or of `all` if the run has that, else of the first one in the run, which is its main bottleneck.
    Each has a column with
    its name, empty where the run has no such metric, and one with the scope behind it (`..._scope`); attrs["units"] is
    {column: unit}. Companion runs are in the answer only if a condition says idle=yes. results: where runs are, by
    default as for commands.

    A value of `cca` or `kernel` stands for one thing: where several kernels of the answer have the same release, their
    tree follows it, or the beginning of their hash; the hash of its sources follows the name of a module that was
    edited between runs. attrs["setup"]: the columns in which runs of one experiment are the same, whatever their
    congestion control and seed.

    report: told what is wrong with single runs and with the index; warnings.warn by default. UsageError for conditions
    and metrics that make no sense.
    """
    tell = report or _warn
    folder = pathlib.Path(results).absolute() if results is not None else results_dir()
    wanted_runs = conditions.parse(text)
    chosen = conditions.select(index.runs(folder, tell), wanted_runs)
    if not any(one.field == "idle" for one in wanted_runs):
        chosen = [run for run in chosen if not run["parameters"].get("idle")]
    varied = [key for key in conditions.varied(chosen) if key not in COLUMNS]
    kernels, ccas = _kernel_names(chosen), _cca_names(chosen)
    records: list[dict[str, object]] = []
    tables: list[pd.DataFrame | None] = []
    asked = _counters_asked(folder, chosen, metrics, tell)
    for run in sorted(chosen, key=_order):
        records.append({**{name: conditions.value_of(run, name) for name in COLUMNS[:-1]},
                        "cca": ccas[run["id"]], "kernel": kernels[run["id"]],
                        "experiment": ",".join(run["experiments"]),
                        **{key: conditions.value_of(run, key) for key in varied}})
        tables.append(_metrics(folder, run, asked, tell) if metrics else None)
    found = [table for table in tables if table is not None]
    # nothing to look for the names in if there is no run: then any will do
    wanted = [wanted_of(name, found) for name in dict.fromkeys(metrics)] if found else []
    units: dict[str, str] = {}
    for record, table in zip(records, tables):
        for one in wanted:
            row = value_of(one, table)
            record[one.column] = None if row is None else float(row["value"])
            record[f"{one.column}_scope"] = None if row is None else str(row["scope"])
            if row is not None:
                units.setdefault(one.column, str(row["unit"]))
    columns = [*COLUMNS, *varied, *(name for one in wanted for name in (one.column, f"{one.column}_scope"))]
    answer = pd.DataFrame(records, columns=list(dict.fromkeys(columns)))
    for one in wanted:
        answer[one.column] = answer[one.column].astype("float64")
    answer.attrs["units"] = units
    answer.attrs["setup"] = ["scenario", "engine", "kernel", *varied]
    return answer


def _kernel_names(runs: Sequence[index.IndexedRun]) -> dict[str, str | None]:
    """{id: what the run's kernel is called}, each name that of one kernel: its release, followed by its tree or hash
    where others of the runs have the same."""
    keys: dict[object, set[str]] = {}
    for run in runs:
        keys.setdefault(run["kernel"], set()).add(str(run["kernel_key"]))
        keys.setdefault((run["kernel"], conditions.tree_name(run)), set()).add(str(run["kernel_key"]))

    def name(run: index.IndexedRun) -> str | None:
        release, tree = run["kernel"], conditions.tree_name(run)
        if release is None or len(keys[release]) == 1:
            return release
        same_tree = len(keys[release, tree]) > 1 or not tree
        short = f"({conditions.kernel_hash(run)[:_DIGITS]})"
        return " ".join(filter(None, [release, tree, short * same_tree]))
    return {run["id"]: name(run) for run in runs}


def _cca_names(runs: Sequence[index.IndexedRun]) -> dict[str, str | None]:
    """{id: what its congestion control is called}: by its name, followed by the hash of its modules where others of
    the runs have the same name and other modules."""
    modules: dict[str | None, set[str | None]] = {}
    for run in runs:
        modules.setdefault(run["subject"], set()).add(run["modules"])
    return {run["id"]: run["subject"] if len(modules[run["subject"]]) == 1
            else f"{run['subject']} ({(run['modules'] or 'built in')[:_DIGITS]})" for run in runs}


def _order(run: index.IndexedRun) -> tuple[str | int, ...]:
    seed = run["seed"]
    return (str(run["scenario"]), str(run["subject"]), str(sorted(run["point"].items())),
            str(run["engine"]), str(run["kernel"]), str(run["kernel_key"]),
            seed if isinstance(seed, int) else 0, run["id"])


def _counters_asked(results: pathlib.Path, runs: Sequence[index.IndexedRun], metrics: Sequence[str], report: Report) \
        -> list[str]:
    """The full names of the counters among metrics, as any of the runs may have counted them."""
    if not any(stack_counters.is_name(text.partition(":")[0]) for text in metrics):
        return []
    counted: set[str] = set()
    for listed in runs:
        if listed["status"] == "finished":
            try:
                counted |= counters.seen(Run(results / RUNS / listed["id"]))
            except TestbedError as problem:
                report(str(problem))
    return counters.full_names(metrics, counted)


def with_counters(run: Run, table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Metrics of a run and those of its counters that are asked for, by their full names."""
    return pd.concat([table, counters.table(run, names)], ignore_index=True) if names else table


def _metrics(results: pathlib.Path, listed: index.IndexedRun, asked: Sequence[str], report: Report) \
        -> pd.DataFrame | None:
    """Metrics of a run, made again if they are not those of this code; None without any. asked: counters."""
    if listed["status"] == "failed":
        return None
    run = Run(results / RUNS / listed["id"])
    try:
        if run.state.kind != "finished":
            report(f"{run.path}: {run.state.message}")
            return None
        return with_counters(run, load_metrics(run), asked)
    except TestbedError as problem:
        report(str(problem))
        return None


def check_metric(text: str) -> None:
    """UsageError if no metric that there is has a name that `text` could mean, whatever runs there are."""
    name, _ = _parts(text)
    if stack_counters.is_name(name):
        # a tree may have counters of its own: these are named in full
        if not stack_counters.has_protocol(name):
            _counter(name, sorted(stack_counters.KNOWN))
        return
    known = sorted(metric_names.units())
    if not _having(name, known):
        raise _unknown(name, known, "there is none of that name")


def _parts(text: str) -> tuple[str, str]:
    """(name, scope or '') of NAME or NAME:SCOPE."""
    name, _, scope = text.partition(":")
    if not name or ":" in text and not scope:
        raise UsageError(f"metric {text}: NAME or NAME:SCOPE expected, such as throughput_mean:left_to_right")
    return name, scope


def wanted_of(text: str, tables: Sequence[pd.DataFrame]) -> Wanted:
    """What `throughput`, `p95_delay` or `throughput_mean:left_to_right` names. UsageError if nothing."""
    name, scope = _parts(text)
    names = list(dict.fromkeys(metric for table in tables for metric in table["metric"]))
    metric = _metric(name, names)
    scopes = {found for table in tables for found in table["scope"][table["metric"] == metric]}
    if scope and scope not in scopes:
        shown = sorted(scopes)
        raise UsageError(f"metric {text}: {metric} has no scope {scope}; there are: {', '.join(shown[:20])}"
                         + (" ..." if len(shown) > 20 else ""))
    return Wanted(metric, scope, f"{metric}:{scope}" if scope else metric)


def _counter(name: str, names: Sequence[str]) -> str:
    """The full name of a counter. UsageError if there is none, or several."""
    found = stack_counters.meant(name, names)
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"metric {name}: which of {', '.join(found)}?")
    close = difflib.get_close_matches(name, [*names, *(text.removeprefix("TcpExt") for text in names)], 5, 0.6)
    raise UsageError(f"metric {name}: no such counter of the TCP/IP stack" + (
        f"; close to it are {', '.join(close)}" if close else "") + " (docs/howto/queries.md)")


def _metric(name: str, names: Sequence[str]) -> str:
    if name in names:
        return name
    if stack_counters.is_name(name):
        # counters are among the names only where they are asked for
        return _counter(name, sorted({*filter(stack_counters.is_name, names), *stack_counters.KNOWN}))
    having = _having(name, names)
    # of a mean, its spread and its percentiles the mean is meant, and the plainest of several
    means = sorted((metric for metric in having if metric.endswith("_mean")), key=lambda metric: metric.count("_"))
    if len(having) == 1:
        return having[0]
    if means and (len(means) == 1 or means[0].count("_") < means[1].count("_")):
        return means[0]
    if having:
        raise UsageError(f"metric {name}: which of {', '.join(having)}?")
    raise _unknown(name, names, "these runs have none of that name")


def _having(name: str, names: Sequence[str]) -> list[str]:
    """Those that have all of the words, in any order."""
    words = set(name.split("_"))
    return [metric for metric in names if words <= set(metric.split("_"))]


def _unknown(name: str, names: Sequence[str], why: str) -> UsageError:
    close = difflib.get_close_matches(name, names, 5, 0.4)
    return UsageError(f"metric {name}: {why}" + (f"; close to it are {', '.join(close)}" if close else "")
                      + " (docs/reference/metrics.md)")


def value_of(wanted: Wanted, table: pd.DataFrame | None) -> pd.Series | None:
    """The row of metrics.csv that is asked for, None if there is none."""
    if table is None:
        return None
    rows = table[table["metric"] == wanted.metric]
    of_scope = rows[rows["scope"] == (wanted.scope or "all")]
    if len(of_scope):
        return of_scope.iloc[0]
    return rows.iloc[0] if len(rows) and not wanted.scope else None


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=4)
