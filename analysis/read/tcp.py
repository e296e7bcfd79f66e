# SPDX-License-Identifier: GPL-2.0-only
"""tcp_info samples: which flow's socket, which direction, what it did since its last sample."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.read.runs import Array, Run
from testbed.core import grouping
from testbed.core.guest_files import Guest
from traffic.workload.records import Flow

SOCKET = ["node", "src", "sport", "dst", "dport"]
COUNTERS = ["bytes_sent", "bytes_retrans", "bytes_acked", "bytes_received", "total_retrans",
            "busy_us", "rwnd_limited_us", "sndbuf_limited_us"]
MOST_FLOWS = 100  # of a run whose flows are looked at one by one
#: what several metrics ask for is kept for them, where it is no more than some 300 MB
_KEPT_ROWS = 1_500_000


def listed_flows(run: Run) -> list[Flow]:
    """Records of the TCP flows that are a single connection each; [] if they are too many to look at one by one."""
    single = [flow for flow in run.flows if flow.transport == "tcp" and flow.connections == 1
              and flow.source is None]
    return single if len(single) <= MOST_FLOWS else []


def flow_samples(run: Run, *more: str) -> pd.DataFrame | None:
    """tcp_info of the hosts of listed flows, None without any; `more`: as of Run.frame.

    Hosts that were sampled more often have these samples: other times than the rest. Without such hosts it is all of
    tcp_info.
    """
    samples, often = run.frame("tcp_info", *more), run.frame("tcp_info_often", *more)
    if samples is None or often is None:
        return often if samples is None else samples
    hosts = {host for flow in listed_flows(run) for host in (flow.sender, flow.receiver)}
    others = hosts - set(often["node"])
    parts = [samples[samples["node"].isin(others)], often[often["node"].isin(hosts)]]
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def sampled_each_us(run: Run, samples: pd.DataFrame) -> float:
    """Median time between the instants of `flow_samples`, infinite with one of them. Where only some of its hosts were
    sampled more often, that of the others: what looks at all flows alike sees no more than of these."""
    often = run.frame("tcp_info_often")
    others = samples if often is None else samples[~samples["node"].isin(set(often["node"]))]
    times = np.unique((others if len(others) else samples)["t_us"])
    return float(np.median(np.diff(times))) if len(times) > 1 else math.inf


def lived(run: Run, flow: Flow, last_us: float, each_us: float) -> tuple[float, float]:
    """[from, to), microseconds: the part of the measurement interval in which a listed flow was there.

    last_us: its last sample (of the run, or of the interval); each_us: the time between two. A flow whose samples end
    two of these before the interval does is over with the last of them; so is one that delivered its last byte before.
    """
    start_us, end_us = run.interval
    over_us = end_us if last_us + 2 * each_us >= end_us else last_us
    return max(start_us, flow.start_us or 0), min(over_us, delivered_us(run).get(flow.flow, over_us))


def delivered_us(run: Run) -> dict[int, int]:
    """{flow: when its receiver had read the last byte}, of those that came to an end and whose programs say so."""
    known: dict[int, int] | None = run.__dict__.get("_delivered_us")
    if known is None:
        guest = run.record(Guest, "guest.json")
        known = run.__dict__["_delivered_us"] = {
            int(flow): at_us for account in (guest.accounts if guest else ())
            for flow, at_us in account.delivered_us.items() if flow.isdecimal()}
    return known


def asked_each_us(run: Run) -> int:
    """The interval of these samples as the scenario asks for it; 0 if it asks for none."""
    hosts = {host for flow in listed_flows(run) for host in (flow.sender, flow.receiver)}
    often = run.scenario.probe("tcp_info_often")
    chosen = often if hosts and hosts <= set(often.hosts) else run.scenario.probe("tcp_info")
    return chosen.interval_us or 0


def acked_throughout(run: Run) -> dict[int, float] | None:
    """{listed flow: bytes acknowledged in the measurement interval}, if all of them are there in all of it."""
    start_us, end_us = run.interval
    listed = listed_flows(run)
    if any((flow.start_us or 0) > start_us or (flow.stop_us or end_us) < end_us for flow in listed):
        return None
    return acked_by_flow(run)


def acked_by_flow(run: Run) -> dict[int, float] | None:
    """{listed flow: bytes acknowledged in the measurement interval}"""
    found = measured(run, single=True)
    if found is None:
        return None
    samples, steps = found
    acked = steps["bytes_acked"].groupby(flow_numbers(run, samples)).sum()
    return {flow.flow: float(acked.get(flow.flow, 0.0)) for flow in listed_flows(run)}


def variant_of(flow: Flow) -> str:
    """The variant that a flow record names, '' if none."""
    return str(flow.variant or "")


def flow_numbers(run: Run, samples: pd.DataFrame, end: str = "sender") -> Array:
    """Number of the listed flow whose `end` (sender, receiver) each sample's socket is, 0 if of none."""
    flows = listed_flows(run)
    return _numbers(flows, samples, end, _sockets(samples)) if flows else np.zeros(len(samples), dtype=int)


def _sockets(samples: pd.DataFrame) -> Array:
    """A number of each sample's socket, 0 for the first that there is, and so on."""
    return grouping.numbered(samples[name] for name in SOCKET)


