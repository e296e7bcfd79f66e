# SPDX-License-Identifier: GPL-2.0-only
"""What tcp_info says of the senders: retransmissions, limits, window, RTT."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.metrics import Metric
from analysis.runs import Run

SOCKET = ["node", "src", "sport", "dst", "dport"]
COUNTERS = ["bytes_sent", "bytes_retrans", "busy_us", "rwnd_limited_us", "sndbuf_limited_us"]


def compute(run: Run) -> list[Metric]:
    """Per direction, over the sockets on the sending side, in the measurement interval."""
    samples = run.frame("tcp_info")
    if samples is None or samples.empty:
        return []
    start, end = run.interval
    samples = samples.sort_values("t_us", kind="stable")
    growth = counter_growth(samples)
    inside = ((samples["t_us"] > start) & (samples["t_us"] <= end)).to_numpy()
    samples, growth = samples[inside], growth[inside]
    direction = samples["node"].astype(str).map(_direction_of_node(run))
    found = []
    for name in sorted(direction.dropna().unique()):
        mine = (direction == name).to_numpy()
        total = growth[mine].sum()
        # A socket that only receives has srtt and cwnd too, but they say nothing.
        sending = samples[mine & (growth["bytes_sent"] > 0).to_numpy()]
        if total["bytes_sent"] > 0:
            found.append(Metric("retransmission_share", name, "%",
                                100 * total["bytes_retrans"] / total["bytes_sent"]))
        if total["busy_us"] > 0:
            found += [Metric("rwnd_limited_share", name, "%",
                             100 * total["rwnd_limited_us"] / total["busy_us"]),
                      Metric("sndbuf_limited_share", name, "%",
                             100 * total["sndbuf_limited_us"] / total["busy_us"])]
        if len(sending):
            found += [Metric("cwnd_mean", name, "segments", float(sending["cwnd"].mean())),
                      Metric("srtt_mean", name, "ms", float(sending["srtt_us"].mean()) / 1e3)]
    return found


def counter_growth(samples: pd.DataFrame) -> pd.DataFrame:
    """Growth of the cumulative counters of each socket since its previous sample.

    The first sample of a socket counts from zero; so does one whose bytes_sent
    fell, because then the same addresses and ports belong to a new socket.
    """
    socket = samples.groupby(SOCKET, observed=True, sort=False).ngroup().to_numpy()
    order = np.argsort(socket, kind="stable")
    values = samples[COUNTERS].fillna(0).to_numpy()[order]
    steps = np.diff(values, axis=0, prepend=0)
    fresh = np.diff(socket[order], prepend=-1) != 0
    fresh |= steps[:, 0] < 0
    steps[fresh] = values[fresh]
    growth = np.empty_like(steps)
    growth[order] = np.clip(steps, 0, None)
    return pd.DataFrame(growth, columns=COUNTERS, index=samples.index)


def _direction_of_node(run: Run) -> dict[str, str]:
    """Node -> direction of what it sends; nodes without a side send `all`."""
    direction = {"left": "left_to_right", "right": "right_to_left"}
    return {node["name"]: direction.get(node.get("side"), "all")
            for node in run.network.get("nodes", [])}
