# SPDX-License-Identifier: GPL-2.0-only
"""How often BBR probes for bandwidth and for the round-trip time, from the gains that its sockets tell."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.metrics import Metric
from analysis.read import tcp
from analysis.read.runs import Run

UNITS = {"bbr_bandwidth_probe_interval": "round trips", "bbr_probe_rtt_interval": "s", "bbr_probe_rtt_time": "ms",
         "bbr_probe_rtt_window": "segments"}
UP, DOWN, PROBE_RTT, OTHER = "up", "down", "probe_rtt", "other"
#: pacing gains of Startup are above (2.89 and 2.77), those of Drain below (0.35); probing has 1.25, then 0.75 or 0.9
_STARTUP, _DRAIN = 2.0, 0.6


class Spell(NamedTuple):
    """A time in which the gains say the same: [from, to) in microseconds, and the mean of BBR's shortest round trip."""

    phase: str
    from_us: int
    to_us: int
    min_rtt_us: float


def compute(run: Run) -> list[Metric]:
    """Of each listed flow that says its gains (tcp_info: {bbr: yes}), in the measurement interval.

    Bandwidth is probed for where the pacing gain is above 1, outside of Startup: from the beginning of one such spell
    to that of the next, in round trips, where no ProbeRTT lies in between. ProbeRTT is where both gains are 1 or less:
    from the beginning of one to that of the next, how long it takes, and the median window in its second half.
    """
    gains = run.frame("bbr_info")
    if gains is None or gains.empty:
        return []
    numbers = tcp.flow_numbers(run, gains)
    found: list[Metric] = []
    for flow in tcp.listed_flows(run):
        mine = gains[(numbers == flow.flow) & (gains["pacing_gain"] > 0)].sort_values("t_us", kind="stable")
        mine = mine[(mine["t_us"] >= run.interval.start_us) & (mine["t_us"] < run.interval.end_us)]
        if len(mine) > 1:
            found += [Metric(name, f"flow_{flow.flow}", UNITS[name], value)
                      for name, value in _values(spells(mine), _windows(run, mine))]
    return found


def resolution(run: Run) -> dict[str, float]:
    """A sampling interval: phases are seen in the next sample."""
    each_us = tcp.asked_each_us(run)
    return {"bbr_probe_rtt_interval": each_us / 1e6, "bbr_probe_rtt_time": each_us / 1e3}


def spells(gains: pd.DataFrame) -> list[Spell]:
    """Phases of one flow in their order; the first and the last may have begun before, and end after that."""
    pacing, window = gains["pacing_gain"].to_numpy(), gains["cwnd_gain"].to_numpy()
    phases = np.select([(pacing > 1) & (pacing < _STARTUP), (pacing == 1) & (window <= 1),
                        (pacing < 1) & (pacing > _DRAIN)], [UP, PROBE_RTT, DOWN], OTHER)
    times, shortest = gains["t_us"].to_numpy(), gains["model_min_rtt_us"].to_numpy()
    begins = np.flatnonzero(np.append(True, phases[1:] != phases[:-1]))
    ends = np.append(begins[1:], len(times) - 1)
    return [Spell(str(phases[begin]), int(times[begin]), int(times[end]),
                  float(shortest[begin:max(end, begin + 1)].mean())) for begin, end in zip(begins, ends)]


def _values(found: list[Spell], windows: pd.Series | None) -> Iterator[tuple[str, float]]:
    ups = [one for one in found if one.phase in (UP, PROBE_RTT)]
    apart = [(later.from_us - one.from_us) / one.min_rtt_us for one, later in itertools.pairwise(ups)
             if one.phase == later.phase == UP and one.min_rtt_us > 0]
    if apart:
        yield "bbr_bandwidth_probe_interval", float(np.mean(apart))
    begins = [one.from_us for one in found if one.phase == PROBE_RTT]
    if len(begins) > 1:
        yield "bbr_probe_rtt_interval", float(np.diff(begins).mean()) / 1e6
    whole = [one for one in found[1:-1] if one.phase == PROBE_RTT]
    if not whole:
        return
    yield "bbr_probe_rtt_time", float(np.mean([one.to_us - one.from_us for one in whole])) / 1e3
    if windows is not None:
        times = windows.index
        late = [windows[(times >= (one.from_us + one.to_us) / 2) & (times < one.to_us)] for one in whole]
        yield "bbr_probe_rtt_window", float(pd.concat(late).median())


def _windows(run: Run, gains: pd.DataFrame) -> pd.Series | None:
    """Congestion windows of the same socket by time; None if they were not sampled at these times."""
    samples = run.frame("tcp_info")
    if samples is None:
        return None
    both = gains[["t_us", *tcp.SOCKET]].merge(samples[["t_us", *tcp.SOCKET, "cwnd"]], on=["t_us", *tcp.SOCKET])
    return both.set_index("t_us")["cwnd"] if len(both) == len(gains) else None
