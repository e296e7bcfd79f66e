# SPDX-License-Identifier: GPL-2.0-only
"""A pause of the path that looks like the loss of everything."""

from __future__ import annotations

from analysis.cases import Finding, Settings, network
from analysis.cases.bbr import _undo
from analysis.cases.evidence import Point, Seen

NUMBER = 19
TITLE = "Handling Spurious RTO Recovery"
ASKS = ("acknowledgements are held up for longer than the timeout; when they come, the bounds and the window are what "
        "they were")


def sensible(point: Point) -> str:
    return "" if point.bdp >= 16 else "too few packets are in flight"


def first(point: Point) -> Settings:
    begin_us = 1e6 * (network.settled_s(point) + 1)
    # longer than a tail loss probe (two round-trip times) and the timeout after it
    held_us = 400_000 + 5 * point.rtt_us
    return network.path(point, begin_us / 1e6 + 5 + 25 * point.rtt_s,
                        acks=[f"{network.at(begin_us)}, outage: {round(held_us)} us"])


def judge(point: Point, seen: Seen) -> list[Finding]:
    return _undo.judge(seen, (0, 1, 2, 3, 4), "timeout")


def by_gains(point: Point, seen: Seen) -> list[Finding]:
    return _undo.on_wire(seen, 4, "timeout")
