# SPDX-License-Identifier: GPL-2.0-only
"""Which metrics stand together in which table of the report.

The comparisons of one table are one family: what may be said of them is decided together (analysis/compare/rows.py).
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from analysis.drawing import style
from analysis.figures.adu_response import load_directions
from analysis.flows import camps, sizes, slowdown
from analysis.metrics.transients import SHARES_PERCENT
from analysis.pages import air_columns
from analysis.read import tcp
from analysis.read.experiment import Experiment
from analysis.read.runs import Run
from analysis.read.tables import Results

LINK_METRICS = (
    ("throughput_mean", "throughput"), ("throughput_sd", "throughput, sd"),
    ("utilisation", "utilisation"), ("queueing_delay_mean", "queueing delay, mean"),
    ("queueing_delay_p95", "queueing delay, p95"), ("drop_rate", "drop rate"),
    ("ce_mark_rate", "CE marks"),
    ("tcp_goodput", "TCP goodput"), ("retransmission_share", "retransmitted"),
)
FLOW_METRICS = (
    ("connections_started", "connections"), ("connections_finished_share", "finished"),
    ("connections_failed", "failed"), ("connections_unfinished", "unfinished"),
    ("unfinished_bytes_share", "unfinished, of bytes"), ("flow_completion_time_p50", "completion, median"),
    ("flow_completion_time_mean", "completion, mean"),
    ("flow_completion_time_p95", "completion, p95"),
)
CROSSING_METRICS = (
    ("flows_completed", "completed"), ("flow_completion_time_p50", "completion, median"),
    ("flow_completion_time_mean", "completion, mean"), ("flow_completion_time_p95", "completion, p95"),
)
FAIRNESS_METRICS = (
    ("jains_index", "Jain's fairness index"),
    ("entropy_of_shares", "entropy of the shares"),
)
LOAD_METRICS = (
    ("offered_load", "offered load"), ("offered_load_share", "of the link rate"),
    ("carried_over_offered", "carried / offered"),
    ("offered_load_thirds_difference", "second vs last third"),
)
#: not compared: what the workload decides, and what is another column in another unit (that one is compared)
NOT_COMPARED = {"offered_load", "offered_load_share", "offered_load_thirds_difference", "connections_started",
                "utilisation", slowdown.COUNT, camps.IN_ONE}
RECOVERY_METRICS = (
    ("fast_recoveries", "fast recoveries"), ("timeouts", "timeouts"), ("segments_sent_again", "sent again"),
    ("ssthresh_lowest", "lowest threshold"), ("repair_time", "repaired after"),
    ("segments_acknowledged", "acknowledged"),
)
TRANSIENT_METRICS = (
    *((f"time_to_bdp_window_{percent}", f"{percent} % of the BDP after") for percent in SHARES_PERCENT),
    ("time_to_room_left", "window fits after"), ("largest_window_change", "largest change in an RTT"),
    ("transient_drops", "cross traffic dropped"),
)
MOST_FLOWS = 6  # with a column each


class Column(NamedTuple):
    """A metric of a scope, and what heads its column."""

    metric: str
    scope: str
    label: str


class Columns(NamedTuple):
    """A table: its title and its columns, of which at least one run has each."""

    title: str
    columns: list[Column]


class Tables(NamedTuple):
    """All tables of the report by their place in it; of `sizes` the columns are drawn as rows."""

    links: list[Columns]
    connections: list[Columns]
    flows: list[Columns]
    fairness: list[Columns]
    load: list[Columns]
    slowdown: list[Columns]
    sizes: list[Columns]

    def all(self) -> list[Columns]:
        return [table for tables in self for table in tables]


def tables(results: Results) -> Tables:
    """The tables that the usable runs of an experiment fill, each (metric, scope) in one of them."""
    return Tables([*_links(results, LINK_METRICS, "Bottleneck"), *_air(results)],
                  [*_connections(results), *_camps(results)], _flows(results), _fairness(results),
                  _links(results, LOAD_METRICS, "Load"), _slowdown(results), _sizes(results))


def _known(results: Results, title: str, columns: list[Column]) -> list[Columns]:
    """The table with those columns that some run has; [] if there are none."""
    known = [column for column in columns if results.unit(column.metric, column.scope) is not None]
    return [Columns(title, known)] if known else []


def _links(results: Results, metrics: tuple[tuple[str, str], ...], what: str) -> list[Columns]:
    """A table for each bottleneck link, then one for each direction in which there are several.

    Goodput, say, is that of a whole direction: with one bottleneck in it, it stands with that link.
    """
    run = next(iter(results.experiment.usable_runs), None)
    links = run.bottlenecks if run else {}
    directions = {name: link.get("direction") or name for name, link in links.items()}
    alone = {name for name in links if list(directions.values()).count(directions[name]) == 1}
    found = []
    for link in links:
        found += _known(results, f"{what}, {style.direction(link)}", [
            Column(metric, link if results.unit(metric, link) is not None or link not in alone
                   else directions[link], label) for metric, label in metrics])
    for name in dict.fromkeys(directions[link] for link in links if link not in alone):
        found += _known(results, f"All traffic, {style.direction(name)}",
                        [Column(metric, name, label) for metric, label in metrics])
    return found


def _air(results: Results) -> list[Columns]:
    return [table for title, columns in air_columns.columns(results)
            for table in _known(results, title, [Column(*column) for column in columns])]


def _connections(results: Results) -> list[Columns]:
    """[] when no connection started after warm-up, as with long flows alone."""
    if not any(value for row in results.experiment.rows
               for value in results.sample(row, "connections_started", "all")):
        return []
    return [*_known(results, "Connections", [Column(metric, "all", label) for metric, label in FLOW_METRICS]),
            *(table for scope in results.scopes("flows_completed") if scope.startswith("across_")
              for table in _known(results, f"Connections {scope.replace('_', ' ')}", [
                  Column(metric, scope, label) for metric, label in CROSSING_METRICS]))]


def _camps(results: Results) -> list[Columns]:
    """Of camps that replay the same connections: transfer times of each, then how they stand to the baseline."""
    run = next(iter(results.experiment.usable_runs), None)
    quarters = ("all", "smallest quarter", "second", "third", "largest quarter")
    found: dict[str, list[Columns]] = {"times": [], "ratios": []}
    for camp in camps.camps(run) if run else ():
        whose = f"camp {camp.name} ({'+'.join(camp.variants) or 'congestion control under test'})"
        scopes = [(camps.scope(camp.name, place), label) for place, label in enumerate(quarters)]
        found["times"] += _known(results, f"Mean transfer time, {whose}", [
            Column("transfers_finished", scopes[0][0], "finished"),
            *(Column("transfer_time_mean", scope, label) for scope, label in scopes)])
        letter = "L, the loss" if camp.standard else "G, the gain"
        found["ratios"] += _known(
            results, f"{letter} of {whose}: mean transfer time over that of the same connections in the baseline "
                     "(below 1: faster)",
            [*(Column(camps.RATIO, scope, label) for scope, label in scopes),
             Column(camps.IN_ONE, scopes[0][0], "finished in one run only")])
    return [*found["ratios"], *found["times"]]


def _fairness(results: Results) -> list[Columns]:
    """Fairness among few long flows (the bin width is part of its definition), and how losses are shared."""
    scope = next(iter(results.scopes("jains_index")), None)
    if scope is None:
        return []
    return [*_known(results, f"Long flows, bins of {scope.removeprefix('bin_').replace('_', ' ')}",
                    [Column(metric, scope, label) for metric, label in FAIRNESS_METRICS]),
            *(table for link in results.scopes("loss_episodes")
              for table in _known(results, f"Loss episodes, {style.direction(link)}", _episode_columns(results, link)))]


def _episode_columns(results: Results, link: str) -> list[Column]:
    columns = [Column("loss_episodes", link, "episodes"), Column("loss_episodes_shared", link, "in all flows")]
    for scope in results.scopes("reductions_per_loss_episode")[:MOST_FLOWS]:
        flow = scope.replace("_", " ")
        columns += [Column("reductions_per_loss_episode", scope, f"{flow}, reductions per episode"),
                    Column("reduction_factor", scope, f"{flow}, reduced to")]
    return columns


def _flows(results: Results) -> list[Columns]:
    """Throughput per flow with the ratio of short to long RTTs, congestion controls side by side, UDP flows."""
    return [*_known(results, "Throughput of long flows", _flow_columns(results)),
            *_known(results, "Congestion controls side by side, mean per flow", _cca_columns(results)),
            *_known(results, "Congestion controls side by side, connections", _mixed_columns(results)),
            *_known(results, "UDP flows", _udp_columns(results)),
            *_ramp_up(results),
            *_known(results, "Around the step of the cross traffic", [
                Column(metric, scope, label) for metric, label in TRANSIENT_METRICS
                for scope in results.scopes(metric)]),
            *_known(results, "What arrived, layer 2", [
                Column("arrived_rate_l2", scope, scope.replace("_", " "))
                for scope in results.scopes("arrived_rate_l2")[:MOST_FLOWS]]),
            *_known(results, "Repair of the chosen losses", [
                Column(metric, scope, label) for scope in results.scopes("segments_sent_again")
                for metric, label in RECOVERY_METRICS])]


def _ramp_up(results: Results) -> list[Columns]:
    """A table for each flow: a column for each number of bytes that some run reached."""
    labels, sizes_of = _flow_labels(results.experiment), dict[int, list[int]]()
    for scope in results.scopes("ramp_up_time"):
        flow, size = re.findall(r"\d+", scope)
        if any(math.isfinite(value) for row in results.experiment.rows
               for value in results.sample(row, "ramp_up_time", scope)):
            sizes_of.setdefault(int(flow), []).append(int(size))
    return [table for flow, found in sorted(sizes_of.items())
            for table in _known(results, f"Ramp-up: time to so many bytes, flow {flow}{labels.get(flow, '')}", [
                Column("ramp_up_time", f"flow_{flow}/bytes_{size}", style.size(size)) for size in sorted(found)])]


def _flow_columns(results: Results) -> list[Column]:
    """Each flow, if there are few, and what compares them."""
    labels = _flow_labels(results.experiment)
    scopes = [scope for scope in results.scopes("mean_throughput_l4") if scope.startswith("flow_")]
    scopes.sort(key=lambda scope: int(scope.removeprefix("flow_")))
    columns = []
    if 1 <= len(scopes) <= MOST_FLOWS:
        for scope in scopes:
            words = labels.get(int(scope.removeprefix("flow_")), "")
            columns.append(Column("mean_throughput_l4", scope, scope.replace("_", " ") + words))
    columns += [Column("flow_loss", scope, f"{scope.replace('_', ' ')}, packets lost")
                for scope in results.scopes("flow_loss")]
    marked = [scope for scope in results.scopes("ce_mark_rate") if scope.startswith("flow_")]
    if len(marked) <= MOST_FLOWS:
        columns += [Column("ce_mark_rate", scope, f"{scope.replace('_', ' ')}, CE marks")
                    for scope in sorted(marked, key=lambda scope: int(scope.removeprefix("flow_")))]
    for scope in results.scopes("throughput_ratio_short_long"):
        match = re.fullmatch(r"rtt_(.+)_to_(.+)_ms", scope)
        if match:
            columns.append(Column("throughput_ratio_short_long", scope, f"ratio {match[1]} ms : {match[2]} ms"))
    columns += [Column("throughput_ratio_joined_first", scope, "ratio joined : first")
                for scope in results.scopes("throughput_ratio_joined_first")]
    return columns


def _flow_labels(experiment: Experiment) -> dict[int, str]:
    """What tells the flows apart: base RTTs, else hosts; where that is the same in all rows that have the flow."""
    found: dict[int, set[str]] = {}
    for row in experiment.rows:
        for run in experiment.usable(row)[:1]:
            for flow, label in _run_labels(run).items():
                found.setdefault(flow, set()).add(label)
    return {flow: labels.pop() for flow, labels in found.items() if len(labels) == 1}


def _run_labels(run: Run) -> dict[int, str]:
    flows = tcp.listed_flows(run)
    rtts_us = {flow["flow"]: flow.get("base_rtt_us") for flow in flows}
    if len(flows) == 1 or len(set(rtts_us.values())) > 1:
        return {flow: f", {rtt_us / 1e3:g} ms" for flow, rtt_us in rtts_us.items() if rtt_us}
    return {flow["flow"]: f", {flow['sender']} to {flow['receiver']}" for flow in flows}


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
            for scope in results.scopes("udp_received_rate")[:MOST_FLOWS // 2]
            for metric, label in (("udp_received_rate", "received"), ("udp_loss", "lost"))]


def _slowdown(results: Results) -> list[Columns]:
    """Completion times over those on the idle network, where there are companion runs."""
    return _known(results, "Slowdown", [
        Column(slowdown.COUNT, "all", "connections"),
        *(Column(f"{slowdown.NAME}_p{percent}", "all", label)
          for percent, label in ((50, "median"), (95, "p95"), (99, "p99")))])


def _sizes(results: Results) -> list[Columns]:
    """Flow completion times and, per direction, ADU response times: a column for each size class."""
    run = next(iter(results.experiment.usable_runs), None)
    wanted = [("Flow completion time, median", "flow_completion_time_p50", ""),
              ("Flow completion time, mean", "flow_completion_time_mean", ""),
              ("Slowdown, median", f"{slowdown.NAME}_p50", "")]
    wanted += [(f"ADU response time, {style.direction(name)}, median", "adu_response_time_p50", name)
               for name in (load_directions(run) if run else [])]
    found = []
    for title, metric, prefix in wanted:
        scopes = sorted((bounds[1], bounds[2], scope) for scope in results.scopes(metric)
                        if (bounds := sizes.bounds(scope)) and bounds[0] == prefix)
        found += _known(results, title, [Column(metric, scope, f"{style.size(low)} to {style.size(high)}")
                                         for low, high, scope in scopes])
    return found
