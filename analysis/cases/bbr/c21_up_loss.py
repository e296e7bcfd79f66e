# SPDX-License-Identifier: GPL-2.0-only
"""Losses in ProbeBW_UP lower inflight_longterm and end it."""

from __future__ import annotations

from analysis.cases import OPEN, Finding, Settings, network, passed_if
from analysis.cases.bbr import _blind
from analysis.cases.evidence import Point, Seen

NUMBER = 21
MOMENT = "ProbeBW_UP"
TITLE = "Handling Loss During PROBE_UP After inflight_longterm is Set"
ASKS = ("inflight_longterm is set; losses in ProbeBW_UP scale it down, to no less than Beta (0.7) of the target, and "
        "ProbeBW_DOWN follows at once")


def sensible(point: Point) -> str:
    return "" if point.bdp >= 20 else "losses of a few per cent need some tens of packets in flight"


def first(point: Point) -> Settings:
    duration_s = network.settled_s(point) + 8 + 30 * point.rtt_s
    return network.path(point, duration_s, buffer_bdp=1, data=network.at_the_end(duration_s))


def second(point: Point, seen: Seen) -> Settings | None:
    ups = [one for one in seen.undisturbed("ProbeBW_UP") if one.rows["inflight_longterm"].iloc[0] >= 0]
    if not ups:
        return None
    # the first round trip of UP is on its way: what follows it is lost, before anything else can end UP
    begin_us = ups[0].begin_us
    return network.path(point, begin_us / 1e6 + 2 + 20 * point.rtt_s, buffer_bdp=1,
                        data=[f"{network.at(begin_us)}, loss: 20 %",
                              f"{network.at(begin_us + point.rtt_us)}, loss: 0 %"])


def judge(point: Point, seen: Seen) -> list[Finding]:
    ups = [one for one in seen.undisturbed("ProbeBW_UP") if one.rows["inflight_longterm"].iloc[0] >= 0 and one.end_us]
    if not ups:
        return [Finding(OPEN, "there is no ProbeBW_UP with inflight_longterm set")]
    up = ups[0]
    before, after = up.rows["inflight_longterm"].max(), seen.told[seen.told["t_us"] >= up.end_us].iloc[0]
    least = 0.7 * min(after["bw"] * after["min_rtt_us"] / 1e6 / 1448, after["cwnd"]) - 1
    return [passed_if(up.left_why == "high_loss" and up.after == "ProbeBW_DOWN" and up.rounds <= 3,
                      f"{up.after} because of {up.left_why} after {up.rounds} round trips"),
            passed_if(least <= after["inflight_longterm"] < before,
                      f"inflight_longterm from {before} to {after['inflight_longterm']} packets; at least {least:.0f}")]


def blind(point: Point) -> Settings:
    return _blind.path(point, buffer_bdp=1)


def on_wire(point: Point, seen: Seen) -> list[Finding]:
    return _blind.judge(point, seen)
