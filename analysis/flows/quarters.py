# SPDX-License-Identifier: GPL-2.0-only
"""Single flows and their bottleneck in short bins, as studies print them: every 0.25 s, or every 0.1 s."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analysis.flows import flow_means
from analysis.read import series, tcp
from analysis.read.runs import Array, Run

#: width of the bins of one flow or two, and of groups of flows
BIN_US, GROUP_BIN_US = 250_000, 100_000
#: runs of more flows are looked at as a whole
MOST_FLOWS = 2
#: longer runs have thousands of such bins
LONGEST_US = 60_000_000


class Flow(NamedTuple):
    """A flow's sender in bins: Mbit/s acknowledged, mean sRTT in ms (NaN as long as there is none)."""

    rates_mbps: Array
    srtt_ms: Array


def edges(run: Run, bin_us: int, start_us: float = 0) -> Array:
    """Edges of whole bins from `start_us` to the end of the run."""
    return start_us + bin_us * np.arange(int((run.interval.end_us - start_us) // bin_us) + 1)


def flows(run: Run, edges_us: Array) -> dict[int, Flow]:
    """{number: flow} of the listed flows that have two samples in a bin at least; {} where samples are too rare."""
    samples = tcp.flow_samples(run) if tcp.listed_flows(run) else None
    if samples is None or samples.empty or len(edges_us) < 2:
        return {}
    if 2 * tcp.sampled_each_us(run, samples) > edges_us[1] - edges_us[0]:
        return {}
    samples = samples.sort_values("t_us", kind="stable")
    found = {}
    for number, rows in samples.groupby(tcp.flow_numbers(run, samples)):
        if number:
            times, srtt = rows["t_us"].to_numpy(), rows["srtt_us"].to_numpy() / 1e3
            found[int(number)] = Flow(flow_means.rates_mbps(edges_us, times, rows["bytes_acked"].to_numpy()),
                                      series.bin_means(times, srtt, (srtt > 0).astype(float), edges_us))
    return found


def drop_percent(run: Run, link: str, edges_us: Array) -> Array | None:
    """Packets dropped in percent of those offered, by bin; None without samples of the queue, and where what was sent
    is counted in segments and what was dropped in packets."""
    samples = None if run.bottlenecks[link].uncut else series.queue_samples(run, link)
    return None if samples is None else series.drop_percent(samples, edges_us)
