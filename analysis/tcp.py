# SPDX-License-Identifier: GPL-2.0-only
"""tcp_info samples: which socket, which direction, what it did since its last sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from analysis.runs import Run

SOCKET = ["node", "src", "sport", "dst", "dport"]
COUNTERS = ["bytes_sent", "bytes_retrans", "bytes_acked", "bytes_received", "total_retrans",
            "busy_us", "rwnd_limited_us", "sndbuf_limited_us"]
MOST_FLOWS = 100  # of a run whose flows are looked at one by one
_SENDS = {"left": "left_to_right", "right": "right_to_left"}
_RECEIVES = {"left": "right_to_left", "right": "left_to_right"}


def has_long_flows(run: Run) -> bool:
    """Whether single flows matter: not when a workload starts connections by the hundred."""
    connections = run.frame("connections")
    return connections is None or len(connections) <= MOST_FLOWS


def listed_flows(run: Run) -> list[dict[str, Any]] | None:
    """The flows that workload.json lists, None for workloads that list none."""
    flows = run.workload.get("flows")
    return flows if isinstance(flows, list) else None


def variant_of(run: Run, flow: int) -> str | None:
    """Which of the variants that take turns flow `flow` (from 1) has; None if all have the same."""
    variants = run.scenario.get("variants") or []
    return variants[(flow - 1) % len(variants)]["name"] if len(variants) > 1 else None


def flow_numbers(run: Run, samples: pd.DataFrame, sent: pd.Series) -> np.ndarray:
    """Number (from 1) of the flow that each sample's socket sends, 0 if it sends none.

    Listed flows have the numbers of the list: their programs may have other
    connections, too.  Without a list every socket is a flow whose `sent` has a sum > 0.
    """
    listed = listed_flows(run)
    if listed is not None:
        return _listed_numbers(listed, samples, "sender")
    socket = samples.groupby(SOCKET, observed=True, sort=False).ngroup().to_numpy()
    sends = np.bincount(socket, weights=sent) > 0
    return np.where(sends, np.cumsum(sends), 0)[socket]


def _listed_numbers(listed: list[dict[str, Any]], samples: pd.DataFrame, end: str) -> np.ndarray:
    """Number of the flow whose `end` (sender, receiver) each sample's socket is, 0 if of none."""
    place = {"sender": ("src", "sport", "dst", "dport"),
             "receiver": ("dst", "dport", "src", "sport")}[end]
    # A flow without a source port has whichever its socket got.
    known = {(flow[end], *(flow[name] for name in place)): flow["flow"] for flow in listed}
    any_port = 1 + place.index("sport")
    socket = samples.groupby(SOCKET, observed=True, sort=False).ngroup().to_numpy()
    _, first = np.unique(socket, return_index=True)
    numbers = [known.get(key) or known.get((*key[:any_port], None, *key[any_port + 1:]), 0)
               for key in samples[SOCKET].iloc[first].itertuples(index=False, name=None)]
    return np.array(numbers, dtype=int)[socket]


def growth(samples: pd.DataFrame) -> pd.DataFrame:
    """Growth of the cumulative counters of each socket since its previous sample.

    `since_us` is the time of that sample.  The first sample of a socket counts
    from zero, at its own time; so does one whose counters of bytes fell,
    because then the same addresses and ports belong to a new socket.
    `samples` must be in order of time.
    """
    socket = samples.groupby(SOCKET, observed=True, sort=False).ngroup().to_numpy()
    order = np.argsort(socket, kind="stable")
    times = samples["t_us"].to_numpy()[order]
    values = samples[COUNTERS].fillna(0).to_numpy()[order]
    steps = np.diff(values, axis=0, prepend=0)
    since = np.concatenate([times[:1], times[:-1]])
    fresh = np.diff(socket[order], prepend=-1) != 0
    fresh |= steps[:, COUNTERS.index("bytes_sent")] < 0
    fresh |= steps[:, COUNTERS.index("bytes_received")] < 0
    steps[fresh], since[fresh] = values[fresh], times[fresh]
    found = np.empty((len(samples), len(COUNTERS) + 1))
    found[order] = np.column_stack([np.clip(steps, 0, None), since])
    return pd.DataFrame(found, columns=[*COUNTERS, "since_us"], index=samples.index)


def measured(run: Run) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """Samples by time, and growth, of the measurement interval; None without tcp_info.

    Growth between two samples around an edge of the interval counts in
    proportion to the time inside.  Where workload.json lists flows, only
    the sockets of their two ends are looked at.
    """
    samples = run.frame("tcp_info")
    if samples is None or samples.empty:
        return None
    listed = listed_flows(run)
    if listed is not None:
        samples = samples[(_listed_numbers(listed, samples, "sender") > 0)
                          | (_listed_numbers(listed, samples, "receiver") > 0)]
        if samples.empty:
            return None
    samples = samples.sort_values("t_us", kind="stable", ignore_index=True)
    steps = growth(samples)
    start, end = run.interval
    until, since = samples["t_us"].to_numpy(), steps["since_us"].to_numpy()
    took = until - since
    inside = np.clip(np.minimum(until, end) - np.maximum(since, start), 0, None)
    share = np.divide(inside, took, out=((until > start) & (until <= end)).astype(float),
                      where=took > 0)
    steps[COUNTERS] *= share[:, None]
    return samples[share > 0], steps[share > 0]


def direction(run: Run, samples: pd.DataFrame, receiving: bool = False) -> pd.Series:
    """Direction in which each sample's node sends (or receives); `all` without sides."""
    names = _RECEIVES if receiving else _SENDS
    of_node = {node["name"]: names.get(node.get("side"), "all")
               for node in run.network.get("nodes", [])}
    return samples["node"].astype(str).map(of_node)


def received_bytes(run: Run) -> dict[str, float]:
    """Payload that arrived in order in the measurement interval, by direction."""
    found = measured(run)
    if found is None:
        return {}
    samples, steps = found
    return steps["bytes_received"].groupby(
        direction(run, samples, receiving=True)).sum().to_dict()
