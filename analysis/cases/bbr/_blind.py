# SPDX-License-Identifier: GPL-2.0-only
"""Losses while the path is probed, of a BBR that does not tell when that is: over ten round trips, more than a cycle of
version 1, they meet it. What cases 6 and 21 have in common."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.cases import Finding, Settings, network, passed_if
from analysis.cases.evidence import Point, Seen

_RTTS = 10


def begin_us(point: Point) -> float:
    """When the losses begin."""
    return 1e6 * (network.settled_s(point) + 1) + 5 * point.rtt_us


def path(point: Point, buffer_bdp: float = 4, phases: Sequence[str] = ("at: 0 s",)) -> Settings:
    at_us = begin_us(point)
    return network.path(point, at_us / 1e6 + 20 * point.rtt_s + 1, buffer_bdp=buffer_bdp, phases=phases,
                        data=[f"{network.at(at_us)}, loss: 20 %",
                              f"{network.at(at_us + _RTTS * point.rtt_us)}, loss: 0 %"])


def judge(point: Point, seen: Seen) -> list[Finding]:
    at_us = begin_us(point)
    rows = seen.between(at_us + 3 * point.rtt_us, at_us + _RTTS * point.rtt_us)
    usual = seen.between(at_us - 10 * point.rtt_us, at_us)["pacing_rate_bps"].median()
    peak = rows["pacing_rate_bps"].max() / usual
    return [passed_if(peak <= 1.1, f"while 20 % are lost it is paced at up to {peak:.2f} of its usual rate"
                                   + ("" if peak <= 1.1 else ": it goes on to probe"))]
