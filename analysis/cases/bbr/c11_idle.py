# SPDX-License-Identifier: GPL-2.0-only
"""No ProbeRTT after a rest that was longer than ten seconds."""

from __future__ import annotations

from analysis.cases import Finding, Settings, network, passed_if
from analysis.cases.evidence import Point, Seen

NUMBER = 11
TITLE = "Skipping PROBE_RTT Due to Application-Limited Sending"
ASKS = "in ProbeBW the application rests for 11 s; then idle_restart is set, and ProbeRTT is skipped"
_REST_S = 11


def sensible(point: Point) -> str:
    return ""


def _rest_s(point: Point) -> float:
    return network.settled_s(point) + 1


def first(point: Point) -> Settings:
    rest_s = _rest_s(point)
    return network.path(point, rest_s + _REST_S + 2 + 10 * point.rtt_s,
                        phases=["at: 0 s", f"{network.at(1e6 * rest_s)}, rate: 0 bit/s",
                                network.at(1e6 * (rest_s + _REST_S))])


def judge(point: Point, seen: Seen) -> list[Finding]:
    again_us = 1e6 * (_rest_s(point) + _REST_S)
    rows = seen.told[seen.told["t_us"] >= again_us - 1]
    restarts = rows[(rows["why"] == "idle_restart")]
    before = seen.told[seen.told["t_us"] < again_us - 1].iloc[-1]
    states = [one.state for one in seen.spells() if one.end_us is None or one.end_us > again_us]
    soon = rows[rows["t_us"] <= again_us + 1e6 + 5 * point.rtt_us]
    return [passed_if(str(before["state"]).startswith("ProbeBW"), f"the flow rests in {before['state']}"),
            passed_if(len(restarts) > 0 and bool(restarts["idle_restart"].iloc[0]),
                      "idle_restart is set when it sends again" if len(restarts) else "idle_restart is not set"),
            passed_if("ProbeRTT" not in set(soon["state"]), f"states then: {', '.join(dict.fromkeys(states))}")]


def on_wire(point: Point, seen: Seen) -> list[Finding]:
    again_us = 1e6 * (_rest_s(point) + _REST_S)
    rows = seen.between(again_us + 2 * point.rtt_us, again_us + 1e6 + 5 * point.rtt_us)
    least = rows["cwnd"].min()
    return [passed_if(least > 4 or point.bdp < 4, f"the smallest window after the rest is {least} packets")]
