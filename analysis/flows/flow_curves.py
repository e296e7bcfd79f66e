# SPDX-License-Identifier: GPL-2.0-only
"""Sampled curves of the single flows of a run: what is acknowledged, written, read and under way at any time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.flows import flow_means
from analysis.read import tcp
from analysis.read.runs import Array, Run
from traffic.workload.records import Flow

#: runs of more are looked at as a whole: a report has no room for each
MOST_FLOWS = 20


class Buffers(NamedTuple):
    """What lay in the sockets: of the sender by time, and what the receiver's application had read."""

    t_us: Array
    in_flight: Array
    written: Array
    timeouts: Array
    read_us: Array
    read: Array


class Curves(NamedTuple):
    """A flow over [start_us, end_us): the part of the measurement interval in which it was there (tcp.lived).

    Of the sender, by time: bytes acknowledged, segments in that, sRTT (0 before the first), state of the congestion
    control. gone_us: when its socket was not there any more, None if it stayed until the end.
    """

    flow: Flow
    start_us: float
    end_us: float
    t_us: Array
    acked: Array
    segments: Array
    srtt_us: Array
    ca_state: Array
    gone_us: float | None
    buffers: Buffers | None

    @property
    def edges(self) -> Array:
        """Of the flow's bins."""
        return flow_means.edges(self.start_us, self.end_us)

    def rates_mbps(self, edges_us: Array) -> Array:
        """Throughput at layer 4."""
        return flow_means.rates_mbps(edges_us, self.t_us, self.acked)

    def srtt_ms(self, at_us: Array) -> Array:
        """The last one known, NaN before the first."""
        known = self.srtt_us > 0
        return flow_means.held(at_us, self.t_us[known], self.srtt_us[known]) / 1e3 if known.any() \
            else np.full(len(at_us), np.nan)

    def in_flight(self) -> tuple[Array, Array] | None:
        """(times, segments): nothing is under way when the socket is gone."""
        if self.buffers is None:
            return None
        if self.gone_us is None:
            return self.buffers.t_us, self.buffers.in_flight
        return np.append(self.buffers.t_us, self.gone_us), np.append(self.buffers.in_flight, 0)


def of_run(run: Run) -> list[Curves]:
    """The listed flows that have samples at least once a bin; [] where there are none or more than MOST_FLOWS."""
    listed = tcp.listed_flows(run)
    samples = tcp.flow_samples(run) if 1 <= len(listed) <= MOST_FLOWS else None
    if samples is None or samples.empty:
        return []
    every_us = tcp.sampled_each_us(run, samples)
    if every_us > flow_means.BIN_US:
        return []
    samples = samples.sort_values("t_us", kind="stable")
    sending = dict(list(samples.groupby(tcp.flow_numbers(run, samples))))
    buffers = _buffers(run)
    found = [_curves(run, flow, sending[flow.flow], buffers.get(flow.flow), every_us)
             for flow in listed if flow.flow in sending]
    return [one for one in found if one.end_us > one.start_us]


def _curves(run: Run, flow: Flow, rows: pd.DataFrame, buffers: Buffers | None, every_us: float) -> Curves:
    begun_us, run_end_us = flow.start_us or 0, run.interval.end_us
    t_us = rows["t_us"].to_numpy(dtype=float)
    # counters are 0 at the start, also where the first sample comes later
    late = [begun_us] if begun_us < t_us[0] else []
    zero = np.zeros(len(late))
    mss = rows["mss"].replace(0, np.nan).median()
    acked = rows["bytes_acked"].to_numpy(dtype=float)
    acked[acked <= 1] = 0       # Linux counts the SYN as a byte
    start_us, end_us = tcp.lived(run, flow, t_us[-1], every_us)
    return Curves(flow, start_us, end_us, np.append(late, t_us), np.append(zero, acked),
                  np.append(zero, acked / mss), np.append(zero, np.nan_to_num(rows["srtt_us"].to_numpy(dtype=float))),
                  np.append(zero, np.nan_to_num(rows["ca_state"].to_numpy(dtype=float))),
                  t_us[-1] + every_us if t_us[-1] + 2 * every_us < run_end_us else None, buffers)


def _buffers(run: Run) -> dict[int, Buffers]:
    """{flow: buffers} of the flows whose both ends were sampled."""
    table = run.frame("socket_buffers")
    if table is None or table.empty:
        return {}
    table = table.sort_values("t_us", kind="stable")
    ends = [dict(list(table.groupby(tcp.flow_numbers(run, table, end)))) for end in ("sender", "receiver")]
    return {flow: Buffers(*(ends[0][flow][name].to_numpy(dtype=float)
                            for name in ("t_us", "in_flight", "bytes_written", "timeouts")),
                          *(ends[1][flow][name].to_numpy(dtype=float) for name in ("t_us", "bytes_read")))
            for flow in ends[0].keys() & ends[1].keys() - {0}}
