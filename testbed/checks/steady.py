# SPDX-License-Identifier: GPL-2.0-only
"""Flows that are there to send all they can have settled: what they do when they begin is no part of what is measured.

A flow has settled once the first loss or mark that it answered is repaired: sawtooths follow, however long, and are no
transient. One that never answered any has settled when it gets nine tenths of what it gets on the mean in the second
half of its time. The run has settled when most of its flows have. How much the time before that changes a figure of
the measured time follows from the figure with and without it; a third of chance, as of short sawtooths, has no part in
that. Where flows, links or other traffic come, go or change on purpose within the measured time, nothing is judged.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from testbed.checks import NOT_APPLICABLE, Evidence, Finding
from testbed.checks._measured import Columns, interval_us, of_links
from testbed.checks._sockets import ends_of
from testbed.core import steadiness
from topologies.links import varying
from traffic.workload.records import Flow

if TYPE_CHECKING:
    import pandas as pd

#: what the transient may change of a throughput or a delay, as of the load between thirds of a run; of one flow's
#: throughput, which has a part of all losses only, twice that
_LIMIT, _LIMIT_OF_FLOW = steadiness.LIMIT, 2 * steadiness.LIMIT
#: of the measured time: with more of it not settled it is the transient that is measured
_MOST = 0.5
#: of all drops in the measured time: so many more than its part of the time has
_DROPS, _LEAST_DROPS = 1 / 3, 10
#: of the measured time: flows that begin later come on purpose
_BEGINS = 0.1
#: a mean wait below that is none: a packet of 1500 bytes that is being sent, and some
_LEAST_PACKETS = 5.0
_SETTLED = 0.9
#: as of struct tcp_info: CWR, Recovery, Loss answer a loss or mark
_ANSWERS = 2
_MOST_FLOWS = 1000
_COLUMNS = ["t_us", "node", "src", "sport", "dst", "dport", "cwnd", "ssthresh", "ca_state", "total_retrans",
            "bytes_acked"]


class _Flow(NamedTuple):
    """acked: bytes over time; settled_us: when it had settled; in_slow_start: whether what it answered first had come
    in slow start, which goes far beyond what the path holds. What comes later is a sawtooth's."""
    acked: "_Curve"
    settled_us: float
    in_slow_start: bool


class _Curve(NamedTuple):
    """A quantity that only grows, at some times."""
    t_us: np.ndarray
    value: np.ndarray

    def rate(self, from_us: float, to_us: float) -> float:
        """Growth per us."""
        return float(np.diff(np.interp([from_us, to_us], self.t_us, self.value))[0]) / (to_us - from_us)


