# SPDX-License-Identifier: GPL-2.0-only
"""What the report shows in words and tables, ready for its template."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import Any, NamedTuple

from analysis import report_controls, sizes, stats, style
from analysis.runs import AnalysisError, Experiment, Run
from analysis.tables import Results, flatten

LINK_METRICS = (
    ("throughput_mean", "throughput"), ("throughput_sd", "throughput, sd"),
    ("utilisation", "utilisation"), ("queueing_delay_mean", "queueing delay, mean"),
    ("queueing_delay_p95", "queueing delay, p95"), ("drop_rate", "drop rate"),
    ("goodput", "goodput"), ("retransmission_share", "retransmitted"),
)
FLOW_METRICS = (
    ("connections_started", "connections"), ("connections_finished_share", "finished"),
    ("connections_failed", "failed"), ("flow_completion_time_p50", "completion, median"),
    ("flow_completion_time_mean", "completion, mean"),
    ("flow_completion_time_p95", "completion, p95"),
)
FAIRNESS_METRICS = (
    ("mean_jains_fairness_throughput_l4", "Jain's fairness index"),
    ("mean_entropy_fairness_throughput_l4", "entropy of the shares"),
)
LOAD_METRICS = (
    ("offered_load", "offered load"), ("offered_load_share", "of the link rate"),
    ("carried_over_offered", "carried / offered"),
    ("offered_load_thirds_difference", "second vs last third"),
)
# What the workload decides is not a result to compare.
INPUTS = {"offered_load", "offered_load_share", "offered_load_thirds_difference",
          "connections_started"}
CCAS_PER_TABLE = 6  # columns that fit the page


class Cell(NamedTuple):
    """A mean with its half width, and whether it can be told from the reference."""

    mean: str
    half_width: str | None
    same: bool


class Table(NamedTuple):
    """Rows of (name, n, cells) under columns of (label, unit)."""

    title: str
    head: str
    columns: list[tuple[str, str]]
    rows: list[tuple[str, str, list[Cell | None]]]


def context(experiment: Experiment, results: Results) -> dict[str, Any]:
    """Everything the template shows except figures and files."""
    run = next(iter(experiment.usable_runs or [run for run in experiment.runs
                                               if run.name not in results.problems]), None)
    links = list(run.bottlenecks) if run else []
    return {
        "experiment": experiment,
        "title": _title(experiment, run),
        "sentence": _sentence(experiment, run),
        "verdicts": _verdicts(experiment, results),
        "key_tables": [table for link in links
                       if (table := _table(results, LINK_METRICS, link, "congestion control",
                                           f"Bottleneck, {style.direction(link)}"))],
        "flow_table": _flow_table(results),
        "fairness_table": _fairness_table(results),
        "size_tables": _all_size_tables(results, links),
        "load_tables": [table for link in links
                        if (table := _table(results, LOAD_METRICS, link, "congestion control",
                                            f"Load, {style.direction(link)}"))],
        "controls": report_controls.controls(experiment),
        "workload": _workload(run),
        "runs": [_run_row(one, results) for one in experiment.runs],
        "scenario": _readable(run, "scenario"),
        "environment": _readable(run, "environment"),
        "commands": _commands(experiment),
        "most_seeds": max((len(experiment.usable(cca)) for cca in experiment.ccas), default=0),
        "interval": run.interval if run else None,
    }


def cell(results: Results, cca: str, metric: str, scope: str) -> Cell | None:
    """Mean over seeds with its interval; None when the CCA lacks the metric."""
    sample = results.sample(cca, metric, scope)
    if not sample:
        return None
    found = stats.summarise(sample)
    reference = results.experiment.ccas[0]
    same = False
    first = results.sample(reference, metric, scope)
    if first and cca != reference and metric not in INPUTS:
        same = stats.compare(first, sample).distinguishable is False
    if found.half_width is None:
        return Cell(style.number(found.mean), None, same)
    return Cell(*style.plus_minus(found.mean, found.half_width), same)


def _table(results: Results, metrics: tuple[tuple[str, str], ...], scope: str, head: str,
           title: str) -> Table | None:
    """One row per CCA, one column per metric that any of them has in this scope."""
    present = [(metric, label) for metric, label in metrics
               if results.unit(metric, scope) is not None]
    if not present:
        return None
    rows = []
    for cca in results.experiment.ccas:
        cells = [cell(results, cca, metric, scope) for metric, _ in present]
        count = max(len(results.sample(cca, metric, scope)) for metric, _ in present)
        rows.append((cca, str(count), cells))
    columns = [(label, "" if (unit := results.unit(metric, scope)) == "1" else unit)
               for metric, label in present]
    return Table(title, head, columns, rows)


def _flow_table(results: Results) -> Table | None:
    """None when no connection started after warm-up, as with long flows alone."""
    if not any(value for cca in results.experiment.ccas
               for value in results.sample(cca, "connections_started", "all")):
        return None
    return _table(results, FLOW_METRICS, "all", "congestion control", "Connections")


def _fairness_table(results: Results) -> Table | None:
    """Fairness among few long flows; the bin width is part of its definition."""
    scope = next(iter(results.scopes("mean_jains_fairness_throughput_l4")), None)
    if scope is None:
        return None
    width = scope.removeprefix("bin_").replace("_", " ")
    return _table(results, FAIRNESS_METRICS, scope, "congestion control",
                  f"Long flows, bins of {width}")


def _all_size_tables(results: Results, links: list[str]) -> list[tuple[str, list[Table]]]:
    """Flow completion times and, per direction, ADU response times by size."""
    wanted = [("Flow completion time, median (s)", "flow_completion_time_p50", "",
               "flows_completed"),
              ("Flow completion time, mean (s)", "flow_completion_time_mean", "",
               "flows_completed")]
    wanted += [(f"ADU response time, {style.direction(link)}, median (ms)",
                "adu_response_time_p50", link, "adus_delivered") for link in links]
    found = []
    for title, metric, prefix, count in wanted:
        tables = _size_tables(results, metric, prefix, count)
        if tables:
            found.append((title, tables))
    return found


def _size_tables(results: Results, metric: str, prefix: str, count: str) -> list[Table]:
    """One row per size class, one column per CCA, as many tables as the page needs."""
    scopes = [(bounds, scope) for scope in results.scopes(metric)
              if (bounds := sizes.bounds(scope)) and bounds[0] == prefix]
    ccas = results.experiment.ccas
    tables = []
    for at in range(0, len(ccas), CCAS_PER_TABLE) if scopes else ():
        chosen = ccas[at:at + CCAS_PER_TABLE]
        rows = []
        for (_, low, high), scope in sorted(scopes):
            counts = [value for cca in chosen for value in results.sample(cca, count, scope)]
            rows.append((f"{style.size(low)} to {style.size(high)}",
                         f"{sum(counts) / len(counts):.0f}" if counts else "0",
                         [cell(results, cca, metric, scope) for cca in chosen]))
        tables.append(Table("", "size", [(cca, "") for cca in chosen], rows))
    return tables


def _title(experiment: Experiment, run: Run | None) -> str:
    named = experiment.description.get("title")
    if not named and run is not None:
        named = run.scenario.get("title")
    return str(named or experiment.scenario)


def _sentence(experiment: Experiment, run: Run | None) -> str:
    seeds = sorted({one.seed for one in experiment.runs})
    text = (f"Scenario {experiment.scenario} with {', '.join(experiment.ccas)} and "
            f"{len(seeds)} seed{'s' * (len(seeds) != 1)}: {len(experiment.runs)} "
            f"run{'s' * (len(experiment.runs) != 1)}")
    if run is None:
        return text + ", none of which finished."
    interval = run.interval
    each = " each" * (len(experiment.runs) > 1)
    return (f"{text} of {interval.end_us / 1e6:g} s{each}; metrics are taken from "
            f"{interval.start_us / 1e6:g} s to {interval.end_us / 1e6:g} s.")


def _verdicts(experiment: Experiment, results: Results) -> dict[str, Any]:
    """Counts per verdict, and the worst one that decides the banner's colour."""
    counts = Counter("failed" if run.name in results.problems else
                     str(run.verdict.get("verdict", "unknown")) for run in experiment.runs)
    order = ("failed", "invalid", "suspect", "unknown", "valid")
    worst = next((name for name in order if counts[name]), "unknown")
    return {"counts": [(name, counts[name]) for name in reversed(order) if counts[name]],
            "worst": worst, "used": len(experiment.usable_runs)}


