# SPDX-License-Identifier: GPL-2.0-only
"""How long a flow takes to its (1500 x 10^n)-th byte: draft-irtf-iccrg-tcpeval-01, section on ramp-up time."""

from __future__ import annotations

import math

from analysis.metrics import Metric, Shown
from analysis.read import tcp
from analysis.read.runs import Run
from topologies.links import varying
from traffic.workload.records import Flow

UNITS = {"ramp_up_time": "s"}
CENSORED = {"ramp_up_time"}
SHOWN = [Shown("ramp_up", "ramp_up_time", "Ramp-up: time to so many bytes", 10)]
FIRST_BYTES = 1500
#: runs of more flows are about something else
MOST_FLOWS = 4


def compute(run: Run) -> list[Metric]:
    """Of each listed flow that begins in the measurement interval, n = 0, 1, ... as far as its links' rates allow.

    From the flow's start to the first sample in which its receiver has so many bytes in order: too long by a sampling
    interval at most. Infinite where that is not reached until the flow stops.
    """
    flows = [flow for flow in tcp.listed_flows(run) if (flow.start_us or 0) >= run.interval.start_us]
    samples = tcp.flow_samples(run) if 1 <= len(flows) <= MOST_FLOWS else None
    if samples is None or samples.empty:
        return []
    numbers = tcp.flow_numbers(run, samples, "receiver")
    found = []
    for flow in flows:
        mine = samples[numbers == flow.flow].sort_values("t_us", kind="stable")
        if mine.empty:
            continue
        times_us, received = mine["t_us"].to_numpy(), mine["bytes_received"].to_numpy()
        for size in _sizes(run, flow):
            there = times_us[received >= size]
            seconds = (float(there[0]) - (flow.start_us or 0)) / 1e6 if len(there) else math.inf
            found.append(Metric("ramp_up_time", f"flow_{flow.flow}/bytes_{size}", "s", seconds))
    return found


def resolution(run: Run) -> dict[str, float]:
    """A sampling interval: that so much has arrived is seen in the next sample."""
    return dict.fromkeys(CENSORED, tcp.asked_each_us(run) / 1e6)


def _sizes(run: Run, flow: Flow) -> list[int]:
    """1500, 15000, ... up to what the slowest of the flow's links carries from its start to its stop."""
    start_us, end_us = flow.start_us or 0, min(flow.stop_us or run.interval.end_us, run.interval.end_us)
    rates_bps = [varying.mean_rate_bps(link, start_us, end_us) for name, link in run.bottlenecks.items()
                 if name in flow.hops]
    if not rates_bps:
        return []
    most = min(rates_bps) / 8e6 * (end_us - start_us)
    if flow.bytes is not None:
        most = min(most, flow.bytes)
    found = [FIRST_BYTES]
    while found[-1] * 10 <= most:
        found.append(found[-1] * 10)
    return found if found[0] <= most else []