def check(evidence: Evidence) -> Iterator[Finding]:
    flows = [flow for flow in evidence.flows if flow.kind == "greedy" and flow.transport == "tcp"
             and flow.connections == 1 and flow.source is None]
    if not flows:
        return
    if why := _on_purpose(flows, evidence):
        yield Finding(NOT_APPLICABLE, f"whether the flows have settled is not judged: {why}")
        return
    samples = evidence.table("tcp_info", usecols=lambda name: name in _COLUMNS)
    if samples is None or not {"ca_state", "bytes_acked"} <= set(samples) or samples["bytes_acked"].isna().all():
        yield Finding(NOT_APPLICABLE, "whether the flows have settled is not known: they were not sampled")
        return
    sender, _ = ends_of(samples, flows)
    sampled = {flow.flow: _of_flow(samples[sender == flow.flow], flow) for flow in flows}
    known_flows = {number: one for number, one in sampled.items() if one}
    from_us, to_us = interval_us(evidence)
    known = sorted(one.settled_us for one in known_flows.values())
    if len(known) < len(flows) / 2:
        yield Finding(NOT_APPLICABLE, "whether the flows have settled is not known: few of them were sampled")
        return
    settled_us = min(known[len(known) // 2], float(to_us))
    if settled_us <= from_us:
        yield Finding("ok", f"{len(known)} flows had settled when measuring began, at {from_us / 1e6:g} s: most of "
                            f"them by {settled_us / 1e6:.3g} s")
        return
    share = (settled_us - from_us) / (to_us - from_us)
    warmup_s = (settled_us - evidence.timing.prefill_us) / 1e6
    wanted = f"a warm-up of at least {_rounded_up(warmup_s):g} s leaves that out"
    if share == 1:
        yield Finding("suspect", "most flows had not settled by the end: it is how they begin that was measured; a "
                                 f"warm-up of more than {warmup_s:g} s is needed")
        return
    if share > _MOST:
        yield Finding("suspect", f"the flows had not settled for {share:.0%} of the measured time (most of them by "
                                 f"{settled_us / 1e6:.3g} s): it is how they begin that was measured; {wanted}")
        return
    in_slow_start = 2 * sum(one.in_slow_start for one in known_flows.values()) > len(known)
    changes = [*_of_flows(known_flows, from_us, settled_us, to_us),
               *_of_links(flows, evidence, settled_us, in_slow_start)]
    if changes:
        yield Finding("suspect", f"the flows had not settled when measuring began (most of them by "
                                 f"{settled_us / 1e6:.3g} s), which changes {', '.join(changes)}; {wanted}")
    else:
        yield Finding("ok", f"{len(known)} flows had settled by {settled_us / 1e6:.3g} s, {share:.1%} into the "
                            "measured time, which changes little of it")


def _on_purpose(flows: Sequence[Flow], evidence: Evidence) -> str:
    """What comes, goes or changes on purpose in the measured time; "" if nothing does."""
    from_us, to_us = interval_us(evidence)
    late_us = from_us + _BEGINS * (to_us - from_us)
    for flow in evidence.flows:
        if flow.kind not in ("greedy", "cbr", "poisson") or flow.bytes is not None:
            return f"{flow.component} comes and goes"
        if (flow.start_us or 0) > late_us or (flow.stop_us or to_us) < to_us:
            return f"flow {flow.flow} begins or ends in the measured time"
    for link in evidence.network.links:
        if varying.changes(link) or link.opportunities:
            return f"{link.name} changes"
        if link.lose_segments:
            return f"{link.name} loses chosen segments"
    if evidence.network.cells:
        return "the air is shared by turns"
    return f"{len(flows)} flows are too many" if len(flows) > _MOST_FLOWS else ""


def _of_flow(samples: pd.DataFrame, flow: Flow) -> _Flow | None:
    """What the samples of a flow's socket say; None if there are too few."""
    if len(samples) < 2:
        return None
    samples = samples.sort_values("t_us", kind="stable")
    t_us, acked, cwnd, state, again = (samples[name].to_numpy(dtype=float) for name in (
        "t_us", "bytes_acked", "cwnd", "ca_state", "total_retrans"))
    begun_us = flow.start_us or 0
    curve = _Curve(np.append(min(begun_us, t_us[0]), t_us), np.append(0, acked))
    answers = np.flatnonzero((np.nan_to_num(state) >= _ANSWERS) | (np.nan_to_num(np.diff(again, prepend=0)) > 0)
                             | (np.diff(cwnd, prepend=0) < -0.1 * cwnd))
    if len(answers):
        first = answers[0]
        repaired = np.flatnonzero(np.nan_to_num(state[first:]) < _ANSWERS)
        threshold = samples["ssthresh"].to_numpy(dtype=float)[max(first - 1, 0)] if "ssthresh" in samples else np.nan
        return _Flow(curve, float(t_us[first + repaired[0]]) if len(repaired) else float("inf"),
                     not cwnd[max(first - 1, 0)] >= threshold)
    wanted = _SETTLED * curve.rate((begun_us + t_us[-1]) / 2, t_us[-1])
    # over round trips: acknowledgements of a slow start come in bursts
    width_us = max(flow.base_rtt_us or 0, float(np.median(np.diff(t_us))))
    edges = np.arange(begun_us, t_us[-1] + 1, max(width_us, 1))
    rates = np.diff(np.interp(edges, curve.t_us, curve.value)) / max(width_us, 1)
    enough = np.flatnonzero(rates >= wanted)
    return _Flow(curve, float(edges[enough[0]]) if len(enough) else float("inf"), True)


def _of_flows(flows: dict[int, _Flow], from_us: int, settled_us: float, to_us: int) -> Iterator[str]:
    """What the transient changes of throughputs of flows, the one it changes most."""
    changed = {}
    for number, one in flows.items():
        after = one.acked.rate(settled_us, to_us)
        changed[number] = one.acked.rate(from_us, to_us) / after - 1 if after else 0.0
    worst = max(changed, key=lambda number: abs(changed[number]))
    if abs(changed[worst]) > _LIMIT_OF_FLOW:
        yield f"the throughput of flow {worst} by {changed[worst]:+.0%}"


def _of_links(flows: Sequence[Flow], evidence: Evidence, settled_us: float, in_slow_start: bool) -> Iterator[str]:
    """What the transient changes of the bottlenecks that flows cross; in_slow_start: it ended with losses of that."""
    queue, backlog = evidence.table("queue"), evidence.table("backlog")
    if queue is None:
        return                                  # of which other checks complain
    from_us, to_us = interval_us(evidence)
    crossed = {name for flow in flows for name in flow.hops}
    rates = {link.name: link.rate_bps for link in evidence.network.links if link.bottleneck}
    held = {} if backlog is None else dict(of_links(backlog, rates))
    for name, mine in of_links(queue, [name for name in rates if name in crossed]):
        sent, drops = (_Curve(mine["t_us"], mine[column]) for column in ("sent_bytes", "drops"))
        waits = _Curve(held[name]["t_us"], held[name]["byte_us"]) if name in held else _sampled(mine)
        after = sent.rate(settled_us, to_us)
        if after and abs(change := sent.rate(from_us, to_us) / after - 1) > _LIMIT:
            yield f"the throughput of {name} by {change:+.0%}"
        waited, waits_after = waits.rate(from_us, to_us), waits.rate(settled_us, to_us)
        if max(waited, waits_after) > _LEAST_PACKETS * evidence.network.frame_bytes() \
                and abs(waited / max(waits_after, 1) - 1) > _LIMIT:
            yield f"the queueing delay at {name} by {waited / max(waits_after, 1) - 1:+.0%}"
        lost, before = (drops.rate(from_us, until) * (until - from_us) for until in (to_us, settled_us))
        share = (settled_us - from_us) / (to_us - from_us)
        if in_slow_start and lost >= _LEAST_DROPS and before / lost - share > _DROPS:
            yield f"the drops at {name}, of which {before / lost:.0%} are of that time"


def _sampled(mine: Columns) -> _Curve:
    """The integral of the backlog over time, as if it went straight from sample to sample."""
    backlog, steps = mine["backlog_bytes"].astype(float), np.diff(mine["t_us"])
    return _Curve(mine["t_us"], np.append(0, np.cumsum((backlog[1:] + backlog[:-1]) / 2 * steps)))


def _rounded_up(seconds: float) -> float:
    """To two digits."""
    step = 10.0 ** (np.floor(np.log10(max(seconds, 1e-3))) - 1)
    return float(np.ceil(seconds / step - 1e-9) * step)
