# SPDX-License-Identifier: GPL-2.0-only
"""ProbeBW_DOWN ends when no more is in flight than the path holds, with headroom."""

from __future__ import annotations

from analysis.cases import Finding, Settings, network, passed_if
from analysis.cases.evidence import Point, Seen

NUMBER = 8
MOMENT = "ProbeBW_DOWN"
TITLE = "Exiting PROBE_DOWN on Inflight"
ASKS = ("in ProbeBW_DOWN the pacing gain is 0.9; when inflight is at most InflightWithHeadroom() and Inflight(1.0), "
        "ProbeBW_CRUISE follows")


def sensible(point: Point) -> str:
    return "" if point.bdp >= 4 else "the window is at its floor"


def first(point: Point) -> Settings:
    # a buffer of one BDP: losses set inflight_longterm, so that there is a headroom
    return network.path(point, network.settled_s(point) + 8 + 20 * point.rtt_s, buffer_bdp=1)


def judge(point: Point, seen: Seen) -> list[Finding]:
    downs = [one for one in seen.spells("ProbeBW_DOWN") if one.left_why == "drained"]
    if not downs:
        return [passed_if(False, "no ProbeBW_DOWN ends because it has drained")]
    wrong = []
    for down in downs:
        after = seen.told[seen.told["t_us"] >= down.end_us].iloc[0]
        bound = after["inflight_longterm"]
        with_headroom = max(4, bound - -(-15 * bound // 100)) if bound >= 0 else 1 << 30
        most = max(4, after["bdp"] * after["max_bw"] // max(1, after["bw"]) + 1)
        if after["inflight"] > with_headroom or after["inflight"] > most or down.after != "ProbeBW_CRUISE":
            wrong.append(after)
    bounded = sum(bool((one.rows["inflight_longterm"] >= 0).any()) for one in downs)
    return [passed_if(all((one.rows["pacing_gain"] == 90).all() for one in downs), "the pacing gain is 90 %"),
            passed_if(not wrong, f"{len(downs) - len(wrong)} of {len(downs)} times ProbeBW_CRUISE follows when both "
                                 f"hold; {bounded} with inflight_longterm set")]


def by_gains(point: Point, seen: Seen) -> list[Finding]:
    downs = [one for one in seen.undisturbed("ProbeBW_DOWN") if one.after]
    if not downs:
        return [passed_if(False, "there is no ProbeBW_DOWN that ends")]
    gain, followed = downs[0].rows["pacing_gain"].iloc[0], sum(one.after == "ProbeBW_CRUISE" for one in downs)
    return [passed_if(0.89 <= gain <= 0.91, f"the pacing gain is {gain:.2f}"),
            passed_if(followed == len(downs), f"{followed} of {len(downs)} times ProbeBW_CRUISE follows")]
