# SPDX-License-Identifier: GPL-2.0-only
"""Series over time by their names: of single TCP flows (cwnd, rtt, throughput) and of bottlenecks (queueing_delay)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.read import series, tcp
from analysis.read.runs import AnalysisError, Array, Run
from testbed.core import guesses
from testbed.core.errors import UsageError

#: of bins, where samples are not further apart
STEP_S = 0.2
#: of struct tcp_info: no threshold yet
_NO_THRESHOLD = 0x7FFFFFFF


class Sampled(NamedTuple):
    """A series with a value for each sample: its column of a raw table, divided by `divisor`."""

    column: str
    divisor: float
    unit: str
    what: str


#: of the sender's socket of each flow
OF_FLOWS = {
    "cwnd": Sampled("cwnd", 1, "segments", "congestion window"),
    "ssthresh": Sampled("ssthresh", 1, "segments", "slow-start threshold, empty until it is first set"),
    "rtt": Sampled("srtt_us", 1e3, "ms", "smoothed round-trip time"),
    "pacing_rate": Sampled("pacing_rate_bps", 1e6, "Mbit/s", "rate at which the socket may send"),
    "delivery_rate": Sampled("delivery_rate_bps", 1e6, "Mbit/s", "latest rate at which data arrived"),
}
#: of each bottleneck
OF_LINKS = {
    "backlog_packets": Sampled("backlog_packets", 1, "packets", "packets in the queue"),
    "backlog_bytes": Sampled("backlog_bytes", 1, "bytes", "bytes in the queue"),
}
#: {name: (unit, what)} of the series in bins; the first is of flows, the others of bottlenecks
BINNED = {
    "throughput": ("Mbit/s", "what a flow had acknowledged, in bins"),
    "link_throughput": ("Mbit/s", "what a bottleneck sent, with headers, in bins"),
    "queueing_delay": ("ms", "mean wait in the queue of a bottleneck, in bins"),
    "drops": ("packets", "packets that a bottleneck dropped, in bins"),
}
#: as files of flent call them
_ALIASES = {"tcp_cwnd": "cwnd", "tcp_rtt": "rtt", "tcp_pacing_rate": "pacing_rate",
            "tcp_delivery_rate": "delivery_rate", "backlog_pkts": "backlog_packets", "delay": "queueing_delay",
            "dropped": "drops"}


def names() -> dict[str, str]:
    """{name of a series: what it is, with its unit}"""
    sampled = {name: f"{one.what} ({one.unit})" for name, one in {**OF_FLOWS, **OF_LINKS}.items()}
    return {**sampled, **{name: f"{what} ({unit})" for name, (unit, what) in BINNED.items()}}


def of(run: Run, name: str) -> pd.DataFrame:
    """A series: rows by time in seconds (`time_s`), a column for each flow or link; attrs: name and unit.

    UsageError for an unknown name; AnalysisError if the run has no such samples.
    """
    known = _ALIASES.get(name, name)
    if known in OF_FLOWS:
        found, unit = _of_flows(run, OF_FLOWS[known]), OF_FLOWS[known].unit
    elif known in OF_LINKS:
        found, unit = _of_links(run, OF_LINKS[known]), OF_LINKS[known].unit
    elif known in BINNED:
        found, unit = _binned(run, known), BINNED[known][0]
    else:
        raise UsageError(f"no series {name!r}; {guesses.alternatives(name, names())}")
    found.index.name = "time_s"
    found.attrs.update(name=known, unit=unit)
    return found


def sampled(rows: pd.DataFrame, what: Sampled) -> pd.Series:
    """The values of samples, in the series' unit; 0 of a time, and a threshold that is not set, are no values."""
    values = rows[what.column]
    if what.column == "srtt_us":
        values = values.replace(0, np.nan)
    elif what.column == "ssthresh":
        values = values.where(values < _NO_THRESHOLD)
    return values if what.divisor == 1 else values / what.divisor


def of_each_flow(run: Run, *columns: str) -> dict[int, pd.DataFrame]:
    """{number of a flow: its sender's samples by time} of the run's single TCP flows; columns: as of Run.frame."""
    samples = tcp.flow_samples(run, *columns)
    if samples is None or samples.empty or not tcp.listed_flows(run):
        return {}
    samples = samples.sort_values("t_us", kind="stable")
    return {int(number): rows for number, rows in samples.groupby(tcp.flow_numbers(run, samples)) if number}


