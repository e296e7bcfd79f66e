# SPDX-License-Identifier: GPL-2.0-only
"""Flows by layers: a table of metrics x flows for each subject, one of metrics of link and network x subjects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from analysis import stats
from analysis.drawing import style
from analysis.flows import flow_means
from analysis.pages import report_tables
from analysis.read.experiment import Row
from analysis.read.tables import Results

MOST_FLOWS = 12     # with a column each
#: metric, what heads its row, which is best: the highest (1), the lowest (-1), neither (0)
FLOW_ROWS = (
    ("mean_throughput_l4", "throughput, layer 4", 1), ("mean_throughput_l7", "throughput, layer 7", 1),
    ("mean_sending_rate_l4", "sending rate, layer 4", 1), ("mean_sending_rate_l7", "sending rate, layer 7", 1),
    ("cov_throughput_l4", "variation of throughput", -1), ("flow_completion_time_l4", "completion time", -1),
    ("mean_cwnd_l4", "congestion window", 0), ("mean_in_flight_l4", "in flight", 0),
    ("cov_in_flight_l4", "variation of in flight", -1), ("mean_srtt_l4", "sRTT", -1),
    ("mean_est_qdelay_l4", "estimated queueing delay", -1), ("mean_one_way_delay_l7", "one-way delay, layer 7", -1),
    ("mean_network_power_l4", "network power", 1), ("mean_utility_pf_l4", "utility pf", 1),
    ("mean_utility_mpdf_l4", "utility mpdf", 1), ("mean_utilization_bw_l4", "utilisation of rate", 1),
    ("mean_utilization_bdp_l4", "utilisation of BDP", 0), ("mean_recovery_time_l4", "recovery time", -1),
    ("mean_idt_ewma_l4", "inter-delivery time, EWMA", -1),
    ("total_retransmissions_l4", "retransmissions", -1), ("total_rtos_l4", "retransmission timeouts", -1),
)
LINK_ROWS = (
    ("mean_qdisc_delay_l2", "queueing delay, layer 2", -1), ("mean_qdisc_length_l2", "queue length, layer 2", -1),
    ("mean_sending_rate_l1", "sending rate, layer 1", 1), ("total_qdisc_drops_l2", "drops, layer 2", -1),
    ("utilisation", "utilisation, whole experiment", 1),
    ("utilisation_while_active", "utilisation, while flows last", 1),
)
NETWORK_ROWS = (
    ("mean_agg_throughput_l4", "throughput, sum of the flows' means", 1),
    ("mean_agg_utilization_bw_l4", "utilisation, sum of the flows' means (may pass 1)", 1),
    ("mean_agg_in_flight_l4", "in flight, sum of the flows' means", 0),
    ("mean_agg_utilization_bdp_l4", "utilisation of BDP, sum of the flows' means", 0),
    ("mean_agg_network_power_l4", "network power, sum", 1), ("mean_agg_utility_pf_l4", "utility pf, sum", 1),
    ("mean_agg_utility_mpdf_l4", "utility mpdf, sum", 1),
    ("mean_jains_fairness_throughput_l4", "Jain's fairness index", 1),
    ("mean_entropy_fairness_throughput_l4", "entropy of the shares", 1),
    ("mean_product_fairness_throughput_l4", "product of the throughputs", 1),
)


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
    together = [line for metrics, scopes in ((LINK_ROWS, links), (NETWORK_ROWS, ["all", *_bins(results)]))
                for metric, words, best in metrics for scope in scopes
                for line in _line(results, [(row, scope) for row in rows], metric,
                                  f"{words}, {style.direction(scope)}" if len(links) > 1 and metrics is LINK_ROWS
                                  else words, best)]
    if together:
        found.append(Grid("Link and network", [row.label for row in rows], together))
    for row in rows:
        lines = [line for metric, words, best in FLOW_ROWS
                 for line in _line(results, [(row, f"flow_{flow}") for flow in flows], metric, words, best)]
        if lines:
            found.append(Grid(f"Flows, {row.label}", [f"flow {flow}" for flow in flows], lines))
    return found


def bin_words() -> str:
    """The width of the bins, for the note."""
    return f"{flow_means.BIN_US / 1e3:g} ms"


def _bins(results: Results) -> list[str]:
    return results.scopes("mean_jains_fairness_throughput_l4")


def _line(results: Results, places: Sequence[tuple[Row, str]], metric: str, words: str, best: int) \
        -> list[tuple[str, str, list[Value | None]]]:
    """A row of a table, [] if nobody has the metric there."""
    samples = [results.sample(row, metric, scope) for row, scope in places]
    if not any(samples):
        return []
    unit = next(found for _, scope in places if (found := results.unit(metric, scope)) is not None)
    means = [stats.summarise(sample) if sample else None for sample in samples]
    known = [best * one.mean for one in means if one is not None]
    winner = max(known) if best and len(known) > 1 and min(known) < max(known) else None
    values: list[Value | None] = []
    for one in means:
        if one is None:
            values.append(None)
        else:
            values.append(Value(*report_tables.interval(one), best * one.mean == winner))
    return [(words, "" if unit == "1" else str(unit), values)]
