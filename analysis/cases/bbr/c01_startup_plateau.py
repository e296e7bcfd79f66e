# SPDX-License-Identifier: GPL-2.0-only
"""A flow with enough to send finds the rate of the path and leaves Startup for Drain."""

from __future__ import annotations

from analysis.cases import Finding, Settings, network, passed_if
from analysis.cases.evidence import Point, Seen

NUMBER = 1
MOMENT = "Startup"
TITLE = "Exiting STARTUP on Bandwidth Plateau"
ASKS = ("max_bw is within 2 % of the rate of the path; after three round trips in which the delivery rate grows by "
        "less than 25 %, full_bw_now and full_bw_reached are set, and Drain follows")


def sensible(point: Point) -> str:
    return "" if point.bdp >= 4 else "the initial window is more than two BDPs"


def first(point: Point) -> Settings:
    return network.path(point, network.settled_s(point) + 1)


def judge(point: Point, seen: Seen) -> list[Finding]:
    startup = seen.startup()
    if startup.after is None:
        return [passed_if(False, "it does not leave Startup")]
    last, bw = startup.rows.iloc[-1], startup.rows["max_bw"].max()
    full = startup.rows[startup.rows["why"] == "full_bw"]
    return [
        passed_if(abs(bw / point.payload - 1) <= 0.02,
                  f"max_bw is {bw / point.payload:.1%} of the payload that the path carries"),
        passed_if(len(full) > 0 and bool(full.iloc[0][["full_bw_now", "full_bw_reached"]].all())
                  and full.iloc[0]["full_bw_count"] == 3, f"full_bw_count reaches {last['full_bw_count']:.0f}, "
                  f"full_bw_now {last['full_bw_now']:.0f}, full_bw_reached {last['full_bw_reached']:.0f}"),
        passed_if(startup.after == "Drain" and startup.left_why == "full_bw",
                  f"{startup.after} after {startup.rounds} round trips, because of {startup.left_why}")]


def on_wire(point: Point, seen: Seen) -> list[Finding]:
    settled_us = network.settled_s(point) * 1e6
    goodput = seen.goodput(settled_us, settled_us + 1e6)
    paced = seen.between(settled_us, settled_us + 1e6)["pacing_rate_bps"].median() / 8
    return [passed_if(goodput >= 0.95 * point.payload, f"{goodput / point.payload:.1%} of the path is used in the "
                                                       f"second after {settled_us / 1e6:.1f} s"),
            passed_if(paced < 1.3 * point.payload, f"it is then paced at {paced / point.payload:.2f} of the path")]
