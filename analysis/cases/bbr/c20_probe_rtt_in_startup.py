# SPDX-License-Identifier: GPL-2.0-only
"""ProbeRTT in the midst of Startup."""

from __future__ import annotations

from analysis.cases import OPEN, Finding, Settings, passed_if
from analysis.cases.bbr import c07_limited_for_ever
from analysis.cases.evidence import Point, Seen

NUMBER = 20
MOMENT = "ProbeRTT"
TITLE = "Entering and Exiting PROBE_RTT During STARTUP"
ASKS = "a slow application keeps the flow in Startup for more than ten seconds; after ProbeRTT it is in Startup again"
SHARED = True


def sensible(point: Point) -> str:
    return c07_limited_for_ever.sensible(point)


def first(point: Point) -> Settings:
    return c07_limited_for_ever.first(point)


def judge(point: Point, seen: Seen) -> list[Finding]:
    spells = [one for one in seen.spells("ProbeRTT") if one.after]
    if not spells:
        return [Finding(OPEN, "there was no ProbeRTT")]
    return [passed_if(spells[0].after == "Startup" and spells[0].begin_us > 9_000_000,
                      f"ProbeRTT at {spells[0].begin_us / 1e6:.1f} s, then {spells[0].after}")]


def by_gains(point: Point, seen: Seen) -> list[Finding]:
    return judge(point, seen)
