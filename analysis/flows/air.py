# SPDX-License-Identifier: GPL-2.0-only
"""What a network with radios does in time: goodput of all flows, time on the air, frames that wait."""

from __future__ import annotations

import numpy as np

from analysis.flows import quarters
from analysis.read.runs import Array, Run


def has_radios(run: Run) -> bool:
    return bool(run.network.cells)


def lines(run: Run, edges_us: Array) -> dict[tuple[str, str], Array]:
    """{(quantity, ""): a value for each bin}, of what was sampled often enough."""
    found = {}
    flows = quarters.flows(run, edges_us)
    if flows:
        found["goodput, all flows (Mbit/s)", ""] = np.sum([flow.rates_mbps for flow in flows.values()], axis=0)
    busy, air = run.frame("air_busy"), run.frame("air")
    if busy is not None and len(busy) > 1:
        cells = [np.diff(np.interp(edges_us, rows["t_us"], rows["busy_us"]))
                 for _, rows in busy.groupby("cell", observed=True)]
        found["channel busy (%)", ""] = 100 * np.mean(cells, axis=0) / np.diff(edges_us)
    if air is not None and not air.empty:
        waiting = air.groupby("t_us")["queued"].sum()
        found["frames waiting, all stations", ""] = np.interp(edges_us[1:], waiting.index, waiting)
    return found
