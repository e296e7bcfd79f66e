# SPDX-License-Identifier: GPL-2.0-only
"""Tables of runs with a few long flows: what each flow got, and how fairly."""

from __future__ import annotations

import re

from analysis import tcp
from analysis.report_tables import Table, cell
from analysis.runs import AnalysisError, Experiment
from analysis.tables import Results

MOST_COLUMNS = 6


def tables(experiment: Experiment, results: Results) -> list[Table]:
    """Throughput per flow with the ratio of short to long RTTs, and per congestion control of mixed runs."""
    found = [_table(results, "Throughput of long flows", _flow_columns(experiment, results)),
             _table(results, "Congestion controls side by side, mean per flow", _cca_columns(results))]
    return [table for table in found if table]


def _flow_columns(experiment: Experiment, results: Results) -> list[tuple[str, str, str]]:
    """(metric, scope, label) of each flow, if there are few, and of what compares them."""
    rtts_ms = _base_rtts_ms(experiment)
    scopes = [scope for scope in results.scopes("mean_throughput_l4") if scope.startswith("flow_")]
    scopes.sort(key=lambda scope: int(scope.removeprefix("flow_")))
    columns = []
    if 1 < len(scopes) <= MOST_COLUMNS:
        for scope in scopes:
            rtt_ms = rtts_ms.get(int(scope.removeprefix("flow_")))
            columns.append(("mean_throughput_l4", scope,
                            scope.replace("_", " ") + (f", {rtt_ms:g} ms" if rtt_ms else "")))
    for scope in results.scopes("throughput_ratio_short_long"):
        short, long = re.fullmatch(r"rtt_(.+)_to_(.+)_ms", scope).groups()
        columns.append(("throughput_ratio_short_long", scope, f"ratio {short} ms : {long} ms"))
    return columns


def _cca_columns(results: Results) -> list[tuple[str, str, str]]:
    return [("mean_throughput_l4", scope, scope.removeprefix("cca_"))
            for scope in results.scopes("mean_throughput_l4") if scope.startswith("cca_")]


def _base_rtts_ms(experiment: Experiment) -> dict[int, float]:
    """{flow: base RTT} of the first run whose workload lists its flows."""
    for run in experiment.usable_runs:
        try:
            flows = tcp.listed_flows(run)
        except AnalysisError:
            continue
        if flows:
            return {flow["flow"]: flow["base_rtt_us"] / 1e3 for flow in flows if flow.get("base_rtt_us")}
    return {}


def _table(results: Results, title: str, columns: list[tuple[str, str, str]]) -> Table | None:
    """One row per CCA that has any of the columns (metric, scope, label)."""
    rows = []
    for cca in results.experiment.ccas:
        count = max((len(results.sample(cca, metric, scope)) for metric, scope, _ in columns), default=0)
        if count:
            rows.append((cca, str(count), [cell(results, cca, metric, scope) for metric, scope, _ in columns]))
    if not rows:
        return None
    heads = [(label, "" if (unit := results.unit(metric, scope)) == "1" else unit) for metric, scope, label in columns]
    return Table(title, "congestion control", heads, rows)
