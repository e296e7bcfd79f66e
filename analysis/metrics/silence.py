# SPDX-License-Identifier: GPL-2.0-only
"""The longest time in which nothing of a flow was acknowledged."""

from __future__ import annotations

import numpy as np

from analysis.metrics import Metric
from analysis.read import tcp
from analysis.read.runs import Array, Run

UNITS = {"longest_silence": "s"}
BETTER = {"longest_silence": "lower"}
WINDOWED = {"longest_silence"}


def compute(run: Run) -> list[Metric]:
    """Of each listed flow, in the part of the measurement interval in which it was there, and of all of them.

    From a sample of tcp_info to the last one that says the same of its acknowledged bytes: too short by two sampling
    intervals at most, and 0 if they grow from each sample to the next.
    """
    flows = {flow.flow: flow for flow in tcp.listed_flows(run)}
    samples = tcp.flow_samples(run) if flows else None
    if samples is None or samples.empty:
        return []
    each_us = tcp.sampled_each_us(run, samples)
    samples = samples.sort_values("t_us", kind="stable")
    found = []
    for number, mine in samples.groupby(tcp.flow_numbers(run, samples)):
        if number:
            times_us, acked = mine["t_us"].to_numpy(), mine["bytes_acked"].fillna(0).to_numpy()
            from_us, to_us = tcp.lived(run, flows[int(number)], float(times_us[-1]), each_us)
            if to_us > from_us:
                found.append(Metric("longest_silence", f"flow_{number}", "s",
                                    longest_us(times_us, acked, from_us, to_us) / 1e6))
    return [*found, Metric("longest_silence", "all", "s", max(one.value for one in found))] if found else []


def longest_us(times_us: Array, acked: Array, from_us: float, to_us: float) -> float:
    """The longest time in [from, to) over which a counter stays the same from sample to sample."""
    grew = np.flatnonzero(np.diff(acked) > 0) + 1
    begins = np.concatenate([times_us[:1], times_us[grew]])         # what the counter says begins to hold here
    ends = np.concatenate([times_us[grew - 1], times_us[-1:]])
    return float(np.max(np.clip(np.minimum(ends, to_us) - np.maximum(begins, from_us), 0, None)))


def resolution(run: Run) -> dict[str, float]:
    """A sampling interval at either end."""
    return {"longest_silence": 2 * tcp.asked_each_us(run) / 1e6}
