# SPDX-License-Identifier: GPL-2.0-only
"""Drain ends after three round trips also if too much is still in flight."""

from __future__ import annotations

from analysis.cases import NOTE, OPEN, Finding, Settings, network, passed_if
from analysis.cases.bbr import c01_startup_plateau
from analysis.cases.evidence import Point, Seen

NUMBER = 4
MOMENT = "Drain"
TITLE = "Exiting DRAIN Based on Time"
ASKS = ("the rate of the path falls when Drain begins, so that inflight stays above Inflight(1.0); after three round "
        "trips ProbeBW follows all the same")
#: The draft's 10 % do not suffice: the flow sends at half of the old rate, the path delivers 90 % of it, and a queue of
#: one BDP is gone in less than three round trips. With less than half of the rate it grows
_LEFT = 0.45
#: version 1 drains with a gain of 0.34
_LEFT_OF_1 = 0.3


def sensible(point: Point) -> str:
    if point.rtt_us < 5_000:
        return "Inflight(1.0) has room for three quanta of a millisecond, more than is in flight"
    if point.rtt_us > 300_000:
        return "three round trips with a queue last longer than the ten seconds of min_rtt: ProbeRTT comes before"
    return c01_startup_plateau.sensible(point)


def first(point: Point) -> Settings:
    return c01_startup_plateau.first(point)


def second(point: Point, seen: Seen) -> Settings | None:
    begin_us = seen.entry("Drain")
    if begin_us is None:
        return None
    left = _LEFT if seen.model is not None else _LEFT_OF_1
    return network.path(point, begin_us / 1e6 + 20 * point.rtt_s + 1, buffer_bdp=12,
                        data=[f"{network.at(begin_us)}, rate: {round(left * point.rate_bps)} bit/s"])


def judge(point: Point, seen: Seen) -> list[Finding]:
    drains = seen.undisturbed("Drain")
    if not drains or drains[0].end_us is None:
        return [passed_if(False, "there is no Drain that ends")]
    drain = drains[0]
    after = seen.told[seen.told["t_us"] >= drain.end_us].iloc[0]
    if drain.left_why == "drained":
        return [Finding(OPEN, f"drained after {drain.rounds} round trips: what was in flight was not held up")]
    return [
        passed_if(drain.left_why == "rounds" and drain.after == "ProbeBW_DOWN" and after["inflight"] > after["bdp"],
                  f"{drain.after} with {after['inflight']} packets in flight, Inflight(1.0) = {after['bdp']}"),
        Finding(NOTE, f"{drain.rounds} round trips began in Drain: round_count > drain_start_round + 3 is first true "
                      "in the fourth, while the text says \"after 3 round trips\""),
        Finding(NOTE, f"the rate falls to {_LEFT:.0%}: with the draft's 90 % the queue of Startup is gone sooner")]


def by_gains(point: Point, seen: Seen) -> list[Finding]:
    drains = seen.undisturbed("Drain")
    if not drains:
        return [passed_if(False, "there is no Drain")]
    drain = drains[0]
    rounds, inflight = seen.round_trips(drain.begin_us, drain.ended_us), seen.in_flight(drain.ended_us)
    if drain.after and rounds <= 4 and inflight <= 1.1 * point.bdp + 8:
        return [Finding(OPEN, f"drained after {rounds:.1f} round trips: what was in flight was not held up")]
    return [passed_if(drain.after is not None and 2 <= rounds <= 5,
                      f"Drain lasts {rounds:.1f} round trips, then {drain.after or 'the run ends'} with {inflight} "
                      f"packets in flight; the BDP is {point.bdp:.0f}")]
