# SPDX-License-Identifier: GPL-2.0-only
"""What a long flow makes of cross traffic that goes or comes: draft-irtf-iccrg-tcpeval-01, section on transients."""

from __future__ import annotations

import math

import pandas as pd

from analysis.flows import transients
from analysis.flows.transients import Step
from analysis.metrics import Metric, Shown
from analysis.metrics.udp import account
from analysis.read import tcp
from analysis.read.runs import Run

SHARES_PERCENT = (60, 80, 90)
UNITS = {"time_to_bdp_window_60": "s", "time_to_bdp_window_80": "s", "time_to_bdp_window_90": "s",
         "time_to_room_left": "s", "largest_window_change": "segments", "transient_drops": "packets"}
CENSORED = {*(f"time_to_bdp_window_{percent}" for percent in SHARES_PERCENT), "time_to_room_left"}
OF_ANY_SENDER = {"transient_drops": ""}
SHOWN = [*(Shown("transients", f"time_to_bdp_window_{percent}", f"{percent} % of the BDP after", percent)
           for percent in SHARES_PERCENT),
         Shown("transients", "time_to_room_left", "window fits after", 110),
         Shown("transients", "largest_window_change", "largest change in an RTT", 120),
         Shown("transients", "transient_drops", "cross traffic dropped", 130)]
#: after the last step, in which drops and changes are those of the transient
AFTER_US = 100_000_000


def compute(run: Run) -> list[Metric]:
    """Where cross traffic goes: times until the window is so much of the BDP; where it comes: drops, time until the
    window fits. The largest change of the window in one round trip meanwhile."""
    step = transients.step_of(run)
    samples = transients.window_samples(run, step) if step else None
    if step is None:
        return []
    if samples is None:                 # of a program: nobody knows its window
        return _dropped(run, step) if step.rises else []
    samples = samples.assign(change=transients.change_in_a_round_trip(samples))
    after = samples[(samples["t_us"] >= step.start_us)
                    & (samples["t_us"] < min(step.until_us, step.end_us + AFTER_US))]
    return _coming(run, step, after) if step.rises else _going(step, after)


def resolution(run: Run) -> dict[str, float]:
    """A sampling interval: what is reached is seen in the next sample."""
    return dict.fromkeys(CENSORED, tcp.asked_each_us(run) / 1e6)


def _going(step: Step, after: pd.DataFrame) -> list[Metric]:
    scope = f"flow_{step.flow.flow}"
    found, reached = [], math.inf
    for percent in SHARES_PERCENT:
        reached = _first(after[after["cwnd"] >= percent / 100 * step.bdp_window], step)
        found.append(Metric(f"time_to_bdp_window_{percent}", scope, "s", reached))
    meanwhile = after[after["t_us"] <= step.start_us + reached * 1e6]["change"]
    if len(meanwhile):
        found.append(Metric("largest_window_change", scope, "segments", max(float(meanwhile.max()), 0.0)))
    return found


def _coming(run: Run, step: Step, after: pd.DataFrame) -> list[Metric]:
    scope = f"flow_{step.flow.flow}"
    found = []
    room = step.bdp_window + (run.bottlenecks[step.link].capacity_packets or math.nan)
    if math.isfinite(room):
        found.append(Metric("time_to_room_left", scope, "s", _first(after[after["cwnd"] <= room], step)))
    if len(after):
        found.append(Metric("largest_window_change", scope, "segments", max(-float(after["change"].min()), 0.0)))
    return [*found, *_dropped(run, step)]


def _dropped(run: Run, step: Step) -> list[Metric]:
    drops = _drops(run, step)
    return [] if drops is None else [Metric("transient_drops", step.link, "packets", drops)]


def _first(rows: pd.DataFrame, step: Step) -> float:
    """Seconds from the first step to the first of the samples; infinite if there is none."""
    return math.inf if rows.empty else (float(rows["t_us"].iloc[0]) - step.start_us) / 1e6


def _drops(run: Run, step: Step) -> float | None:
    """Packets of the cross traffic that were dropped from the first step until 100 s after the last one.

    Programs count whole flows: None where one began before the first step, or ends later than that.
    """
    end_us = step.end_us + AFTER_US
    flows = [flow for flow in run.flows if flow.flow in step.cross]
    ends_us = [min(run.interval.end_us if flow.stop_us is None else flow.stop_us, run.interval.end_us)
               for flow in flows]
    if any((flow.start_us or 0) < step.start_us for flow in flows) or max(ends_us) > end_us:
        return None
    lost = {one.flow: one.lost_packets - one.socket_dropped_packets for one in account(run)
            if one.lost_packets is not None}
    if not set(step.cross) <= lost.keys():
        return None
    return float(sum(lost[number] for number in step.cross))