def _numbers(flows: Sequence[Flow], samples: pd.DataFrame, end: str, socket: Array) -> Array:
    known = {(flow.sender, flow.src, flow.sport, flow.dst, flow.dport) if end == "sender" else
             (flow.receiver, flow.dst, flow.dport, flow.src, flow.sport): flow.flow for flow in flows}
    first = grouping.first_rows(socket)
    # a flow without a port has whichever its socket got; no flow has the number 0
    numbers = [known.get((node, source, port, target, far_port)) or known.get((node, source, None, target, far_port))
               or known.get((node, source, port, target, None)) or 0
               for node, source, port, target, far_port
               in zip(*(samples[name].iloc[first].tolist() for name in SOCKET))]
    return np.array(numbers, dtype=int)[socket]


def growth(samples: pd.DataFrame, socket: Array | None = None) -> pd.DataFrame:
    """Growth of the cumulative counters of each socket since its previous sample.

    `since_us` is the time of that sample.  The first sample of a socket counts
    from zero, at its own time; so does one whose counters of bytes fell,
    because then the same addresses and ports belong to a new socket.
    `samples` must be in order of time; socket: which one each is of, as a number, if that is known.
    """
    socket = _sockets(samples) if socket is None else socket
    order = np.argsort(socket, kind="stable")
    times = samples["t_us"].to_numpy()[order]
    values = np.empty((len(samples), len(COUNTERS)))        # filled by column: there may be millions of rows
    for place, name in enumerate(COUNTERS):
        values[:, place] = samples[name].fillna(0).to_numpy()[order]
    steps = np.diff(values, axis=0, prepend=0)
    since = np.concatenate([times[:1], times[:-1]])
    fresh = np.diff(socket[order], prepend=-1) != 0
    fresh |= steps[:, COUNTERS.index("bytes_sent")] < 0
    fresh |= steps[:, COUNTERS.index("bytes_received")] < 0
    steps[fresh], since[fresh] = values[fresh], times[fresh]
    del values
    found = np.empty((len(samples), len(COUNTERS) + 1))
    found[order, :-1] = np.clip(steps, 0, None, out=steps)
    found[order, -1] = since
    return pd.DataFrame(found, columns=[*COUNTERS, "since_us"], index=samples.index)


def measured(run: Run, single: bool = False) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """Samples by time, and growth, of the measurement interval; None without tcp_info.

    Only sockets of the run's flows are looked at (programs have others, such as iperf3's control
    connections), with `single` only those of listed flows.  Growth between two samples around an
    edge of the interval counts in proportion to the time inside.  Not to be changed in place: a short one is kept.
    """
    if not single and _all_listed(run):
        single = True
    kept = run.__dict__.setdefault("_tcp_measured", {})
    if single not in kept:
        found = _measured(run, single)
        if found is not None and len(found[0]) > _KEPT_ROWS:
            return found
        kept[single] = found
    of_run: tuple[pd.DataFrame, pd.DataFrame] | None = kept[single]
    return of_run


def _all_listed(run: Run) -> bool:
    """Whether the samples of listed flows are those of all TCP flows."""
    return (len(listed_flows(run)) == sum(flow.transport == "tcp" for flow in run.flows)
            and run.frame("tcp_info_often") is None)


def _measured(run: Run, single: bool) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    samples = flow_samples(run) if single else run.frame("tcp_info")
    flows = listed_flows(run) if single else [flow for flow in run.flows if flow.transport == "tcp"]
    if samples is None or samples.empty or not flows:
        return None
    socket = _sockets(samples)
    ours = (_numbers(flows, samples, "sender", socket) > 0) | (_numbers(flows, samples, "receiver", socket) > 0)
    if not ours.any():
        return None
    rows = np.flatnonzero(ours)
    rows = rows[np.argsort(samples["t_us"].to_numpy()[rows], kind="stable")]
    samples = samples.iloc[rows].reset_index(drop=True)
    steps = growth(samples, socket[rows])
    start, end = run.interval
    until, since = samples["t_us"].to_numpy(), steps["since_us"].to_numpy()
    took = until - since
    inside = np.clip(np.minimum(until, end) - np.maximum(since, start), 0, None)
    share = np.divide(inside, took, out=((until > start) & (until <= end)).astype(float),
                      where=took > 0)
    steps[COUNTERS] *= share[:, None]
    return (samples, steps) if (share > 0).all() else (samples[share > 0], steps[share > 0])


def direction(run: Run, samples: pd.DataFrame, receiving: bool = False) -> pd.Series:
    """Direction in which each sample's socket sends (or receives); `all` where the topology knows no sides."""
    pair = grouping.numbered(samples[name] for name in ("src", "dst"))
    first = grouping.first_rows(pair)
    found = []
    for ends in zip(*(samples[name].iloc[first].tolist() for name in ("src", "dst"))):
        src, dst = (run.owners.get(address, "") for address in ends)
        found.append(run.direction_between(*((dst, src) if receiving else (src, dst))) or "all")
    return pd.Series(np.array(found, dtype=object)[pair], index=samples.index)


def received_bytes(run: Run, single: bool) -> dict[str, float]:
    """Payload that arrived in order in the measurement interval, by direction; of listed flows only, or of the rest."""
    kept: dict[bool, dict[str, float]] = run.__dict__.setdefault("_tcp_received", {})
    if single not in kept:
        kept[single] = _received_bytes(run, single)
    return dict(kept[single])


def _received_bytes(run: Run, single: bool) -> dict[str, float]:
    found = measured(run, single=single)
    if found is None:
        return {}
    samples, steps = found
    ends, received = samples[SOCKET], steps["bytes_received"]
    if not single:
        rest = (flow_numbers(run, ends) == 0) & (flow_numbers(run, ends, "receiver") == 0)
        ends, received = ends[rest], received[rest]
    totals: dict[str, float] = received.groupby(direction(run, ends, receiving=True)).sum().to_dict()
    return totals
