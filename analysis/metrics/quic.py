# SPDX-License-Identifier: GPL-2.0-only
"""QUIC flows: what their receivers got, and what their senders say in qlog."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.metrics import Metric, Shown
from analysis.read.runs import Run
from testbed.core.guest_files import Guest

UNITS = {"quic_goodput": "Mbit/s", "quic_lost": "%", "quic_window_mean": "kB", "quic_in_flight_mean": "kB",
         "quic_smoothed_rtt_mean": "ms"}
WINDOWED = {"quic_window_mean", "quic_in_flight_mean", "quic_smoothed_rtt_mean", "quic_lost"}
SHOWN = [Shown("quic", "quic_goodput", "goodput", 10), Shown("quic", "quic_lost", "lost, by its sender", 20),
         Shown("quic", "quic_window_mean", "window", 30), Shown("quic", "quic_in_flight_mean", "in flight", 40),
         Shown("quic", "quic_smoothed_rtt_mean", "smoothed RTT", 50)]


def compute(run: Run) -> list[Metric]:
    """Goodput of the whole flow, from its start to its stop: the receiver counts it once. Means over the measurement
    interval of window, bytes in flight and smoothed round trip: a row of quic_info holds until the next. Packets that
    the sender declared lost, of those it sent in the interval.
    """
    flows = {flow.flow: flow for flow in run.flows if flow.kind == "quic"}
    if not flows:
        return []
    found = []
    guest = run.record(Guest, "guest.json")
    for ends in (one for account in guest.traffic.values() for one in account.quic) if guest else ():
        flow = flows.get(ends.flow)
        if flow is not None and ends.received_bytes is not None and flow.bytes is None:
            lasts_us = (flow.stop_us or run.interval.end_us) - (flow.start_us or 0)
            found.append(Metric("quic_goodput", f"flow_{flow.flow}", "Mbit/s", ends.received_bytes * 8 / lasts_us))
    table = run.frame("quic_info")
    if table is not None:
        for number in flows:
            found += _of_sender(table[table["flow"] == number], f"flow_{number}", run)
    return found


def _of_sender(rows: pd.DataFrame, scope: str, run: Run) -> list[Metric]:
    rows = rows[rows["t_us"].between(*run.interval, inclusive="left")]
    lasts_us = np.diff(rows["t_us"].to_numpy(dtype=float), append=float(run.interval.end_us))
    found = []
    for name, column, unit, scale in (
            ("quic_window_mean", "cwnd_bytes", "kB", 1e3), ("quic_in_flight_mean", "in_flight_bytes", "kB", 1e3),
            ("quic_smoothed_rtt_mean", "srtt_us", "ms", 1e3)):
        values = rows[column].to_numpy(dtype=float)
        known = np.isfinite(values)
        if lasts_us[known].sum() > 0:
            found.append(Metric(name, scope, unit, float(np.average(values[known], weights=lasts_us[known])) / scale))
    if len(rows) > 1:
        first, last = rows.iloc[0], rows.iloc[-1]
        sent = float(last["sent_packets"] - first["sent_packets"])
        if sent > 0:
            lost = float(last["lost_packets"] - first["lost_packets"])
            found.append(Metric("quic_lost", scope, "%", 100 * lost / sent))
    return found
