# SPDX-License-Identifier: GPL-2.0-only
"""ProbeBW_DOWN ends after its time if the queue does not drain."""

from __future__ import annotations

from analysis.cases import NOTE, OPEN, Finding, Settings, network, passed_if
from analysis.cases.bbr import c05_up_plateau
from analysis.cases.evidence import Point, Seen

NUMBER = 9
MOMENT = "ProbeBW_DOWN"
TITLE = "Exiting PROBE_DOWN After Max Time"
ASKS = ("the rate of the path falls when ProbeBW_DOWN begins, so that the queue does not drain; after bw_probe_wait "
        "ProbeBW_REFILL follows, without ProbeBW_CRUISE")
#: The draft's 10 % leave 0.9 of the rate, and the flow is paced at 0.9 less its margin of 1 %: the queue of UP drains
#: slowly. It must not
_LEFT = 0.85


#: bw_probe_wait is 3 s at most
_WAIT_US = 3_000_000


def sensible(point: Point) -> str:
    if point.rtt_us < 5_000:
        return "Inflight(1.0) has room for three quanta of a millisecond, more than is in flight"
    return c05_up_plateau.sensible(point)


def first(point: Point) -> Settings:
    return c05_up_plateau.first(point)


def second(point: Point, seen: Seen) -> Settings | None:
    begin_us = _begin_us(point, seen)
    if begin_us is None:
        return None
    return network.path(point, begin_us / 1e6 + 5 + 5 * point.rtt_s, buffer_bdp=8,
                        data=[f"{network.at(begin_us)}, rate: {round(_LEFT * point.rate_bps)} bit/s"])


def _begin_us(point: Point, seen: Seen) -> int | None:
    """When the first ProbeBW_DOWN begins that ProbeRTT leaves enough time."""
    pauses = [one.begin_us for one in seen.spells("ProbeRTT")]
    return next((one.ended_us for one in seen.undisturbed("ProbeBW_UP") if one.after and not any(
        0 <= pause_us - one.ended_us <= _WAIT_US + point.rtt_us for pause_us in pauses)), None)


def judge(point: Point, seen: Seen) -> list[Finding]:
    begin_us = _begin_us(point, seen)
    if begin_us is None:
        return [Finding(OPEN, "ProbeRTT comes before the wait could be over")]
    downs = [one for one in seen.undisturbed("ProbeBW_DOWN") if one.begin_us >= begin_us]
    if not downs or downs[0].end_us is None:
        return [passed_if(False, "ProbeBW_DOWN does not end")]
    down = downs[0]
    if down.left_why == "drained":
        return [Finding(OPEN, f"drained after {down.rounds} round trips: what was in flight was not held up")]
    took_s = (down.ended_us - down.begin_us) / 1e6
    least = min(2.0, 61 * point.rtt_s, (down.rows["bdp"].min() - 1) * point.rtt_s)
    return [passed_if(down.after == "ProbeBW_REFILL" and down.left_why in ("waited", "reno_rounds") and took_s >= least
                      and took_s <= 3 + 2 * point.rtt_s,
                      f"{down.after} after {took_s:.2f} s and {down.rounds} round trips ({down.left_why})"),
            Finding(NOTE, f"the rate falls to {_LEFT:.0%}: with the draft's 90 % the margin of pacing drains it")]


def by_gains(point: Point, seen: Seen) -> list[Finding]:
    begin_us = _begin_us(point, seen)
    downs = [one for one in seen.undisturbed("ProbeBW_DOWN") if begin_us and one.begin_us >= begin_us and one.after]
    if not downs:
        return [passed_if(False, "ProbeBW_DOWN does not end")]
    down = downs[0]
    return [passed_if(down.after == "ProbeBW_REFILL",
                      f"{down.after} after {(down.ended_us - down.begin_us) / 1e6:.2f} s, with "
                      f"{seen.in_flight(down.ended_us)} packets in flight; the BDP is then {_LEFT * point.bdp:.0f}")]
