# SPDX-License-Identifier: GPL-2.0-only
"""ProbeBW_UP ends when the delivery rate grows no more."""

from __future__ import annotations

from analysis.cases import OPEN, Finding, Settings, network, passed_if
from analysis.cases.evidence import Point, Seen

NUMBER = 5
MOMENT = "ProbeBW_UP"
TITLE = "Exiting PROBE_UP on Bandwidth Plateau"
ASKS = "without loss and with a window in use, full_bw_count reaches 3 in ProbeBW_UP, and ProbeBW_DOWN follows"


def sensible(point: Point) -> str:
    return "" if point.bdp >= 4 else "the window is at its floor"


def first(point: Point) -> Settings:
    return network.path(point, network.settled_s(point) + 4 + 15 * point.rtt_s)


def judge(point: Point, seen: Seen) -> list[Finding]:
    ups = [one for one in seen.undisturbed("ProbeBW_UP") if one.end_us is not None]
    if not ups:
        return [passed_if(False, "there is no ProbeBW_UP that ends")]
    up = ups[0]
    last = up.rows.iloc[-1]
    if last["lost"] > up.rows.iloc[0]["lost"]:
        return [Finding(OPEN, "packets were lost")]
    return [passed_if(up.left_why == "full_bw" and up.after == "ProbeBW_DOWN" and last["full_bw_now"] == 1
                      and last["full_bw_count"] == 3,
                      f"{up.after} because of {up.left_why} after {up.rounds} round trips, full_bw_count "
                      f"{last['full_bw_count']}, full_bw_now {last['full_bw_now']}")]


def by_gains(point: Point, seen: Seen) -> list[Finding]:
    ups = [one for one in seen.undisturbed("ProbeBW_UP") if one.after]
    if not ups:
        return [passed_if(False, "there is no ProbeBW_UP that ends")]
    if 2 * network.probe_us(point) > point.rtt_us:
        return [Finding(OPEN, "samples of the gains are no closer than a round trip")]
    rounds = [(one.ended_us - one.begin_us) / point.rtt_us for one in ups]
    return [passed_if(min(rounds) >= 3 and ups[0].after == "ProbeBW_DOWN",
                      f"{ups[0].after} after {min(rounds):.1f} to {max(rounds):.1f} round-trip times with a gain of "
                      f"{ups[0].rows['pacing_gain'].iloc[0]:.2f}; three round trips without growth take as many")]
