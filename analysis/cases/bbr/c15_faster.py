# SPDX-License-Identifier: GPL-2.0-only
"""The path becomes ten times as fast."""

from __future__ import annotations

import math

import pandas as pd

from analysis.cases import OPEN, Finding, Settings, network, passed_if
from analysis.cases.evidence import FRAME_BYTES, Point, Seen

NUMBER = 15
TITLE = "Increasing Bandwidth 10x and Ensuring Full Bandwidth is Reached"
ASKS = ("in ProbeBW the rate becomes ten times as high: in ProbeBW_UP inflight_longterm grows by steps that double "
        "each round trip, and the full rate is found in O(log(BDP)) round trips")
_TIMES = 10
#: half of the receive buffer (scenarios/bbr-case.yaml): Linux takes as much for its own structures
_MOST_BYTES = 33_000_000


def sensible(point: Point) -> str:
    if point.rate_bps * _TIMES > 1_000_000_000:
        return "ten times as much is more than 1 Gbit/s"
    if point.bdp * _TIMES * FRAME_BYTES > _MOST_BYTES:
        return "ten times the BDP is more than the receive buffer holds"
    return "" if point.bdp >= 20 else "the window is near its floor"


def _change_s(point: Point) -> float:
    return network.settled_s(point) + 5 + 5 * point.rtt_s


def first(point: Point) -> Settings:
    change_us = 1e6 * _change_s(point)
    # at first a buffer of one BDP, whose losses set inflight_longterm; then one of the new BDP
    limit = max(40, math.ceil(_TIMES * point.bdp))
    return network.path(point, _change_s(point) + 8 + 2 * _most_rounds(point) * point.rtt_s, buffer_bdp=1,
                        data=[f"{network.at(change_us)}, rate: {point.rate_bps * _TIMES} bit/s, limit: {limit}"])


def _most_rounds(point: Point) -> float:
    """Waiting apart: some round trips for each doubling, of the BDP from one packet to the new one."""
    return 3 * math.log2(max(2.0, _TIMES * point.bdp)) + 10


def judge(point: Point, seen: Seen) -> list[Finding]:
    change_us = 1e6 * _change_s(point)
    later = seen.told[seen.told["t_us"] > change_us]
    full = later[later["max_bw"] >= 0.95 * _TIMES * point.payload]
    ups = [one for one in seen.spells("ProbeBW_UP") if (one.end_us or 1 << 60) > change_us]
    probing = sum(one.rounds for one in ups if not len(full) or one.begin_us <= full["t_us"].iloc[0])
    findings = [passed_if(len(full) > 0 and probing <= _most_rounds(point),
                          (f"{probing} round trips of ProbeBW_UP until max_bw is 95 % of the new rate, "
                           f"{(full['t_us'].iloc[0] - change_us) / 1e6:.2f} s after the change" if len(full) else
                           f"max_bw reaches {later['max_bw'].max() / point.payload / _TIMES:.1%} of the new rate")
                          + f"; at most {_most_rounds(point):.0f} expected")]
    steps: list[int] = max((_steps(one.rows) for one in ups), key=len, default=[])
    if not any(step > 0 for step in steps):
        return [*findings, Finding(OPEN, "inflight_longterm was not set, or did not grow")]
    doubling = [later_step >= 1.5 * step for step, later_step in zip(steps, steps[1:]) if step >= 2]
    return [*findings, passed_if(not doubling or sum(doubling) >= 0.6 * len(doubling),
                                 "inflight_longterm grows in round trips of ProbeBW_UP by "
                                 f"{', '.join(map(str, steps))} packets")]


def _steps(rows: pd.DataFrame) -> list[int]:
    """Growth of inflight_longterm from round trip to round trip."""
    bounds = rows[rows["why"] == "round"]["inflight_longterm"]
    return [int(step) for step in bounds[bounds >= 0].diff().dropna()]


def on_wire(point: Point, seen: Seen) -> list[Finding]:
    change_us = 1e6 * _change_s(point)
    rows = seen.wire[seen.wire["t_us"] > change_us].copy()
    window_us = max(5 * point.rtt_us, 200_000)
    step = max(1, round(window_us / network.probe_us(point)))
    rate = rows["bytes_acked"].diff(step) / rows["t_us"].diff(step) * 1e6
    full = rows[rate >= 0.9 * _TIMES * point.payload]
    most_s = 3 + _most_rounds(point) * point.rtt_s
    took_s = (full["t_us"].iloc[0] - change_us) / 1e6 if len(full) else math.inf
    return [passed_if(took_s <= most_s, f"90 % of the new rate is carried after {took_s:.1f} s, or "
                                        f"{took_s / point.rtt_s:.0f} round-trip times; at most {most_s:.1f} s expected "
                                        "(3 s between probes)")]
