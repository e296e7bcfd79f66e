# SPDX-License-Identifier: GPL-2.0-only
"""How much the rate of a flow goes up and down."""

from __future__ import annotations

import numpy as np

from analysis.flows import flow_means, quarters
from analysis.metrics import Metric
from analysis.read import tcp
from analysis.read.runs import Run

UNITS = {"throughput_cov_1s": "1"}
WINDOWED = {"throughput_cov_1s"}
BIN_US = 1_000_000
#: a deviation of fewer values says little
LEAST_BINS = 5


def compute(run: Run) -> list[Metric]:
    """Standard deviation / mean of what is acknowledged in bins of 1 s, of each listed flow that is there in the whole
    measurement interval and is sampled twice in a bin at least."""
    start_us, end_us = run.interval
    there = {flow.flow for flow in tcp.listed_flows(run)
             if (flow.start_us or 0) <= start_us and (flow.stop_us or end_us) >= end_us and flow.bytes is None}
    edges = quarters.edges(run, BIN_US, start_us)
    if not there or len(edges) <= LEAST_BINS:
        return []
    return [Metric("throughput_cov_1s", f"flow_{number}", "1", value)
            for number, flow in sorted(quarters.flows(run, edges).items())
            if number in there and np.isfinite(value := flow_means.variation(flow.rates_mbps))]
