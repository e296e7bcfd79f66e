# SPDX-License-Identifier: GPL-2.0-only
"""A path that holds less than one packet."""

from __future__ import annotations

from analysis.cases import Finding, Settings, network, passed_if
from analysis.cases.evidence import Point, Seen

NUMBER = 14
TITLE = "Correctly Managing Sub-Packet BDPs"
ASKS = "the window is never below four packets, the flow is paced at the rate of the path, and the path is used"


def sensible(point: Point) -> str:
    return "" if point.bdp < 1 else "the path holds more than a packet"


def first(point: Point) -> Settings:
    return network.path(point, 15)


def judge(point: Point, seen: Seen) -> list[Finding]:
    rows = seen.probe_bw()
    if not len(rows):
        return [passed_if(False, "it does not reach ProbeBW")]
    # the row of a change of state has the rate of before
    cruise = rows[rows["state"].isin(["ProbeBW_CRUISE", "ProbeBW_REFILL"]) & rows["why"].isin(["round", "bound"])]
    paced = cruise["pacing_rate"].median() / point.payload if len(cruise) else 0.0
    return [passed_if(rows["cwnd"].min() >= 4, f"the smallest window in ProbeBW is {rows['cwnd'].min()} packets"),
            passed_if(0.9 <= paced <= 1.1, f"with a gain of 1 it is paced at {paced:.2f} of the path"),
            *on_wire(point, seen)]


def on_wire(point: Point, seen: Seen) -> list[Finding]:
    goodput = seen.goodput(3e6, 9e6) / point.payload
    least = seen.between(3e6, 15e6)["cwnd"].min()
    return [passed_if(least >= 4, f"the smallest window is {least} packets"),
            passed_if(goodput >= 0.95, f"{goodput:.1%} of the path is used from second 3 to 9")]
