# SPDX-License-Identifier: GPL-2.0-only
"""Startup finds the rate of the path though acknowledgements come in bursts."""

from __future__ import annotations

from analysis.cases import Finding, Settings, network, passed_if
from analysis.cases.bbr import slots
from analysis.cases.evidence import SEGMENT_BYTES, Point, Seen

NUMBER = 12
MOMENT = "Startup"
TITLE = "Achieving Expected STARTUP Bandwidth on a Link With Aggregation"
ASKS = ("acknowledgements come in slots of 20 ms: extra_acked is about what a slot brings, the window is above 2 BDP, "
        "and the full rate is found")


def sensible(point: Point) -> str:
    return slots.sensible(point)


def first(point: Point) -> Settings:
    return slots.settings(point)


def judge(point: Point, seen: Seen) -> list[Finding]:
    startup = seen.startup()
    if startup.after is None:
        return [passed_if(False, "it does not leave Startup")]
    slot = point.payload * slots.SLOT_MS / 1000 / SEGMENT_BYTES
    # once the rate grows no more: before, what comes is more than a rate of a round trip ago lets expect
    last = startup.rows.iloc[-1]
    extra = last["extra_acked"]
    window = startup.rows["cwnd"].max() / point.bdp
    bw = startup.rows["max_bw"].max() / point.payload
    return [passed_if(0.3 * slot <= extra <= 2.5 * slot + 4,
                      f"extra_acked is {extra} packets when Startup ends; a slot is {slot:.0f}"),
            passed_if(window > 2 or last["cwnd"] > 2 * last["bdp"], f"the window reaches {window:.2f} BDP"),
            # a sample of a round trip may have the acknowledgements of a slot too many (the bound was 1.1 at first,
            # which a run missed at 1.14)
            passed_if(0.95 <= bw <= 1.02 + 1e3 * slots.SLOT_MS / point.rtt_us, f"max_bw reaches {bw:.1%} of the path")]


def on_wire(point: Point, seen: Seen) -> list[Finding]:
    begin_us = 1e6 * network.settled_s(point)
    goodput = seen.goodput(begin_us, begin_us + 2e6) / point.payload
    return [passed_if(goodput >= 0.95, f"{goodput:.1%} of the path is used in two seconds after Startup")]
