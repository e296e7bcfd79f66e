# SPDX-License-Identifier: GPL-2.0-only
"""What the report shows in words and tables, ready for its template."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from analysis import comparing, report_controls, sizes, stats, style
from analysis.experiment import Experiment, Row
from analysis.figures.adu_response import load_directions
from analysis.runs import Run
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
MOST_ROWS = 100     # of a table that is shown unfolded


class Cell(NamedTuple):
    """A mean with its half width, and whether it can be told from the reference."""

    mean: str
    half_width: str | None
    same: bool


class TableRow(NamedTuple):
    """A row of a table; `point` holds (value, rows that it spans, or 0) for each axis of a sweep."""

    point: list[tuple[str, int]]
    name: str
    n: str
    cells: list[Cell | None]


class Table(NamedTuple):
    """Rows under columns of (label, unit); `axes` head the columns of the point in a sweep."""

    title: str
    head: str
    columns: list[tuple[str, str]]
    rows: list[TableRow]
    axes: list[str]
    reference: str


def context(experiment: Experiment, results: Results) -> dict[str, Any]:
    """Everything the template shows except figures and files."""
    run = next(iter(experiment.usable_runs or [run for run in experiment.runs
                                               if run.name not in results.problems]), None)
    links = list(run.bottlenecks) if run else []
    return {
        "experiment": experiment,
        "title": _title(experiment, run),
        "sentence": _sentence(experiment, run),
        "verdicts": _verdicts(experiment),
        "key_tables": _link_tables(results, LINK_METRICS, links, "Bottleneck"),
        "flow_table": _flow_table(results),
        "fairness_table": _fairness_table(results),
        "size_tables": _all_size_tables(results, run),
        "load_tables": _link_tables(results, LOAD_METRICS, links, "Load"),
        "controls": report_controls.controls(experiment),
        "workload": _workload(run),
        "runs": [_run_row(one, experiment) for one in experiment.runs],
        "labels": _labels(run),
        # the network has tables of its own
        "scenario": flatten({key: value for key, value in run.scenario.items() if key != "network"}) if run else {},
        "environment": _environment(run),
        "commands": _commands(experiment),
        "most_seeds": max((len(experiment.usable(row)) for row in experiment.rows), default=0),
        "interval": run.interval if run else None,
        "many_rows": len(experiment.rows) > MOST_ROWS,
    }


def cell(results: Results, row: Row, metric: str, scope: str) -> Cell | None:
    """Mean over seeds with its interval; None when the row lacks the metric."""
    sample = results.sample(row, metric, scope)
    if not sample:
        return None
    found = stats.summarise(sample)
    reference = results.experiment.reference(row)
    same = False
    first = results.keyed(reference, metric, scope)
    if first and row != reference and metric not in INPUTS:
        same = comparing.compare(first, results.keyed(row, metric, scope)).distinguishable is False
    if found.half_width is None:
        return Cell(style.number(found.mean), None, same)
    return Cell(*style.plus_minus(found.mean, found.half_width), same)


def column_table(results: Results, title: str, columns: Sequence[tuple[str, str, str]],
                 head: str = "congestion control") -> Table | None:
    """A row per subject and point that has any of the columns (metric, scope, label); None if none has."""
    columns = [column for column in columns if results.unit(column[0], column[1]) is not None]
    counted = []
    tried = {results.experiment.row_of(run) for run in results.experiment.runs if run.state.kind != "missing"}
    for row in results.experiment.rows:
        count = max((len(results.sample(row, metric, scope)) for metric, scope, _ in columns), default=0)
        # what was tried and can not be used is there all the same, with empty cells
        if count or row in tried and not results.experiment.usable(row):
            counted.append((row, count))
    if not any(count for _, count in counted):
        return None
    spans = _spans([row.point for row, _ in counted])
    rows = [TableRow(point, row.subject, str(count), [cell(results, row, *column[:2]) for column in columns])
            for point, (row, count) in zip(spans, counted)]
    heads = [(label, "" if (unit := results.unit(metric, scope)) == "1" else str(unit))
             for metric, scope, label in columns]
    return Table(title, head, heads, rows, [axis.short for axis in results.experiment.axes],
                 results.experiment.subjects[0])


def _spans(points: list[tuple[str, ...]]) -> list[list[tuple[str, int]]]:
    """For each point (value, number of rows from here on that share it), 0 where an earlier row spans it."""
    found: list[list[tuple[str, int]]] = []
    for place, point in enumerate(points):
        cells = []
        for axis, value in enumerate(point):
            if place and points[place - 1][:axis + 1] == point[:axis + 1]:
                cells.append((value, 0))
            else:
                rest = points[place:]
                count = next((n for n, other in enumerate(rest) if other[:axis + 1] != point[:axis + 1]), len(rest))
                cells.append((value, count))
        found.append(cells)
    return found


def _link_tables(results: Results, metrics: tuple[tuple[str, str], ...], links: list[str], what: str) -> list[Table]:
    """A table for each bottleneck link, then one for each direction in which there are several.

    Goodput, say, is that of a whole direction: with one bottleneck in it, it stands with that link.
    """
    runs = results.experiment.usable_runs[:1]
    directions = {name: link.get("direction") or name for run in runs for name, link in run.bottlenecks.items()}
    alone = {name for name in links if list(directions.values()).count(directions.get(name, name)) == 1}
    found = []
    for link in links:
        columns = [(metric, link if results.unit(metric, link) is not None or link not in alone
                    else directions.get(link, link), label) for metric, label in metrics]
        found.append(column_table(results, f"{what}, {style.direction(link)}", columns))
    for name in dict.fromkeys(directions[link] for link in links if link in directions and link not in alone):
        if any(value for row in results.experiment.rows for metric, _ in metrics
               for value in results.sample(row, metric, name)):
            found.append(column_table(results, f"All traffic, {style.direction(name)}",
                                      [(metric, name, label) for metric, label in metrics]))
    return [table for table in found if table]


def _flow_table(results: Results) -> Table | None:
    """None when no connection started after warm-up, as with long flows alone."""
    if not any(value for row in results.experiment.rows
               for value in results.sample(row, "connections_started", "all")):
        return None
    return column_table(results, "Connections", [(metric, "all", label) for metric, label in FLOW_METRICS])


def _fairness_table(results: Results) -> Table | None:
    """Fairness among few long flows; the bin width is part of its definition."""
    scope = next(iter(results.scopes("mean_jains_fairness_throughput_l4")), None)
    if scope is None:
        return None
    width = scope.removeprefix("bin_").replace("_", " ")
    return column_table(results, f"Long flows, bins of {width}",
                        [(metric, scope, label) for metric, label in FAIRNESS_METRICS])


def _all_size_tables(results: Results, run: Run | None) -> list[tuple[str, list[Table]]]:
    """Flow completion times and, per direction, ADU response times by size."""
    wanted = [("Flow completion time, median (s)", "flow_completion_time_p50", "",
               "flows_completed"),
              ("Flow completion time, mean (s)", "flow_completion_time_mean", "",
               "flows_completed")]
    wanted += [(f"ADU response time, {style.direction(name)}, median (ms)",
                "adu_response_time_p50", name, "adus_delivered")
               for name in (load_directions(run) if run else [])]
    found = []
    for title, metric, prefix, count in wanted:
        tables = _size_tables(results, metric, prefix, count)
        if tables:
            found.append((title, tables))
    return found


def _size_tables(results: Results, metric: str, prefix: str, count: str) -> list[Table]:
    """One row per size class, one column per subject (and point), as many tables as the page needs."""
    scopes = [(bounds, scope) for scope in results.scopes(metric)
              if (bounds := sizes.bounds(scope)) and bounds[0] == prefix]
    columns = results.experiment.drawn
    tables = []
    for at in range(0, len(columns), CCAS_PER_TABLE) if scopes else ():
        chosen = columns[at:at + CCAS_PER_TABLE]
        rows = []
        for (_, low, high), scope in sorted(scopes):
            counts = [value for row in chosen for value in results.sample(row, count, scope)]
            rows.append(TableRow([], f"{style.size(low)} to {style.size(high)}",
                                 f"{sum(counts) / len(counts):.0f}" if counts else "0",
                                 [cell(results, row, metric, scope) for row in chosen]))
        tables.append(Table("", "size", [(row.label, "") for row in chosen], rows, [], results.experiment.subjects[0]))
    return tables


def _title(experiment: Experiment, run: Run | None) -> str:
    named = experiment.description.get("title")
    if not named and run is not None:
        named = run.labels.get("title")
    return str(named or experiment.scenario)


def _sentence(experiment: Experiment, run: Run | None) -> str:
    seeds = sorted({one.seed for one in experiment.runs})
    text = f"Scenario {experiment.scenario} with {', '.join(experiment.subjects)}"
    if experiment.axes:
        axes = " and ".join(f"{axis.key} ({_values(axis.values)})" for axis in experiment.axes)
        text += f", {len(experiment.points)} points of a sweep over {axes}"
    text += (f" and {len(seeds)} seed{'s' * (len(seeds) != 1)}: {len(experiment.runs)} "
             f"run{'s' * (len(experiment.runs) != 1)}")
    if run is None:
        return text + ", none of which finished."
    interval = run.interval
    each = " each" * (len(experiment.runs) > 1)
    return (f"{text} of {interval.end_us / 1e6:g} s{each}; metrics are taken from "
            f"{interval.start_us / 1e6:g} s to {interval.end_us / 1e6:g} s.")


def _values(values: list[str]) -> str:
    return ", ".join(values) if len(values) <= 8 else f"{', '.join(values[:3])} ... {values[-1]}"


def _verdicts(experiment: Experiment) -> dict[str, Any]:
    """Counts per verdict, and the worst one that decides the banner's colour."""
    counts = Counter(experiment.verdict(run) for run in experiment.runs)
    order = ("damaged", "failed", "invalid", "missing", "suspect", "valid")
    worst = next((name for name in order if counts[name]), "suspect")
    return {"counts": [(name, counts[name]) for name in reversed(order) if counts[name]],
            "worst": worst, "used": len(experiment.usable_runs)}


