# SPDX-License-Identifier: GPL-2.0-only
"""Reordering that looks like loss."""

from __future__ import annotations

from analysis.cases import Finding, Settings, network
from analysis.cases.bbr import _undo
from analysis.cases.evidence import Point, Seen

NUMBER = 18
TITLE = "Handling Spurious Fast Recovery"
ASKS = ("reordering makes the sender recover what was not lost; when it learns that, the bounds and the window are "
        "what they were")


def sensible(point: Point) -> str:
    return "" if point.bdp >= 8 else "too few packets are in flight for a recovery"


def first(point: Point) -> Settings:
    # one packet in 500 comes before those that left up to half of the way earlier
    return network.path(point, network.settled_s(point) + 10 + 20 * point.rtt_s,
                        reorder=f"{{share: 0.2 %, early: {max(1, round(0.4 * point.rtt_us))} us}}")


def judge(point: Point, seen: Seen) -> list[Finding]:
    return _undo.judge(seen, (0, 1, 2, 3), "fast recovery")


def by_gains(point: Point, seen: Seen) -> list[Finding]:
    return _undo.on_wire(seen, 3, "fast recovery")
