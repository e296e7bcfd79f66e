# SPDX-License-Identifier: GPL-2.0-only
"""Metrics of single long flows and their fairness, from tcp_info.

Only for runs of few flows: the metrics of 10^5 short connections say little
one by one, and have their distributions by size instead.  Names and
definitions follow the flow metrics of CCPerf where they exist there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.flows import fairness
from analysis.metrics import Metric, Shown
from analysis.read import tcp
from analysis.read.runs import Array, Run
from traffic.workload.records import Flow

UNITS = {
    "mean_throughput_l4": "Mbit/s", "mean_delivery_rate_l4": "Mbit/s", "mean_sending_rate_l4": "Mbit/s",
    "total_retransmissions_l4": "segments", "mean_cwnd_l4": "segments", "mean_srtt_l4": "ms", "mean_est_qdelay_l4":
    "ms", "mean_agg_throughput_l4": "Mbit/s", "jains_index": "1", "entropy_of_shares": "bit"}
BETTER = {"jains_index": "higher"}
WINDOWED = {"mean_throughput_l4", "mean_delivery_rate_l4", "mean_sending_rate_l4", "total_retransmissions_l4",
            "mean_cwnd_l4", "mean_srtt_l4", "mean_agg_throughput_l4", "jains_index", "entropy_of_shares"}
MARGINS = {"jains_index": fairness.JAIN_MARGIN, "entropy_of_shares": fairness.ENTROPY_MARGIN_BIT}
MOST = {"jains_index": 1.0}
SHOWN = [Shown("flows", "mean_throughput_l4", "", 10), Shown("ccas", "mean_throughput_l4", "", 10),
         Shown("fairness", "jains_index", "Jain's fairness index", 10),
         Shown("fairness", "entropy_of_shares", "entropy of the shares", 20),
         Shown("flow_layers", "mean_throughput_l4", "throughput, layer 4", 10, best=1),
         Shown("flow_layers", "mean_sending_rate_l4", "sending rate, layer 4", 30, best=1),
         Shown("flow_layers", "mean_cwnd_l4", "congestion window", 70),
         Shown("flow_layers", "mean_srtt_l4", "sRTT", 100, best=-1),
         Shown("flow_layers", "mean_est_qdelay_l4", "estimated queueing delay", 110, best=-1),
         Shown("flow_layers", "total_retransmissions_l4", "retransmissions", 200, best=-1),
         Shown("network_layers", "mean_agg_throughput_l4", "throughput, all flows", 10, best=1)]
SECOND_US = 1_000_000


class Got(NamedTuple):
    """Throughput of a flow, Mbit/s: over the time that it was there, and over the whole measurement interval."""

    of_life: float
    of_run: float


def compute(run: Run) -> list[Metric]:
    """Per flow as long as it is there within the measurement interval; of all flows, over the whole of it."""
    listed = {flow.flow: flow for flow in tcp.listed_flows(run)}
    found = tcp.measured(run, single=True) if listed else None
    if found is None:
        return []
    samples, steps = found
    number = tcp.flow_numbers(run, samples)
    flows = [int(flow) for flow in np.unique(number) if flow]
    if not flows:
        return []
    metrics: list[Metric] = []
    throughputs: dict[int, Got] = {}
    each_us = tcp.sampled_each_us(run, samples)
    for flow in flows:
        mine = number == flow
        window_us = tcp.lived(run, listed[flow], float(samples["t_us"][mine].iloc[-1]), each_us)
        if window_us[1] <= window_us[0]:
            continue
        of_flow = _flow(f"flow_{flow}", samples[mine], steps[mine], listed[flow], window_us)
        throughputs[flow] = Got(of_flow[0].value, steps["bytes_acked"][mine].sum() * 8 / 1e6 / run.interval.seconds)
        metrics += of_flow
    metrics.append(Metric("mean_agg_throughput_l4", "all", "Mbit/s", sum(got.of_run for got in throughputs.values())))
    metrics += _by_cca(throughputs, {
        flow: tcp.variant_of(listed[flow]) or str(samples["cca"][number == flow].iloc[-1])
        for flow in throughputs})
    if len(flows) > 1:
        metrics += _fairness(run, samples, steps, number, flows)
    return metrics


def _by_cca(throughputs: dict[int, Got], cca_of: dict[int, str]) -> list[Metric]:
    """Mean per flow, and sum, of the flows of each CCA or variant; nothing if all use the same."""
    metrics = []
    for cca in sorted(set(cca_of.values())) if len(set(cca_of.values())) > 1 else ():
        mine = [got for flow, got in throughputs.items() if cca_of[flow] == cca]
        metrics += [Metric("mean_throughput_l4", f"cca_{cca}", "Mbit/s", sum(got.of_life for got in mine) / len(mine)),
                    Metric("mean_agg_throughput_l4", f"cca_{cca}", "Mbit/s", sum(got.of_run for got in mine))]
    return metrics


def _flow(scope: str, samples: pd.DataFrame, steps: pd.DataFrame, flow: Flow,
          life_us: tuple[float, float]) -> list[Metric]:
    """Throughput first."""
    end_us = life_us[1]
    times = samples["t_us"].to_numpy()
    base_us = flow.base_rtt_us
    window_us = end_us - life_us[0]
    throughput = steps["bytes_acked"].sum() * 8 / window_us
    holds = np.diff(np.append(np.minimum(times, end_us), end_us)).astype(float)
    holds = holds if holds.sum() > 0 else np.ones(len(times))
    metrics = [
        Metric("mean_throughput_l4", scope, "Mbit/s", throughput),
        Metric("mean_delivery_rate_l4", scope, "Mbit/s", throughput),
        Metric("mean_sending_rate_l4", scope, "Mbit/s", steps["bytes_sent"].sum() * 8 / window_us),
        Metric("total_retransmissions_l4", scope, "segments",
               float(steps["total_retrans"].sum()))]
    # an engine may know a flow's bytes but not its window
    if samples["cwnd"].notna().all():
        metrics.append(Metric("mean_cwnd_l4", scope, "segments",
                              float(np.average(samples["cwnd"], weights=holds))))
    # before the first acknowledgement there is none, and the last sample may hold for no time
    timed = (samples["srtt_us"] > 0).to_numpy() & (holds > 0)
    if timed.any():
        srtt_ms = float(np.average(samples["srtt_us"][timed], weights=holds[timed])) / 1e3
        metrics.append(Metric("mean_srtt_l4", scope, "ms", srtt_ms))
        if base_us is not None:
            metrics.append(Metric("mean_est_qdelay_l4", scope, "ms", srtt_ms - base_us / 1e3))
    return metrics


def _fairness(run: Run, samples: pd.DataFrame, steps: pd.DataFrame, number: Array,
              flows: list[int]) -> list[Metric]:
    """Jain's index and entropy of the throughputs per bin, averaged over the bins.

    A bin has the flows that are under way in it, also those that get nothing through: to leave these out would
    call a link fair that one flow has for itself. Bins in which nothing gets through are left out.
    """
    start_us, end_us = run.interval
    sampled_us = tcp.sampled_each_us(run, samples)
    if math.isinf(sampled_us):
        return []
    # shorter ones would tell whose acknowledgements come in bursts
    bin_us = SECOND_US * max(1, math.ceil(sampled_us / SECOND_US - 1e-6))
    edges = np.arange(start_us, end_us + 1, bin_us)
    through = np.zeros((len(edges) - 1, len(flows)))
    under_way = np.zeros(through.shape, dtype=bool)
    for place, flow in enumerate(flows):
        mine = number == flow
        times = np.clip(np.append(steps["since_us"][mine].iloc[0], samples["t_us"][mine]), start_us, end_us)
        acked = np.append(0, steps["bytes_acked"][mine].cumsum())
        through[:, place] = np.diff(np.interp(edges, times, acked))
        under_way[:, place] = (times[0] < edges[1:]) & (times[-1] > edges[:-1])
    # what a flow's first sample found acknowledged, at an edge, belongs to no bin in which the flow is
    through = np.where(under_way, through, 0.0)
    used = through.sum(axis=1) > 0
    through, under_way = through[used], under_way[used]
    if not len(through):
        return []
    share = through / through.sum(axis=1, keepdims=True)
    jain = 1 / (under_way.sum(axis=1) * (share ** 2).sum(axis=1))
    logs = np.log2(share, out=np.zeros_like(share), where=share > 0)
    scope = f"bin_{bin_us / 1e3:g}_ms"
    return [Metric("jains_index", scope, "1", float(jain.mean())),
            Metric("entropy_of_shares", scope, "bit",
                   float(-(share * logs).sum(axis=1).mean()))]
