# SPDX-License-Identifier: GPL-2.0-only
"""The application pauses in ProbeBW_REFILL."""

from __future__ import annotations

from analysis.cases import OPEN, Finding, Settings, network, passed_if
from analysis.cases.bbr import c05_up_plateau
from analysis.cases.evidence import Point, Seen

NUMBER = 22
MOMENT = "ProbeBW_REFILL"
TITLE = "Handling Application-Limited Sending During PROBE_REFILL"
ASKS = ("the application pauses for the round trip of ProbeBW_REFILL: max_bw keeps its value, and ProbeBW_UP follows")


def sensible(point: Point) -> str:
    return "" if point.bdp >= 40 else "what the socket still holds lasts for the whole of ProbeBW_REFILL"


def first(point: Point) -> Settings:
    return c05_up_plateau.first(point)


def second(point: Point, seen: Seen) -> Settings | None:
    begin_us = seen.entry("ProbeBW_REFILL")
    if begin_us is None:
        return None
    return network.path(point, begin_us / 1e6 + 3 + 20 * point.rtt_s,
                        phases=["at: 0 s", f"{network.at(begin_us)}, rate: 0 bit/s",
                                network.at(begin_us + _pause_us(point))])


def _pause_us(point: Point) -> float:
    return 1.5 * point.rtt_us + 10_000


def judge(point: Point, seen: Seen) -> list[Finding]:
    refills = [one for one in seen.undisturbed("ProbeBW_REFILL") if one.after]
    if not refills:
        return [passed_if(False, "ProbeBW_REFILL does not end")]
    refill = refills[0]
    before = seen.told[seen.told["t_us"] < refill.begin_us].iloc[-1]["max_bw"]
    later = seen.told[(seen.told["t_us"] >= refill.begin_us)
                      & (seen.told["t_us"] <= refill.begin_us + _pause_us(point) + 1.5 * point.rtt_us)]
    rtts = (refill.ended_us - refill.begin_us) / point.rtt_us
    if not later["app_limited"].any():
        return [Finding(OPEN, "no sample was application-limited")]
    least = later["max_bw"].min()
    return [passed_if(least >= before, f"max_bw is never below {least / before:.1%} of what it was"),
            passed_if(refill.after == "ProbeBW_UP", f"{refill.after} follows after {rtts:.1f} round-trip times")]


def by_gains(point: Point, seen: Seen) -> list[Finding]:
    return [Finding(OPEN, "version 1 has no ProbeBW_REFILL: it raises its rate without filling the path before")]
