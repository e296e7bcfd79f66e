# SPDX-License-Identifier: GPL-2.0-only
"""Startup goes on as long as the application is the limit and nothing is lost."""

from __future__ import annotations

from analysis.cases import NOTE, Finding, Settings, network, passed_if
from analysis.cases.evidence import Point, Seen

NUMBER = 7
MOMENT = "Startup"
TITLE = "Never Exiting PROBE_UP (or STARTUP) When Application-Limited With No Loss"
ASKS = "the application writes 30 % of what the path carries, nothing is lost: the flow stays in Startup"


def sensible(point: Point) -> str:
    return "" if point.bdp * 0.3 >= 4 else "the window is not what limits it, with a floor of four packets"


def first(point: Point) -> Settings:
    return network.path(point, 16 + 12 * point.rtt_s, phases=[f"at: 0 s, rate: {round(point.payload * 2.4)} bit/s"])


def judge(point: Point, seen: Seen) -> list[Finding]:
    states = list(dict.fromkeys(one.state for one in seen.spells()))
    limited = seen.told.loc[seen.told["why"] == "round", "app_limited"].mean()
    return [passed_if(set(states) <= {"Startup", "ProbeRTT"} and not seen.told["full_bw_reached"].any(),
                      f"states in {seen.told['t_us'].iloc[-1] / 1e6:.0f} s: {', '.join(states)}"),
            Finding(NOTE, f"{limited:.0%} of the round trips were application-limited")]


def by_gains(point: Point, seen: Seen) -> list[Finding]:
    states = list(dict.fromkeys(one.state for one in seen.spells()))
    return [passed_if(set(states) <= {"Startup", "ProbeRTT"}, f"states: {', '.join(states)}")]
