# SPDX-License-Identifier: GPL-2.0-only
"""How a bottleneck is shared by flows of different round-trip times, from tcp_info."""

from __future__ import annotations

import numpy as np

from analysis.metrics import Metric, Shown
from analysis.read import tcp
from analysis.read.runs import Run

UNITS = {"throughput_ratio_short_long": "1"}
RATIOS = {"throughput_ratio_short_long"}
SHOWN = [Shown("flow_ratios", "throughput_ratio_short_long", "ratio", 10)]


def compute(run: Run) -> list[Metric]:
    """Throughput of the flows with the smallest base RTT over that of those with the largest.

    Acknowledged payload in the measurement interval, mean per flow; nothing where the
    flows have all the same RTT or one side got nothing through.
    """
    rtts_us = {flow.flow: flow.base_rtt_us or 0 for flow in tcp.listed_flows(run)}
    if not rtts_us or 0 in rtts_us.values():
        return []
    short_us, long_us = min(rtts_us.values()), max(rtts_us.values())
    found = tcp.measured(run, single=True) if short_us < long_us else None
    if found is None:
        return []
    samples, steps = found
    number = tcp.flow_numbers(run, samples)
    acked = np.bincount(number, weights=steps["bytes_acked"], minlength=max(rtts_us) + 1)
    short, long = (np.mean([acked[flow] for flow, rtt_us in rtts_us.items() if rtt_us == wanted_us])
                   for wanted_us in (short_us, long_us))
    if long <= 0 or short <= 0:
        return []
    scope = f"rtt_{short_us / 1e3:g}_to_{long_us / 1e3:g}_ms"
    return [Metric("throughput_ratio_short_long", scope, "1", float(short / long))]
