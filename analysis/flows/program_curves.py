# SPDX-License-Identifier: GPL-2.0-only
"""Curves of flows of programs, of which no socket of TCP tells anything: QUIC, say.

The rate is what the last link before the receiver carried, with headers, where the flow has that link for itself. The
round-trip time is an estimate: that of the idle network, and what packets wait in the bottlenecks on the way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analysis.read import series
from analysis.read.runs import Array, Run
from traffic.workload.records import Flow

#: payload of a full segment of TCP on an Ethernet: the unit of windows, so that QUIC's are beside TCP's
SEGMENT_BYTES = 1448


class Rates(NamedTuple):
    """Mbit/s in bins that end at the times, microseconds."""

    t_us: Array
    mbps: Array


def flows(run: Run) -> list[Flow]:
    """The flows of programs."""
    return [flow for flow in run.flows if flow.transport == "program"]


def name_of(flow: Flow) -> str:
    """What the scenario calls it."""
    return flow.component


def rates(run: Run, flow: Flow, every_us: float, over_us: float | None = None) -> Rates | None:
    """The rate every so often, over the time before each. None where others use its last link, too, or nobody counted.

    over_us: how long that time is, if it is not every_us.
    """
    last = flow.hops[-1] if flow.hops else None
    if last is None or sum(last in one.hops[-1:] for one in run.flows) != 1:
        return None
    samples = series.queue_samples(run, last, "edge_queue")
    if samples is None:
        return None
    over_us = over_us or every_us
    start_us = float(flow.start_us or 0)
    end_us = min(float(flow.stop_us or run.interval.end_us), float(samples["t_us"].iloc[-1]))
    t_us = np.arange(start_us + every_us, end_us + 1, max(every_us, series.sampling_us(samples)))
    if not len(t_us):
        return None
    carried = [series.counter_at(samples, "sent_bytes", at) for at in (t_us, np.maximum(t_us - over_us, start_us))]
    return Rates(t_us, (carried[0] - carried[1]) * 8 / over_us)


def said(run: Run, flow: Flow, at_us: Array) -> dict[str, Array]:
    """{cwnd, in_flight: segments; srtt_us} at these times, as a QUIC sender's qlog has them; {} of other programs."""
    table = run.frame("quic_info") if flow.kind == "quic" else None
    mine = None if table is None else table[table["flow"] == flow.flow]
    if mine is None or mine.empty:
        return {}
    rows = np.clip(np.searchsorted(mine["t_us"].to_numpy(), at_us, side="right") - 1, 0, None)
    known = at_us >= mine["t_us"].iloc[0]
    units = {"cwnd": ("cwnd_bytes", SEGMENT_BYTES), "in_flight": ("in_flight_bytes", SEGMENT_BYTES),
             "srtt_us": ("srtt_us", 1)}
    return {name: np.where(known, mine[column].to_numpy(dtype=float)[rows], np.nan) / scale
            for name, (column, scale) in units.items()}


def rtt_ms(run: Run, flow: Flow, at_us: Array) -> Array | None:
    """The round-trip time, estimated, in the bins that end at these times; None where nothing is known of it."""
    base_us = flow.base_rtt_us
    links = [name for back in (False, True) for name in flow.way(back) if name in run.bottlenecks]
    if base_us is None or not links or len(at_us) < 2:
        return None
    edges = np.append(2 * at_us[0] - at_us[1], at_us)
    found = np.full(len(at_us), base_us / 1e3)
    for link in links:
        waits = series.queueing_delay_ms(run, link, edges)
        if waits is None:
            return None
        found += np.nan_to_num(waits)
    return found
