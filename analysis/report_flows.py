# SPDX-License-Identifier: GPL-2.0-only
"""Tables of runs with a few long flows: what each flow got, and how fairly; and of mixed and UDP traffic."""

from __future__ import annotations

import re
from typing import NamedTuple

from analysis import tcp
from analysis.experiment import Experiment
from analysis.report_tables import Table, column_table
from analysis.tables import Results

MOST_COLUMNS = 6


class Column(NamedTuple):
    """A column of a table."""

    metric: str
    scope: str
    label: str


def tables(experiment: Experiment, results: Results) -> list[Table]:
    """Throughput per flow with the ratio of short to long RTTs, congestion controls side by side, UDP flows."""
    found = [column_table(results, "Throughput of long flows", _flow_columns(experiment, results)),
             column_table(results, "Congestion controls side by side, mean per flow", _cca_columns(results)),
             column_table(results, "Congestion controls side by side, connections", _mixed_columns(results)),
             column_table(results, "UDP flows", _udp_columns(results))]
    return [table for table in found if table]


def _flow_columns(experiment: Experiment, results: Results) -> list[Column]:
    """Each flow, if there are few, and what compares them."""
    labels = _labels(experiment)
    scopes = [scope for scope in results.scopes("mean_throughput_l4") if scope.startswith("flow_")]
    scopes.sort(key=lambda scope: int(scope.removeprefix("flow_")))
    columns = []
    if 1 <= len(scopes) <= MOST_COLUMNS:
        for scope in scopes:
            words = labels.get(int(scope.removeprefix("flow_")), "")
            columns.append(Column("mean_throughput_l4", scope, scope.replace("_", " ") + words))
    for scope in results.scopes("throughput_ratio_short_long"):
        match = re.fullmatch(r"rtt_(.+)_to_(.+)_ms", scope)
        if match:
            columns.append(Column("throughput_ratio_short_long", scope, f"ratio {match[1]} ms : {match[2]} ms"))
    return columns


def _cca_columns(results: Results) -> list[Column]:
    return [Column("mean_throughput_l4", scope, scope.removeprefix("cca_"))
            for scope in results.scopes("mean_throughput_l4") if scope.startswith("cca_")]


def _mixed_columns(results: Results) -> list[Column]:
    """Connections of runs in which they use several congestion controls."""
    return [Column(metric, scope, f"{scope.removeprefix('cca_')}, {label}")
            for scope in results.scopes("goodput") if scope.startswith("cca_")
            for metric, label in (("goodput", "goodput"), ("flow_completion_time_p50", "completion, median"))]


def _udp_columns(results: Results) -> list[Column]:
    return [Column(metric, scope, f"{scope.replace('_', ' ')}, {label}")
            for scope in results.scopes("udp_received_rate")[:MOST_COLUMNS // 2]
            for metric, label in (("udp_received_rate", "received"), ("udp_loss", "lost"))]


def _labels(experiment: Experiment) -> dict[int, str]:
    """What tells the flows of the first run apart: base RTTs, else hosts."""
    for run in experiment.usable_runs:
        flows = tcp.listed_flows(run)
        rtts_us = {flow["flow"]: flow.get("base_rtt_us") for flow in flows}
        if len(flows) == 1 or len(set(rtts_us.values())) > 1:
            return {flow: f", {rtt_us / 1e3:g} ms" for flow, rtt_us in rtts_us.items() if rtt_us}
        if flows:
            return {flow["flow"]: f", {flow['sender']} to {flow['receiver']}" for flow in flows}
    return {}
