# SPDX-License-Identifier: GPL-2.0-only
"""A path whose acknowledgements come in slots, as a shared medium lets them."""

from __future__ import annotations

from analysis.cases import Settings, network
from analysis.cases.evidence import Point

SLOT_MS = 20
_TRACE = "suites/bbr-ietf/slots.trace"


def settings(point: Point) -> Settings:
    return [*network.path(point, network.settled_s(point) + 6 + 20 * point.rtt_s),
            ("topology.central.left_to_right.trace", _TRACE)]


def sensible(point: Point) -> str:
    if point.rtt_us < 1000 * SLOT_MS / 2:
        return f"slots of {SLOT_MS} ms are many round trips"
    if point.rate_bps > 100_000_000:
        return "a slot carries too few acknowledgements"
    return "" if point.bdp >= 4 else "the window is at its floor"
