# SPDX-License-Identifier: GPL-2.0-only
"""How erratic one flow or two are, and their bottleneck's losses: over bins of 0.25 s."""

from __future__ import annotations

import numpy as np

from analysis.flows import flow_means, quarters
from analysis.metrics import Metric
from analysis.read import tcp
from analysis.read.runs import Run

UNITS = {"throughput_cov_250ms": "1", "drop_rate_max_250ms": "%"}


def compute(run: Run) -> list[Metric]:
    """Of runs with UDP traffic beside one TCP flow or two, of a minute at most."""
    listed = tcp.listed_flows(run)
    if (not 1 <= len(listed) <= quarters.MOST_FLOWS or run.interval.end_us > quarters.LONGEST_US
            or not any(flow.transport == "udp" for flow in run.flows)):
        return []
    edges = quarters.edges(run, quarters.BIN_US, run.interval.start_us)
    flows = quarters.flows(run, edges)
    found = [Metric("throughput_cov_250ms", f"flow_{number}", "1", value) for number, flow in sorted(flows.items())
             if np.isfinite(value := flow_means.variation(flow.rates_mbps))]
    for link in run.targets if flows else ():
        drops = quarters.drop_percent(run, link, edges)
        if drops is not None and np.isfinite(drops).any():
            found.append(Metric("drop_rate_max_250ms", link, "%", float(np.nanmax(drops))))
    return found
