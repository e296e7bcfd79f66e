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


def sensible(point: Point) -> str:
    return c05_up_plateau.sensible(point)


def first(point: Point) -> Settings:
    return c05_up_plateau.first(point)


def second(point: Point, seen: Seen) -> Settings | None:
    ups = [one.end_us for one in seen.undisturbed("ProbeBW_UP") if one.end_us is not None]
    if not ups:
        return None
    return network.path(point, ups[0] / 1e6 + 5 + 5 * point.rtt_s, buffer_bdp=8,
                        data=[f"{network.at(ups[0])}, rate: {round(_LEFT * point.rate_bps)} bit/s"])


def judge(point: Point, seen: Seen) -> list[Finding]:
    ups = [one.end_us for one in seen.undisturbed("ProbeBW_UP") if one.end_us is not None]
    downs = [one for one in seen.undisturbed("ProbeBW_DOWN") if ups and one.begin_us >= ups[0]]
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
    ups = [one.end_us for one in seen.undisturbed("ProbeBW_UP") if one.end_us is not None]
    downs = [one for one in seen.undisturbed("ProbeBW_DOWN") if ups and one.begin_us >= ups[0] and one.after]
    if not downs:
        return [passed_if(False, "ProbeBW_DOWN does not end")]
    down = downs[0]
    return [passed_if(down.after == "ProbeBW_REFILL",
                      f"{down.after} after {(down.ended_us - down.begin_us) / 1e6:.2f} s, with "
                      f"{seen.in_flight(down.ended_us)} packets in flight; the BDP is then {_LEFT * point.bdp:.0f}")]