def edges_us(run: Run) -> Array:
    """Of bins of STEP_S, or of the sampling interval where that is longer, from the beginning to the end."""
    samples, queue = tcp.flow_samples(run), run.frame("queue")
    apart = [] if queue is None else [float(np.median(np.diff(times))) for times in [np.unique(queue["t_us"])]
                                      if len(times) > 2]
    if samples is not None and samples["t_us"].nunique() > 2:
        apart.append(tcp.sampled_each_us(run, samples))
    step_us = max([STEP_S * 1e6, *apart])
    end_us = run.interval.end_us
    if end_us < step_us:
        raise AnalysisError(f"{run.path}: shorter than a step of {step_us / 1e6:g} s")
    return np.arange(int(end_us // step_us) + 1) * step_us


def acked_mbps(rows: pd.DataFrame, start_us: float, edges: Array) -> Array:
    """What a flow had acknowledged in each bin, Mbit/s; NaN in bins without samples around them."""
    times = np.append(start_us, rows["t_us"].to_numpy(dtype=float))
    acked = np.append(0, np.nan_to_num(rows["bytes_acked"].to_numpy(dtype=float)))
    mbps = np.diff(np.interp(edges, times, np.maximum.accumulate(acked))) * 8 / np.diff(edges)
    return np.where((edges[1:] > times[0]) & (edges[:-1] < times[-1]), mbps, np.nan)


def _labels(run: Run) -> dict[int, str]:
    """{number of a flow: 'n4->n1 cubic'}, with the number in front where several are called the same."""
    flows = tcp.listed_flows(run)
    plain = [f"{flow.sender}->{flow.receiver} {tcp.variant_of(flow)}".strip() for flow in flows]
    return {flow.flow: text if plain.count(text) == 1 else f"{flow.flow}: {text}"
            for flow, text in zip(flows, plain)}


def _of_flows(run: Run, what: Sampled) -> pd.DataFrame:
    found = of_each_flow(run, "ssthresh", "pacing_rate_bps", "delivery_rate_bps")
    if not found:
        raise AnalysisError(_no_flows(run))
    labels = _labels(run)
    # samples of one instant are the last word on it
    columns = {labels[number]: sampled(rows, what).groupby((rows["t_us"] / 1e6).to_numpy()).last()
               for number, rows in found.items()}
    return pd.DataFrame(columns)


def _no_flows(run: Run) -> str:
    return (f"{run.name}: no samples of single TCP flows (many connections, or no probe tcp_info); "
            f"series of links are: {', '.join([*OF_LINKS, *list(BINNED)[1:]])}")


def _of_links(run: Run, what: Sampled) -> pd.DataFrame:
    columns = {}
    for link in run.bottlenecks:
        rows = series.queue_samples(run, link)
        if rows is not None:
            columns[link] = pd.Series(sampled(rows, what).to_numpy(), rows["t_us"].to_numpy() / 1e6)
    return pd.DataFrame(_there(run, columns))


def _there(run: Run, columns: dict[str, pd.Series]) -> dict[str, pd.Series]:
    if not columns:
        raise AnalysisError(f"{run.name}: no samples of a bottleneck's queue (probe queue)")
    return columns


def _binned(run: Run, name: str) -> pd.DataFrame:
    edges = edges_us(run)
    ends_s = edges[1:] / 1e6
    if name == "throughput":
        found, labels = of_each_flow(run), _labels(run)
        if not found:
            raise AnalysisError(_no_flows(run))
        starts = {flow.flow: float(flow.start_us or 0) for flow in tcp.listed_flows(run)}
        return pd.DataFrame({labels[number]: acked_mbps(rows, starts[number], edges)
                             for number, rows in found.items()}, index=ends_s)
    columns = {}
    for link in run.bottlenecks:
        values = series.queueing_delay_ms(run, link, edges) if name == "queueing_delay" else None
        if name != "queueing_delay" and (rows := series.queue_samples(run, link)) is not None:
            values = series.throughput_mbps(rows, edges) if name == "link_throughput" else \
                np.diff(series.counter_at(rows, "drops", edges))
        if values is not None:
            columns[link] = pd.Series(values, ends_s)
    return pd.DataFrame(_there(run, columns))
