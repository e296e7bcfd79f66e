# SPDX-License-Identifier: GPL-2.0-only
"""Queueing delay of each bottleneck link: per packet, and from the backlog."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.metrics import Metric, Shown
from analysis.read import series
from analysis.read.runs import AnalysisError, Run

UNITS = {
    "queueing_delay_mean": "ms", "queueing_delay_backlog_mean": "ms", "queueing_delay_sd": "ms",
    "queueing_delay_p50": "ms", "queueing_delay_p95": "ms", "queueing_delay_p99": "ms"}
BETTER = {
    "queueing_delay_mean": "lower", "queueing_delay_p50": "lower", "queueing_delay_p95": "lower",
    "queueing_delay_p99": "lower"}
OF_ANY_SENDER = {"queueing_delay_mean": ""}
WINDOWED = {"queueing_delay_mean", "queueing_delay_backlog_mean", "queueing_delay_sd"}
SHOWN = [Shown("links", "queueing_delay_mean", "queueing delay, mean", 40),
         Shown("links", "queueing_delay_p95", "queueing delay, p95", 50)]
PERCENTILES = (50, 95, 99)


def histogram_percentiles(histogram: pd.DataFrame, percents: Sequence[float]) -> list[float]:
    """Percentiles of a sojourn histogram, us, packets spread evenly in their bin.

    The error is at most the width of the bin.  An open last bin (no high_us,
    or infinite) counts as its lower edge.
    """
    rows = histogram.sort_values("low_us")
    low = rows["low_us"].to_numpy()
    high = rows["high_us"].to_numpy()
    high = np.where(np.isfinite(high), high, low)
    packets = rows["packets"].to_numpy()
    cumulative = np.cumsum(packets)
    wanted = np.array(percents) / 100 * cumulative[-1]
    index = np.searchsorted(cumulative, wanted)
    below = cumulative[index] - packets[index]
    found: list[float] = (low[index] + (wanted - below) / packets[index] * (high[index] - low[index])).tolist()
    return found


def compute(run: Run) -> list[Metric]:
    """queueing_delay_mean is per packet where sojourn was recorded, else from backlog."""
    found = []
    start, end = run.interval
    for link in run.bottlenecks:
        samples = series.queue_samples(run, link)
        edges = None if samples is None else series.metric_edges(run, samples)
        rows = series.sojourn_samples(run, link)
        backlog = series.queueing_delay_backlog_mean(run, link)
        if rows is not None:
            inside = rows[(rows["t_us"] >= start) & (rows["t_us"] < end)]
            if not inside.empty:
                mean = float(np.average(inside["mean_us"], weights=inside["packets"])) / 1e3
                found.append(Metric("queueing_delay_mean", link, "ms", mean))
            elif samples is None or np.ptp(samples["sent_packets"][samples["t_us"].between(start, end - 1)]):
                raise AnalysisError(f"{run.path / 'raw/sojourn.csv.gz'}: no packet of {link} "
                                    "in the measurement interval")
        elif backlog is not None:
            found.append(Metric("queueing_delay_mean", link, "ms", backlog))
        if backlog is not None:
            found.append(Metric("queueing_delay_backlog_mean", link, "ms", backlog))
        if edges is not None and len(edges) > 2:
            bins = series.queueing_delay_ms(run, link, edges)
            bins = bins[np.isfinite(bins)] if bins is not None else ()
            if len(bins) > 1:
                found.append(Metric("queueing_delay_sd", link, "ms", float(np.std(bins, ddof=1))))
        found += _percentiles(run, link)
    return found


def _percentiles(run: Run, link: str) -> list[Metric]:
    histogram = run.frame("sojourn_hist")
    if histogram is None:
        return []
    rows = histogram[(histogram["link"] == link) & (histogram["packets"] > 0)]
    if rows.empty:
        return []
    return [Metric(f"queueing_delay_p{percent}", link, "ms", value / 1e3)
            for percent, value in zip(PERCENTILES, histogram_percentiles(rows, PERCENTILES))]
