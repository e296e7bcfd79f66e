# SPDX-License-Identifier: GPL-2.0-only
"""ProbeBW_CRUISE uses the path though acknowledgements come in bursts."""

from __future__ import annotations

from analysis.cases import Finding, Settings, network, passed_if
from analysis.cases.bbr import slots
from analysis.cases.evidence import SEGMENT_BYTES, Point, Seen

NUMBER = 13
MOMENT = "ProbeBW_CRUISE"
TITLE = "Achieving Expected Cruise Bandwidth on a Link With Aggregation"
ASKS = ("acknowledgements come in slots of 20 ms: extra_acked is about what a slot brings, the window has as much "
        "more, and the path is used")
SHARED = True


def sensible(point: Point) -> str:
    return slots.sensible(point)


def first(point: Point) -> Settings:
    return slots.settings(point)


def judge(point: Point, seen: Seen) -> list[Finding]:
    # four, as ProbeBW_CRUISE lasts no more round trips than the BDP has packets (ten at first)
    cruises = [one for one in seen.spells("ProbeBW_CRUISE") if one.rounds >= 4]
    if not cruises:
        return [passed_if(False, "there are no four round trips of ProbeBW_CRUISE")]
    rows = cruises[-1].rows
    slot = point.payload * slots.SLOT_MS / 1000 / SEGMENT_BYTES
    extra = rows["extra_acked"]
    # of all that begin once the flow has settled, from ACK to ACK: one may be as short as five slots. Without the first
    # two round trips, in which the path fills after ProbeRTT
    settled_us = 1e6 * (network.settled_s(point) + 2)
    settled = [one for one in cruises if one.begin_us >= settled_us] or cruises[-1:]
    later = [one.rows[one.rows["t_us"] >= one.begin_us + 2 * point.rtt_us] for one in settled]
    spans = [(its.iloc[0], its.iloc[-1]) for its in later]
    delivered = SEGMENT_BYTES * sum(last["delivered"] - begin["delivered"] for begin, last in spans)
    goodput = 1e6 * delivered / sum(last["t_us"] - begin["t_us"] for begin, last in spans) / point.payload
    wanted = (2 * rows["bw"] * rows["min_rtt_us"] / 1e6 / SEGMENT_BYTES + extra).round()
    falls = (extra.diff() < 0).sum()
    return [
        passed_if(0.3 * slot <= extra.median() <= 2.5 * slot + 4,
                  f"extra_acked is {extra.median():.0f} packets ({extra.min()} to {extra.max()}, {falls} times lower "
                  f"than before); a slot is {slot:.0f}"),
        passed_if(bool((rows["max_inflight"] + 1 >= wanted).iloc[1:].all()),
                  "max_inflight is 2 BDP and extra_acked"),
        passed_if(goodput >= 0.95, f"{goodput:.1%} of the path is used in {len(settled)} times of ProbeBW_CRUISE")]


def on_wire(point: Point, seen: Seen) -> list[Finding]:
    begin_us = 1e6 * (network.settled_s(point) + 2)
    goodput = seen.goodput(begin_us, begin_us + 3e6) / point.payload
    return [passed_if(goodput >= 0.95, f"{goodput:.1%} of the path is used")]
