# SPDX-License-Identifier: GPL-2.0-only
"""Tables over an experiment: runs.csv, summary.csv, comparison.csv."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from analysis import stats
from analysis.metrics import load_metrics
from analysis.runs import AnalysisError, Experiment

SUMMARY_COLUMNS = ["cca", "metric", "scope", "unit", "n", "mean", "ci95_low", "ci95_high"]
COMPARISON_COLUMNS = ["metric", "scope", "unit", "reference", "cca", "n_reference", "n",
                      "difference", "ci95_low", "ci95_high", "result"]
_UNIT_NAMES = {"Mbit/s": "mbit_per_s", "%": "percent", "1": ""}


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one level with dotted keys; lists as text."""
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for key, item in value.items():
            found.update(flatten(item, f"{prefix}.{key}" if prefix else str(key)))
        return found
    return {prefix: ", ".join(map(str, value)) if isinstance(value, list) else value}


class Results:
    """The metrics of all runs of an experiment, and the tables made of them.

    Only usable runs (finished and not invalid) enter means and comparisons.
    `problems` has an error text for every run that did not give metrics.
    """

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.problems: dict[str, str] = {}
        frames = []
        for run in experiment.runs:
            try:
                if not run.finished:
                    status = run.status
                    self.problems[run.name] = str(
                        status.get("error") or f"the run is {status.get('status', 'unknown')}")
                    continue
                frames.append(load_metrics(run).assign(
                    run=run.name, cca=run.cca, seed=run.seed,
                    usable=run in experiment.usable_runs))
            except AnalysisError as error:
                self.problems[run.name] = str(error)
        columns = ["metric", "scope", "unit", "value", "run", "cca", "seed", "usable"]
        self.values = (pd.concat(frames, ignore_index=True) if frames
                       else pd.DataFrame(columns=columns))
        used = self.values[self.values["usable"].astype(bool)]
        self._samples: dict[tuple[str, str, str], list[float]] = {
            key: group.tolist() for key, group
            in used.groupby(["cca", "metric", "scope"], sort=False)["value"]}
        self._units = dict(zip(zip(used["metric"], used["scope"]), used["unit"]))

    def sample(self, cca: str, metric: str, scope: str) -> list[float]:
        """One value per usable run of a CCA (empty when there are none)."""
        return self._samples.get((cca, metric, scope), [])

    def unit(self, metric: str, scope: str) -> str | None:
        """Unit of a metric, None when no usable run has it."""
        return self._units.get((metric, scope))

    def scopes(self, metric: str) -> list[str]:
        """Scopes in which any usable run has a metric."""
        return [scope for name, scope in self._units if name == metric]

    def summary(self) -> pd.DataFrame:
        """Long form: scenario parameters, CCA, metric, scope, unit, n, mean, 95 % interval."""
        rows = []
        for (cca, metric, scope), sample in self._samples.items():
            found = stats.summarise(sample)
            rows.append((cca, metric, scope, self._units[metric, scope], found.n, found.mean,
                         found.low, found.high))
        table = pd.DataFrame(rows, columns=SUMMARY_COLUMNS)
        place = {cca: index for index, cca in enumerate(self.experiment.ccas)}
        table = table.sort_values("cca", key=lambda column: column.map(place), kind="stable")
        return self._with_parameters(table)

    def comparison(self) -> pd.DataFrame:
        """Every CCA against the first one, metric by metric (Welch's 95 % interval)."""
        reference, *others = self.experiment.ccas
        rows = []
        for metric, scope in self._units:
            first = self.sample(reference, metric, scope)
            for cca in others:
                second = self.sample(cca, metric, scope)
                if not first or not second:
                    continue
                found = stats.compare(first, second)
                rows.append((metric, scope, self._units[metric, scope], reference, cca,
                             len(first), len(second), found.difference, found.low, found.high,
                             RESULTS[found.distinguishable]))
        return pd.DataFrame(rows, columns=COMPARISON_COLUMNS)

    def runs(self) -> pd.DataFrame:
        """One row per run: status, verdict, and its metrics but for those by size."""
        rows = []
        for run in self.experiment.runs:
            row = {"run": run.name, "cca": run.cca, "seed": run.seed,
                   "status": run.status.get("status", "unknown"),
                   "verdict": run.verdict.get("verdict", "unknown") if run.finished else "",
                   "used_in_means": run.name not in self.problems
                   and run in self.experiment.usable_runs,
                   "error": self.problems.get(run.name, ""),
                   "virtual_s": run.status.get("virtual_s"), "wall_s": run.status.get("wall_s")}
            mine = self.values[self.values["run"] == run.name]
            for metric, scope, unit, value in zip(mine["metric"], mine["scope"], mine["unit"],
                                                  mine["value"]):
                if "bytes_" not in scope:
                    row[column_name(metric, scope, unit)] = value
            rows.append(row)
        return self._with_parameters(pd.DataFrame(rows))

    def _with_parameters(self, table: pd.DataFrame) -> pd.DataFrame:
        head = {"scenario": self.experiment.scenario, **flatten(self.experiment.parameters)}
        taken = set(table.columns)
        named = {f"parameter.{key}" if key in taken else key: value
                 for key, value in head.items()}
        front = pd.DataFrame({key: [value] * len(table) for key, value in named.items()},
                             index=table.index)
        return pd.concat([front, table], axis=1)

    def write(self, folder: Path) -> list[Path]:
        """Write runs.csv, summary.csv and (two CCAs or more) comparison.csv."""
        folder.mkdir(parents=True, exist_ok=True)
        tables = {"summary": self.summary(), "runs": self.runs()}
        if len(self.experiment.ccas) > 1:
            tables["comparison"] = self.comparison()
        for name, table in tables.items():
            table.to_csv(folder / f"{name}.csv", index=False, float_format="%.10g")
        return [folder / f"{name}.csv" for name in tables]


RESULTS = {True: "different", False: "not distinguishable",
           None: "no interval (needs two seeds or more)"}


def column_name(metric: str, scope: str, unit: str) -> str:
    """Column of a metric in runs.csv, e.g. throughput_mean_right_to_left_mbit_per_s."""
    parts = [metric, "" if scope == "all" else scope, _UNIT_NAMES.get(unit, unit)]
    return "_".join(part for part in parts if part)