def _run_row(run: Run, experiment: Experiment) -> dict[str, Any]:
    verdict = experiment.verdicts.get(run.name, {})
    return {"run": run, "verdict": experiment.verdict(run), "problem": "" if verdict else run.state.message,
            "reasons": verdict.get("reasons") or [], "checks": verdict.get("checks") or [],
            "errors": verdict.get("errors") or [], "used": run in experiment.usable_runs}


def _workload(run: Run | None) -> list[tuple[str, dict[str, str]]]:
    """(component, its scalar facts: times in seconds, rates in Mbit/s)"""
    found = []
    for component in run.components if run else []:
        facts = {}
        for key, value in flatten(component).items():
            if key.startswith(("offered_bps", "thirds_bps")) or value is None or key == "name":
                continue
            if key.endswith("_us") and isinstance(value, (int, float)):
                key, value = f"{key.removesuffix('_us')} (s)", f"{value / 1e6:g}"
            elif isinstance(value, float):
                value = f"{value:.4g}"
            facts[key.replace("_", " ")] = str(value)
        found.append((str(component["name"]), facts))
    return found


def _labels(run: Run | None) -> dict[str, Any]:
    """Description and source of the scenario, where the experiment has none."""
    return {key: str(run.labels.get(key) or "") for key in ("description", "source")} if run else {}


def _environment(run: Run | None) -> dict[str, Any]:
    if run is None:
        return {}
    facts = flatten(run.environment)
    return {key: value for key, value in facts.items() if not key.startswith("files_sha256")}


def _commands(experiment: Experiment) -> list[str]:
    """The command that made the experiment, and the one that repeats a run and compares."""
    if not experiment.command:
        return []
    run = next((one for one in experiment.runs if one.finished), experiment.runs[0])
    verified = f"results/{experiment.path.name}/runs/{run.name}"
    return [shlex.join(experiment.command), shlex.join(["bin/testbed", "verify", verified])]
