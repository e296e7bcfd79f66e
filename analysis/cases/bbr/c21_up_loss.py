# SPDX-License-Identifier: GPL-2.0-only
"""Losses in ProbeBW_UP lower inflight_longterm and end it."""

from __future__ import annotations

from analysis.cases import OPEN, Finding, Settings, network, passed_if
from analysis.cases.evidence import Point, Seen

NUMBER = 21
MOMENT = "ProbeBW_UP"
TITLE = "Handling Loss During PROBE_UP After inflight_longterm is Set"
ASKS = ("inflight_longterm is set; losses in ProbeBW_UP scale it down, to no less than Beta (0.7) of the target, and "
        "ProbeBW_DOWN follows at once")


def sensible(point: Point) -> str:
    return "" if point.bdp >= 20 else "losses of a few per cent need some tens of packets in flight"


def first(point: Point) -> Settings:
    duration_s = network.settled_s(point) + 8 + 20 * point.rtt_s
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
    begin_us = _blind_us(point)
    return network.path(point, begin_us / 1e6 + 20 * point.rtt_s + 1, buffer_bdp=1,
                        data=[f"{network.at(begin_us)}, loss: 20 %",
                              f"{network.at(begin_us + 10 * point.rtt_us)}, loss: 0 %"])


def _blind_us(point: Point) -> float:
    return 1e6 * (network.settled_s(point) + 1) + 5 * point.rtt_us


def on_wire(point: Point, seen: Seen) -> list[Finding]:
    """Without the state: losses over ten round trips, more than a cycle of version 1, meet its UP."""
    begin_us = _blind_us(point)
    rows = seen.between(begin_us + 3 * point.rtt_us, begin_us + 10 * point.rtt_us)
    usual = seen.between(begin_us - 10 * point.rtt_us, begin_us)["pacing_rate_bps"].median()
    peak = rows["pacing_rate_bps"].max() / usual
    return [passed_if(peak <= 1.1, f"while 20 % are lost it is paced at up to {peak:.2f} of its usual rate"
                                   + ("" if peak <= 1.1 else ": it goes on to probe"))]
