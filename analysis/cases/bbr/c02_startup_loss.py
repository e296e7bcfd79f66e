# SPDX-License-Identifier: GPL-2.0-only
"""Losses end Startup also where the application is the limit."""

from __future__ import annotations

from analysis.cases import NOTE, Finding, Settings, network, passed_if
from analysis.cases.evidence import Point, Seen

NUMBER = 2
MOMENT = "Startup"
TITLE = "Exiting STARTUP on Loss When Application-Limited"
ASKS = ("the application writes half of what the path carries; when more than 2 % are lost over a round trip, "
        "full_bw_reached is set and Drain follows")
_LOSS_RTTS = 6


def sensible(point: Point) -> str:
    return "" if point.bdp >= 60 else "six losses in a round trip need some 30 packets in flight"


def _begin_us(point: Point) -> float:
    return 1e6 + 20 * point.rtt_us


def first(point: Point) -> Settings:
    begin_us = _begin_us(point)
    return network.path(point, (begin_us + 30 * point.rtt_us) / 1e6 + 1,
                        phases=[f"at: 0 s, rate: {round(point.payload * 4)} bit/s"],
                        data=[f"{network.at(begin_us)}, loss: 30 %",
                              f"{network.at(begin_us + _LOSS_RTTS * point.rtt_us)}, loss: 0 %"])


def judge(point: Point, seen: Seen) -> list[Finding]:
    begin_us = _begin_us(point)
    startup = seen.startup()
    if startup.end_us is None:
        return [passed_if(False, "it stays in Startup")]
    after = seen.told[seen.told["t_us"] >= startup.end_us].iloc[0]
    rtts = (startup.end_us - begin_us) / point.rtt_us
    return [
        passed_if(startup.end_us > begin_us and startup.left_why == "high_loss" and startup.after == "Drain",
                  f"{startup.after} because of {startup.left_why}, {rtts:.1f} round-trip times after losses begin"),
        passed_if(bool(after["full_bw_reached"]), f"full_bw_reached is {after['full_bw_reached']}"),
        Finding(NOTE, f"full_bw_now is {after['full_bw_now']}: the case wants it set, too; section \"Exiting Startup "
                      "Based on Packet Loss\" sets full_bw_reached alone")]


def on_wire(point: Point, seen: Seen) -> list[Finding]:
    begin_us = _begin_us(point)
    rows = seen.between(begin_us + 15 * point.rtt_us, begin_us + 25 * point.rtt_us)
    before = seen.between(begin_us - 5 * point.rtt_us, begin_us)
    share = rows["pacing_rate_bps"].median() / before["pacing_rate_bps"].median()
    return [passed_if(share < 0.6, f"ten round-trip times after the losses it is paced at {share:.2f} of what it was: "
                                   + ("it has left Startup" if share < 0.6 else "it is still in Startup"))]