def _run_row(run: Run, results: Results) -> dict[str, Any]:
    problem = results.problems.get(run.name)
    verdict = run.verdict if problem is None else {"verdict": "failed"}
    return {"run": run, "verdict": str(verdict.get("verdict", "unknown")), "problem": problem,
            "reasons": verdict.get("reasons") or [], "checks": verdict.get("checks") or [],
            "used": problem is None and run in results.experiment.usable_runs}


def _workload(run: Run | None) -> dict[str, str]:
    """The scalar facts of workload.json, times in seconds, rates in Mbit/s."""
    found = {}
    for key, value in (flatten(run.workload) if run else {}).items():
        if key.startswith(("offered_bps", "thirds_bps")) or value is None or key == "flows":
            continue
        if key.endswith("_us"):
            key, value = f"{key.removesuffix('_us')} (s)", f"{value / 1e6:g}"
        elif isinstance(value, float):
            value = f"{value:.4g}"
        found[key.replace("_", " ")] = str(value)
    return found


def _readable(run: Run | None, name: str) -> dict[str, Any]:
    """A JSON file of the run as flat keys, or what is wrong with it."""
    if run is None:
        return {}
    try:
        return flatten(getattr(run, name))
    except AnalysisError as error:
        return {"not readable": str(error)}


def _commands(experiment: Experiment) -> list[str]:
    """The command that made the experiment, and the one that repeats a run and compares."""
    command = experiment.description.get("command")
    if not command:
        return []
    words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
    if not words or not words[0].endswith("testbed"):
        words = ["bin/testbed", *words]
    run = next((one for one in experiment.runs if one.finished), experiment.runs[0])
    verified = f"results/{experiment.path.resolve().name}/runs/{run.name}"
    return [shlex.join(words), shlex.join(["bin/testbed", "verify", verified])]
