# SPDX-License-Identifier: GPL-2.0-only
"""A transient: the rate of the UDP flows beside one long flow, of TCP or of a program, changes while it is measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.flows import program_curves
from analysis.read import tcp
from analysis.read.runs import Run
from topologies.links import varying
from traffic.workload.records import Flow


class Step(NamedTuple):
    """One change of the cross traffic's rate, in one step or several the same way.

    From start_us (the first step) to end_us (the last one); what is so then holds until until_us. Rates in bit/s as
    links count them; cross: numbers of the UDP flows on the link.
    """

    link: str
    flow: Flow
    cross: list[int]
    start_us: int
    end_us: int
    until_us: int
    before_bps: float
    after_bps: float
    rate_bps: float
    frame_bytes: int

    @property
    def rises(self) -> bool:
        """Whether cross traffic came, so that less is left."""
        return self.after_bps > self.before_bps

    @property
    def bdp_window(self) -> float:
        """Bandwidth-delay product of the rate that is left and the flow's base RTT, in full packets."""
        return (self.rate_bps - self.after_bps) * float(self.flow.base_rtt_us) / 1e6 / (8 * self.frame_bytes)


def step_of(run: Run) -> Step | None:
    """The first change in the measurement interval; None unless UDP flows share a bottleneck with the only other flow.

    That must have begun before the measurement interval, on a path whose base RTT is known.
    """
    flows = [*tcp.listed_flows(run), *program_curves.flows(run)]
    if len(flows) != 1 or sum(flow.transport != "udp" for flow in run.flows) > 1:
        return None
    flow, = flows
    if not flow.base_rtt_us or (flow.start_us or 0) > run.interval.start_us:
        return None
    link = next((name for name in run.bottlenecks if name in flow.hops), None)
    cross = [one for one in run.flows if one.transport == "udp" and link in one.hops and one.rate_bps]
    changes = _changes(run, cross)
    first = next((place for place, (at_us, _) in enumerate(changes) if at_us > run.interval.start_us), None)
    if link is None or first is None:
        return None
    rises = changes[first][1] > 0
    after = next((place for place, (_, by_bps) in enumerate(changes) if place > first and (by_bps > 0) != rises),
                 len(changes))
    found = Step(link, flow, [one.flow for one in cross], changes[first][0], changes[after - 1][0],
                 changes[after][0] if after < len(changes) else run.interval.end_us,
                 sum(by_bps for _, by_bps in changes[:first]), sum(by_bps for _, by_bps in changes[:after]),
                 0.0, run.network.frame_bytes(flow.hops))
    found = found._replace(rate_bps=varying.mean_rate_bps(run.bottlenecks[link], found.start_us, found.until_us))
    return found if found.bdp_window > 0 else None


def _changes(run: Run, cross: Sequence[Flow]) -> list[tuple[int, float]]:
    """(when, by how much) the rate of the cross traffic changes before the end, in order of time."""
    found: dict[int, float] = {}
    for one in cross:
        rate_bps, stop_us = one.rate_bps or 0, run.interval.end_us if one.stop_us is None else one.stop_us
        for at_us, by_bps in ((one.start_us or 0, rate_bps), (stop_us, -rate_bps)):
            found[at_us] = found.get(at_us, 0) + by_bps
    return [(at_us, found[at_us]) for at_us in sorted(found) if at_us < run.interval.end_us and found[at_us]]


def window_samples(run: Run, step: Step) -> pd.DataFrame | None:
    """Samples of the flow's sender by time (t_us, cwnd, srtt_us, bytes_acked); None without any."""
    samples = tcp.flow_samples(run)
    if samples is None or samples.empty:
        return None
    mine = samples[tcp.flow_numbers(run, samples) == step.flow.flow].sort_values("t_us", kind="stable")
    return mine if len(mine) > 1 else None


def change_in_a_round_trip(samples: pd.DataFrame) -> np.ndarray:
    """At each sample, by how many segments the window differs from what it was one smoothed round trip before."""
    times, cwnd = samples["t_us"].to_numpy(dtype=float), samples["cwnd"].to_numpy(dtype=float)
    then = np.searchsorted(times, times - samples["srtt_us"].to_numpy(dtype=float), side="right") - 1
    return np.asarray(np.where(then >= 0, cwnd - cwnd[np.maximum(then, 0)], 0.0))
