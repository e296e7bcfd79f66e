# SPDX-License-Identifier: GPL-2.0-only
"""Loss episodes of a bottleneck, and which flow reduced its window in which of them.

A *loss episode* begins with a packet that the queue drops and ends when it has dropped none for a *round*: the longest
base round-trip time of the flows that cross it, plus the time that its buffer holds. Flows that lose in the same
overflow cannot know earlier. A *reduction* is a new ssthresh, or the beginning of a recovery, together with a
retransmission. A sender learns of a drop when what was sent behind it has gone on to the receiver, and three ACKs have
come back: a reduction belongs to the latest episode whose drops are that old.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.read import series, tcp
from analysis.read.runs import Array, Run
from traffic.workload.records import Flow

if TYPE_CHECKING:
    import pandas as pd

#: ca_state of tcp_info
_OPEN, _DISORDER, _RECOVERY = 0, 1, 3


class Reductions(NamedTuple):
    """Reductions of a flow: when each was seen, when the sample before was, the window then, ssthresh over that.

    growth: segments per second by which the window grew between samples in which it was not recovering.
    """

    t_us: Array
    since_us: Array
    cwnd: Array
    factor: Array
    growth: float | None


class Episodes(NamedTuple):
    """Loss episodes of a link in the measurement interval, and the reductions of each flow that crosses it.

    counts: flow -> reductions in each episode; reductions: flow -> all of them, of an episode or not.
    """

    start_us: Array
    end_us: Array
    drops: Array
    counts: dict[int, Array]
    reductions: dict[int, Reductions]


def of_link(run: Run, link: str) -> Episodes | None:
    """None without samples of the queue or of TCP, or where fewer than two listed flows cross the link."""
    flows = [flow for flow in tcp.listed_flows(run) if link in flow.hops and flow.base_rtt_us]
    queue = series.queue_samples(run, link)
    if queue is None or len(flows) < 2 or len(reductions := of_flows(run)) < 2:
        return None
    buffer_us = run.bottlenecks[link].capacity_us
    round_us = max(flow.base_rtt_us for flow in flows) + buffer_us
    times, drops = queue["t_us"].to_numpy(), np.diff(queue["drops"].to_numpy())
    where = np.flatnonzero((drops > 0) & (times[1:] > run.interval.start_us) & (times[1:] <= run.interval.end_us))
    first = np.flatnonzero(np.diff(times[where + 1], prepend=-np.inf) > round_us)
    last = np.append(first[1:], len(where))[:len(first)] - 1
    start_us, end_us = times[where][first], times[where + 1][last]
    counts = {}
    for flow in flows:
        mine = reductions.get(flow.flow)
        if mine is not None:
            back_us = flow.base_rtt_us - _before_us(run, flow, link)
            # the queue that it had to pass, and three packets of its own
            late_us = back_us + buffer_us + 3 * (flow.base_rtt_us + buffer_us) / np.maximum(mine.cwnd, 3)
            place = np.searchsorted(start_us, mine.t_us - back_us, side="right") - 1
            inside = (place >= 0) & (end_us[place] >= mine.since_us - late_us) if len(first) else place >= 0
            counts[flow.flow] = np.bincount(place[inside], minlength=len(first))
    return Episodes(start_us, end_us, np.add.reduceat(drops[where], first) if len(first) else first, counts,
                    {flow: reductions[flow] for flow in counts})


def _before_us(run: Run, flow: Flow, link: str) -> int:
    """Delay of the links that a flow's packets cross before they reach a queue."""
    delays = {link.name: link.delay_us for link in run.network.links}
    hops = list(flow.hops)
    return sum(delays.get(name, 0) for name in hops[:hops.index(link)])


def of_flows(run: Run) -> dict[int, Reductions]:
    """Reductions of each listed flow in the measurement interval, from samples of its sender."""
    samples = tcp.flow_samples(run, "ca_state", "ssthresh")
    if samples is None or samples.empty or samples["ssthresh"].isna().all() or samples["ca_state"].isna().all():
        return {}
    samples = samples.sort_values("t_us", kind="stable", ignore_index=True)
    number = tcp.flow_numbers(run, samples)
    return {int(flow): _reductions(run, samples[number == flow]) for flow in np.unique(number) if flow}


def _reductions(run: Run, samples: pd.DataFrame) -> Reductions:
    t_us, cwnd, ssthresh, state, sent_again = (samples[name].to_numpy() for name in (
        "t_us", "cwnd", "ssthresh", "ca_state", "total_retrans"))
    changed = np.diff(ssthresh) != 0
    begun = (state[1:] >= _RECOVERY) & np.isin(state[:-1], (_OPEN, _DISORDER))
    inside = (t_us[1:] > run.interval.start_us) & (t_us[1:] <= run.interval.end_us)
    found = inside & (changed | begun) & (np.diff(sent_again) > 0) & (cwnd[:-1] > 0)
    calm = inside & (state[1:] == _OPEN) & (state[:-1] == _OPEN) & (np.diff(cwnd) >= 0)
    seconds = np.diff(t_us)[calm].sum() / 1e6
    return Reductions(t_us[1:][found], t_us[:-1][found], cwnd[:-1][found],
                      (ssthresh[1:] / np.maximum(cwnd[:-1], 1))[found],
                      float(np.diff(cwnd)[calm].sum() / seconds) if seconds else None)
