# SPDX-License-Identifier: GPL-2.0-only
"""Tables over an experiment: runs.csv, summary.csv."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from analysis import metrics, one_run, stats
from analysis.compare import run_lists
from analysis.read import counters
from analysis.read.experiment import Experiment, Row
from analysis.read.runs import AnalysisError, Run, State

SUMMARY_COLUMNS = ["subject", "metric", "scope", "unit", "n", "seeds", "scale", "mean", "ci95_low", "ci95_high"]
COMPARISON_COLUMNS = ["family", "metric", "scope", "unit", "reference", "subject", "method", "seeds", "n_reference",
                      "n", "reference_mean", "mean", "scale", "difference", "ci95_low", "ci95_high", "p", "p_holm",
                      "p_equal", "p_equal_holm", "margin_percent", "margin", "result"]
RUN_COLUMNS = ["scenario", "engine", "kernel", "run", "id", "subject", "seed", "status", "verdict", "used_in_means",
               "error", "virtual_s", "wall_s"]
_UNIT_NAMES = {"Mbit/s": "mbit_per_s", "%": "percent", "1": ""}


def flatten(value: object, prefix: str = "") -> dict[str, object]:
    """Nested mappings as one level with dotted keys, lists of mappings by their names; other lists as text."""
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        value = {str(item.get("name", place)): {key: inner for key, inner in item.items() if key != "name"}
                 for place, item in enumerate(value)}
    if isinstance(value, dict):
        found: dict[str, object] = {}
        for key, item in value.items():
            found.update(flatten(item, f"{prefix}.{key}" if prefix else str(key)))
        return found
    return {prefix: ", ".join(map(str, value)) if isinstance(value, list) else value}


class Results:
    """The metrics of all runs of an experiment, and the tables made of them.

    Only usable runs (finished and not invalid) enter means and comparisons.
    `problems` has an error text for every run that did not give metrics. `repeats`: of each row, the names of runs that
    are one run though their seeds differ; only the first of them enters.
    """

    def __init__(self, experiment: Experiment, asked: Sequence[str] = ()) -> None:
        """asked: counters of the TCP/IP stacks, by their full names, that are metrics here, too."""
        self.experiment = experiment
        self.problems: dict[str, str] = {}
        frames = []
        keys: dict[str, run_lists.PairingKey] = {}
        verdicts = experiment.verdicts      # may find runs damaged
        for run in experiment.runs:
            if run.name not in verdicts:
                self.problems[run.name] = run.state.message
                continue
            try:
                keys[run.name] = run_lists.pairing_key(run)
            except AnalysisError as error:
                self.problems[run.name] = str(error)
                run.state = State("damaged", str(error))
                continue
            values = experiment.values(run)
            if asked:
                values = pd.concat([values, counters.table(run, asked)], ignore_index=True)
            frames.append(values.assign(
                run=run.name, label=experiment.row_of(run).label, usable=run in experiment.usable_runs))
        columns = ["metric", "scope", "unit", "value", "run", "label", "usable"]
        self.values = (pd.concat(frames, ignore_index=True) if frames
                       else pd.DataFrame(columns=columns))
        used = self.values[self.values["usable"].astype(bool)]
        rows = {row.label: row for row in experiment.rows}
        self.repeats: dict[Row, list[list[str]]] = {
            rows[str(label)]: repeated for label, group in used.groupby("label", sort=False)
            if (repeated := [one for one in one_run.groups(group) if len(one) > 1])}
        self._repeated = {name for repeated in self.repeats.values() for _, *rest in repeated for name in rest}
        used = used[~used["run"].isin(self._repeated)]
        self._samples: dict[tuple[str, str, str], dict[run_lists.PairingKey, float]] = {
            key: dict(zip(group["run"].map(keys), group["value"])) for key, group
            in used.groupby(["label", "metric", "scope"], sort=False)}
        self._ratios = metrics.ratios()
        self._units: dict[tuple[str, str], str] = dict(zip(zip(used["metric"], used["scope"]), used["unit"]))
        self._scopes: dict[str, list[str]] = {}
        for metric, scope in self._units:
            self._scopes.setdefault(metric, []).append(scope)

    def sample(self, row: Row, metric: str, scope: str) -> list[float]:
        """One value per usable run of a row (empty when there are none)."""
        return list(self.keyed(row, metric, scope).values())

    def keyed(self, row: Row, metric: str, scope: str) -> dict[run_lists.PairingKey, float]:
        """The same by the runs' pairing keys."""
        return self._samples.get((row.label, metric, scope), {})

    def counted(self, row: Row) -> list[Run]:
        """The runs of a row that enter its means."""
        return [run for run in self.experiment.usable(row) if run.name not in self._repeated]

    def is_ratio(self, metric: str) -> bool:
        return metric in self._ratios

    def summarise(self, metric: str, sample: Iterable[float]) -> stats.Summary:
        """Mean and interval of values of a metric (analysis/stats)."""
        return stats.summarise(list(sample), self.is_ratio(metric), metrics.most(metric))

    def unit(self, metric: str, scope: str) -> str | None:
        """Unit of a metric, None when no usable run has it."""
        return self._units.get((metric, scope))

    def measured(self) -> list[tuple[str, str]]:
        """(metric, scope) of all that any usable run has."""
        return list(self._units)

    def seeds(self, row: Row, metric: str, scope: str) -> list[int]:
        """The seeds of a sample."""
        return sorted(key.seed for key in self.keyed(row, metric, scope))

    def scopes(self, metric: str) -> list[str]:
        """Scopes in which any usable run has a metric."""
        return self._scopes.get(metric, [])

    def summary(self) -> pd.DataFrame:
        """Long form: scenario, engine, kernel, parameters, point, then SUMMARY_COLUMNS.

        The mean of a ratio (`scale` geometric) and its interval are those of the logarithms.
        """
        rows = []
        place = {row.label: row for row in self.experiment.rows}
        for (label, metric, scope), sample in self._samples.items():
            found = self.summarise(metric, sample.values())
            seeds = " ".join(str(key.seed) for key in sorted(sample))
            rows.append((*place[label].point, place[label].subject, metric, scope, self._units[metric, scope], found.n,
                         seeds, "geometric" if found.ratio else "arithmetic", found.mean, found.low, found.high, label))
        table = pd.DataFrame(rows, columns=[*self.axes(), *SUMMARY_COLUMNS, "label"])
        order = {row.label: index for index, row in enumerate(self.experiment.rows)}
        table = table.sort_values("label", key=lambda column: column.map(order), kind="stable")
        return self._with_parameters(table.drop(columns="label"))

    def runs(self) -> pd.DataFrame:
        """One row per run: status, verdict, and its metrics but for those by size."""
        rows = []
        of_run = dict(list(self.values.groupby("run", sort=False)))
        for run in self.experiment.runs:
            finished = run.name in self.experiment.verdicts
            row = {"run": run.name, "id": run.path.name,
                   **dict(zip(self.axes(), self.experiment.row_of(run).point)),
                   "subject": run.subject, "seed": run.seed, "status": run.state.kind,
                   "verdict": self.experiment.verdict(run) if finished else "",
                   "used_in_means": run in self.experiment.usable_runs and run.name not in self._repeated,
                   "error": self.problems.get(run.name, ""),
                   "virtual_s": run.status.virtual_s if finished else None,
                   "wall_s": run.status.wall_s if finished else None}
            mine = of_run.get(run.name, self.values.iloc[:0])
            for metric, scope, unit, value in zip(mine["metric"], mine["scope"], mine["unit"],
                                                  mine["value"]):
                if "bytes_" not in scope:
                    row[column_name(metric, scope, unit)] = value
            rows.append(row)
        return self._with_parameters(pd.DataFrame(rows))

    def axes(self) -> list[str]:
        """Columns of the point; an axis that has the name of another column is told apart."""
        taken = {*SUMMARY_COLUMNS, *COMPARISON_COLUMNS, *RUN_COLUMNS}
        return [f"axis.{axis.key}" if axis.key in taken else axis.key for axis in self.experiment.axes]

    def _with_parameters(self, table: pd.DataFrame) -> pd.DataFrame:
        head: dict[str, object] = {
            "scenario": self.experiment.scenario, "engine": self.experiment.engine,
            "kernel": self.experiment.kernel, **flatten(self.experiment.parameters)}
        taken = set(table.columns)
        named = {f"parameter.{key}" if key in taken else key: value
                 for key, value in head.items()}
        front = pd.DataFrame({key: [value] * len(table) for key, value in named.items()},
                             index=table.index)
        return pd.concat([front, table], axis=1)


def column_name(metric: str, scope: str, unit: str) -> str:
    """Column of a metric in runs.csv, e.g. throughput_mean_right_to_left_mbit_per_s."""
    parts = [metric, "" if scope == "all" else scope, _UNIT_NAMES.get(unit, unit)]
    return "_".join(part for part in parts if part)
