# SPDX-License-Identifier: GPL-2.0-only
"""CCPerf's metrics of links, of runs of few flows; and the share of the link that was really used."""

from __future__ import annotations

import numpy as np

from analysis.flows import flow_curves
from analysis.metrics import Metric, Shown
from analysis.read import series
from analysis.read.runs import Run
from topologies.links import varying

UNITS = {
    "mean_qdisc_delay_l2": "ms", "mean_qdisc_length_l2": "packets", "mean_sending_rate_l1": "Mbit/s",
    "total_qdisc_drops_l2": "packets", "utilisation_while_active": "%"}
MOST = {"utilisation_while_active": 100.0}
SHOWN = [Shown("link_layers", "mean_qdisc_delay_l2", "queueing delay, layer 2", 10, best=-1),
         Shown("link_layers", "mean_qdisc_length_l2", "queue length, layer 2", 20, best=-1),
         Shown("link_layers", "mean_sending_rate_l1", "sending rate, layer 1", 30, best=1),
         Shown("link_layers", "total_qdisc_drops_l2", "drops, layer 2", 40, best=-1),
         Shown("link_layers", "utilisation_while_active", "utilisation, while flows last", 60, best=1)]


def compute(run: Run) -> list[Metric]:
    """Of each bottleneck that the flows cross, over the measurement interval."""
    curves = flow_curves.of_run(run)
    if not curves:
        return []
    found = []
    for link in run.targets:
        samples = series.queue_samples(run, link)
        delay = series.queueing_delay_backlog_mean(run, link)
        if samples is None or delay is None:
            return []
        edges = np.array(series.covered(run, link, samples))
        inside = series.held_or_sampled(run, link, *edges)
        assert inside is not None
        found += [
            Metric("mean_qdisc_delay_l2", link, "ms", delay),
            Metric("mean_qdisc_length_l2", link, "packets",
                   float(np.average(inside[0]["backlog_packets"], weights=inside[1]))),
            Metric("mean_sending_rate_l1", link, "Mbit/s", float(series.throughput_mbps(samples, edges)[0])),
            Metric("total_qdisc_drops_l2", link, "packets",
                   float(np.diff(series.counter_at(samples, "drops", edges))[0]))]
        active = np.clip([min(one.start_us for one in curves),
                          max(one.gone_us or one.end_us for one in curves)], *edges)
        rate_bps = varying.mean_rate_bps(run.bottlenecks[link], *active)
        if active[1] > active[0] and rate_bps:
            used = 1e6 * float(series.throughput_mbps(samples, active)[0]) / rate_bps
            found.append(Metric("utilisation_while_active", link, "%", 100 * used))
    return found
