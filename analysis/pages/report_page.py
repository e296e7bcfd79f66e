# SPDX-License-Identifier: GPL-2.0-only
"""What the report says in words, ready for its template; its tables of numbers are those of report_tables.py."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import TypedDict

from analysis import stats
from analysis.compare import kernels
from analysis.compare.rows import Comparisons
from analysis.pages import findings, report_controls, report_flow_table, report_tables, run_files
from analysis.pages.columns import Tables
from analysis.read import expectations
from analysis.read.experiment import Experiment
from analysis.read.runs import Run
from analysis.read.tables import Results, flatten

MOST_ROWS = 100     # of a table that is shown unfolded


def context(results: Results, comparisons: Comparisons, tables: Tables, margin: float,
            pairs: Sequence[kernels.Pair] = ()) -> dict[str, object]:
    """Everything the template shows except figures and files. pairs: kernels that are compared."""
    experiment = results.experiment
    run = next(iter(experiment.usable_runs or [run for run in experiment.runs
                                               if run.name not in results.problems]), None)
    return {
        "experiment": experiment,
        "title": title(experiment, run),
        "findings": findings.of_report(results, comparisons, [
            (pair.other, pair.reference, pair.comparisons) for pair in pairs]),
        "sentence": _sentence(experiment, run),
        "verdicts": verdicts(experiment),
        "repeats": report_tables.repeats(results),
        "expectations": expectations.judge(results),
        "result_tables": result_tables(results, comparisons, tables),
        "layer_tables": report_flow_table.tables(results),
        "layer_bin": report_flow_table.bin_words(),
        "size_tables": report_tables.by_size(results, comparisons, tables.sizes),
        "load_tables": report_tables.shown(results, comparisons, tables.load),
        "controls": report_controls.controls(experiment),
        "workload": _workload(run),
        "runs": [_run_row(one, experiment) for one in experiment.runs],
        "drawn_runs": [(row.label, report_tables.run_links(experiment, row, list(experiment.names[row])))
                       for row in experiment.drawn],
        "labels": _labels(run),
        # the network has tables of its own
        "scenario": flatten({key: value for key, value in run.scenario.content().items()
                             if key != "network"}) if run else {},
        "environment": _environment(run),
        "commands": _commands(experiment),
        "most_seeds": max((len(experiment.usable(row)) for row in experiment.rows), default=0),
        "interval": run.interval if run else None,
        "many_rows": len(experiment.rows) > MOST_ROWS,
        "margin": f"{100 * margin:g}",
        "sequential": any("--precision" in words for words in experiment.commands),
        "confidence": f"{100 * stats.CONFIDENCE:g}",
    }


def result_tables(results: Results, comparisons: Comparisons, tables: Tables) -> list[report_tables.Table]:
    """Those of links, connections and flows."""
    return report_tables.shown(results, comparisons, [
        *tables.links, *tables.connections, *tables.slowdown, *tables.flows, *tables.fairness])


def title(experiment: Experiment, run: Run | None) -> str:
    """What an experiment is called; run: one of it, if there is one."""
    named = experiment.description.title
    if not named and run is not None:
        named = run.labels.title
    return named or experiment.scenario


def _sentence(experiment: Experiment, run: Run | None) -> str:
    seeds = sorted({one.seed for one in experiment.runs})
    simulator = run.environment.simulator if run else None
    text = (f"Scenario {experiment.scenario}{f' in {simulator}' if simulator else ''} with "
            f"{', '.join(experiment.subjects)}")
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


class Counted(TypedDict):
    """(verdict, or state of a run that has none; how many runs), and the worst of them."""

    counts: list[tuple[str, int]]
    worst: str


class Verdicts(Counted):
    """The same of an experiment, and how many runs enter its means."""

    used: int


def verdicts(experiment: Experiment) -> Verdicts:
    """Counts per verdict, and the worst one that decides the banner's colour."""
    found = counted([experiment.verdict(run) for run in experiment.runs])
    return {"counts": found["counts"], "worst": found["worst"], "used": len(experiment.usable_runs)}


def counted(found: Sequence[str]) -> Counted:
    """How often there is each verdict (or state of a run that has none), the best first, and the worst of them."""
    counts = Counter(found)
    order = ("damaged", "failed", "invalid", "missing", "not judged", "suspect", "valid")
    worst = next((name for name in order if counts[name]), "suspect")
    return {"counts": [(name, counts[name]) for name in reversed(order) if counts[name]], "worst": worst}


def _run_row(run: Run, experiment: Experiment) -> dict[str, object]:
    found = experiment.verdicts.get(run.name)
    return {"run": run, "verdict": experiment.verdict(run), "problem": "" if found else run.state.message,
            "reasons": found["reasons"] if found else [], "checks": found["checks"] if found else [],
            "errors": found["errors"] if found else [], "used": run in experiment.usable_runs,
            "files": run_files.records(run, experiment), "raw": run_files.raw(run, experiment)}


def _workload(run: Run | None) -> list[tuple[str, dict[str, str]]]:
    """(component, its scalar facts: times in seconds, rates in Mbit/s)"""
    found = []
    for component in run.components if run else []:
        facts = {}
        for key, value in flatten(component.content()).items():
            if key.startswith(("offered_bps", "thirds_bps")) or value is None or key == "name":
                continue
            if key.endswith("_us") and isinstance(value, (int, float)):
                key, value = f"{key.removesuffix('_us')} (s)", f"{value / 1e6:g}"
            elif isinstance(value, float):
                value = f"{value:.4g}"
            facts[key.replace("_", " ")] = str(value)
        found.append((component.name, facts))
    return found


def _labels(run: Run | None) -> dict[str, object]:
    """Description and source of the scenario, where the experiment has none."""
    return {"description": run.labels.description, "source": run.labels.source} if run else {}


def _environment(run: Run | None) -> dict[str, object]:
    if run is None:
        return {}
    facts = flatten(run.environment.content())
    return {key: value for key, value in facts.items() if not key.startswith("files_sha256")}


def _commands(experiment: Experiment) -> list[str]:
    """The commands that made the experiment, and the one that repeats a run and compares."""
    if not experiment.command:
        return []
    run = next((one for one in experiment.runs if one.finished), experiment.runs[0])
    verified = f"results/{experiment.path.name}/runs/{run.name}"
    return [*map(shlex.join, experiment.commands), shlex.join(["bin/testbed", "verify", verified])]
