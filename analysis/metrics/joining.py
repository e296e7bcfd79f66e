# SPDX-License-Identifier: GPL-2.0-only
"""Two long flows of which one joins the other: throughput of the one that joined over that of the first."""

from __future__ import annotations

from analysis import tcp
from analysis.metrics import Metric
from analysis.runs import Run

UNITS = {"throughput_ratio_joined_first": "1"}
RATIOS = {"throughput_ratio_joined_first"}


def compute(run: Run) -> list[Metric]:
    """Acknowledged payload in the measurement interval, of two flows of components of their own that are there in all
    of it; nothing where one of them got nothing through.
    """
    start_us, end_us = run.interval
    listed = sorted(tcp.listed_flows(run), key=lambda flow: flow["start_us"] or 0)
    if (len(listed) != 2 or listed[0]["component"] == listed[1]["component"]
            or (listed[0]["start_us"] or 0) == (listed[1]["start_us"] or 0)
            or any((flow["start_us"] or 0) > start_us or (flow["stop_us"] or end_us) < end_us for flow in listed)):
        return []
    found = tcp.measured(run, single=True)
    if found is None:
        return []
    samples, steps = found
    acked = steps["bytes_acked"].groupby(tcp.flow_numbers(run, samples)).sum()
    first, joined = (float(acked.get(flow["flow"], 0.0)) for flow in listed)
    if first <= 0 or joined <= 0:
        return []
    return [Metric("throughput_ratio_joined_first", f"flow_{listed[1]['flow']}_to_flow_{listed[0]['flow']}", "1",
                   joined / first)]
