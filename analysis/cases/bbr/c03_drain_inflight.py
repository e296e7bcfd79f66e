# SPDX-License-Identifier: GPL-2.0-only
"""Drain ends when no more is in flight than the path holds."""

from __future__ import annotations

from analysis.cases import NOTE, Finding, Settings, passed_if
from analysis.cases.bbr import c01_startup_plateau
from analysis.cases.evidence import Point, Seen

NUMBER = 3
MOMENT = "Drain"
TITLE = "Exiting DRAIN Based on Inflight"
ASKS = "in Drain the pacing gain is 0.5; when inflight <= Inflight(1.0), ProbeBW follows"
SHARED = True


def sensible(point: Point) -> str:
    return c01_startup_plateau.sensible(point)


def first(point: Point) -> Settings:
    return c01_startup_plateau.first(point)


def judge(point: Point, seen: Seen) -> list[Finding]:
    drains = seen.undisturbed("Drain")
    if not drains or drains[0].after is None:
        return [passed_if(False, "there is no Drain that ends")]
    drain = drains[0]
    after = seen.told[seen.told["t_us"] >= drain.end_us].iloc[0]
    # the row of the change of state has the rate of before
    rates = (drain.rows["pacing_rate"] / drain.rows["bw"]).iloc[1:]
    paced = Finding(NOTE, "Drain ends with the ACK with which it begins") if rates.empty else \
        passed_if(0.48 <= rates.median() <= 0.51, f"it is paced at {rates.median():.3f} of bw; the margin is 1 %")
    return [
        passed_if(bool((drain.rows["pacing_gain"] == 50).all()),
                  f"the pacing gain is {drain.rows['pacing_gain'].iloc[0]} %"),
        paced,
        passed_if(drain.left_why == "drained" and drain.after == "ProbeBW_DOWN" and after["inflight"] <= after["bdp"],
                  f"{drain.after} after {drain.rounds} round trips with {after['inflight']} packets in flight, "
                  f"Inflight(1.0) = {after['bdp']}")]


def by_gains(point: Point, seen: Seen) -> list[Finding]:
    drains = [one for one in seen.undisturbed("Drain") if one.after]
    if not drains:
        return [passed_if(False, "there is no Drain that ends")]
    drain = drains[0]
    gain, inflight = drain.rows["pacing_gain"].median(), seen.in_flight(drain.ended_us)
    most = 1.1 * point.bdp + 8      # samples are late, and what is allowed has room for a few bursts
    return [passed_if(0.49 <= gain <= 0.51, f"the pacing gain is {gain:.2f}"),
            passed_if(str(drain.after).startswith("ProbeBW") and inflight <= most,
                      f"{drain.after} with {inflight} packets in flight, the BDP is {point.bdp:.0f}")]
