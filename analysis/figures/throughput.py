# SPDX-License-Identifier: GPL-2.0-only
"""Throughput of the bottleneck over time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from analysis.drawing import timeseries
from analysis.figures import Figure
from analysis.read import series
from analysis.read.experiment import Experiment
from analysis.read.runs import Array, Run
from topologies.links import varying

ORDER = 20
OVERVIEW = 30


def _values(run: Run, link: str, edges: Array) -> Array | None:
    samples = series.queue_samples(run, link)
    if samples is None:
        return None
    values = series.throughput_mbps(samples, edges)
    last_us = samples["t_us"].iloc[-1] + series.sampling_us(samples)
    values[edges[1:] > last_us] = np.nan
    return values


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    first = next(iter(experiment.usable_runs[0].bottlenecks.values()), None)
    if first is None:                           # a network of radios only
        return []
    rate = None if varying.varies(first, "rate_bps") or first.opportunities else first.rate_bps / 1e6
    drawn = timeseries.draw(experiment, folder, "throughput", "throughput (Mbit/s)",
                            _values, level=rate)
    if drawn is None:
        return []
    line = f"The dashed line, where there is one, is the link rate ({rate:g} Mbit/s)." if rate else \
        "The link's rate changes."
    return [Figure("throughput", "Throughput over time",
                   f"Throughput of the bottleneck link at layer 2. {timeseries.legend(experiment, *drawn)} {line}")]
