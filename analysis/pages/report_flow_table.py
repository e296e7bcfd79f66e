# SPDX-License-Identifier: GPL-2.0-only
"""Flows by layers: a table of metrics x flows for each subject, one of metrics of link and network x subjects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from analysis.drawing import style
from analysis.flows import flow_means
from analysis.metrics import Shown, shown
from analysis.pages import report_tables
from analysis.read.experiment import Row
from analysis.read.tables import Results

MOST_FLOWS = 12     # with a column each


class Value(NamedTuple):
    """A mean over seeds, half of its 95 % interval, and whether it is the best of its row."""

    mean: str
    spread: str
    best: bool


class Grid(NamedTuple):
    """A table: what heads its columns; rows of (what, unit, values, None where there is none)."""

    title: str
    heads: list[str]
    rows: list[tuple[str, str, list[Value | None]]]


def tables(results: Results) -> list[Grid]:
    """[] unless the runs have these metrics and few flows."""
    flows = sorted({int(scope.removeprefix("flow_")) for scope in results.scopes("mean_network_power_l4")
                    if scope.startswith("flow_")})
    if not 1 <= len(flows) <= MOST_FLOWS:
        return []
    rows = results.experiment.drawn
    found = []
    links = results.scopes("mean_qdisc_delay_l2")
    together = [line for table, scopes in (("link_layers", links), ("network_layers", ["all", *_bins(results)]))
                for one in shown(table) for scope in scopes
                for line in _line(results, [(row, scope) for row in rows], one,
                                  f", {style.direction(scope)}" if len(links) > 1 and table == "link_layers" else "")]
    if together:
        found.append(Grid("Link and network", [row.label for row in rows], together))
    for row in rows:
        lines = [line for one in shown("flow_layers")
                 for line in _line(results, [(row, f"flow_{flow}") for flow in flows], one)]
        if lines:
            found.append(Grid(f"Flows, {row.label}", [f"flow {flow}" for flow in flows], lines))
    return found


def bin_words() -> str:
    """The width of the bins, for the note."""
    return f"{flow_means.BIN_US / 1e3:g} ms"


def _bins(results: Results) -> list[str]:
    return results.scopes("mean_jains_fairness_throughput_l4")


def _line(results: Results, places: Sequence[tuple[Row, str]], one: Shown, where: str = "") \
        -> list[tuple[str, str, list[Value | None]]]:
    """A row of a table, [] if nobody has the metric there."""
    samples = [results.sample(row, one.metric, scope) for row, scope in places]
    if not any(samples):
        return []
    unit = next(found for _, scope in places if (found := results.unit(one.metric, scope)) is not None)
    means = [results.summarise(one.metric, sample) if sample else None for sample in samples]
    known = [one.best * mean.mean for mean in means if mean is not None]
    winner = max(known) if one.best and len(known) > 1 and min(known) < max(known) else None
    values: list[Value | None] = []
    for mean in means:
        if mean is None:
            values.append(None)
        else:
            values.append(Value(*report_tables.interval(mean), one.best * mean.mean == winner))
    return [(one.heading + where, "" if unit == "1" else str(unit), values)]
