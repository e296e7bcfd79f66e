# SPDX-License-Identifier: GPL-2.0-only
"""A token bucket that drops what exceeds half of the path's rate."""

from __future__ import annotations

from analysis.cases import Finding, Settings, network, passed_if
from analysis.cases.evidence import Point, Seen

NUMBER = 17
TITLE = "Handling Token Bucket Policers"
ASKS = ("when the tokens are used up, inflight_shortterm and bw_shortterm become finite; in the end the flow has about "
        "the token rate, without lasting losses (below 5 % here)")
_SHARE = 0.5
_MOST_LOST = 0.05
_BURST_S = 1
_LAST_S = 10


def sensible(point: Point) -> str:
    return "" if point.bdp >= 16 else "half of the BDP is near the floor of the window"


def first(point: Point) -> Settings:
    burst = max(30_000, round(_SHARE * point.rate_bps / 8 * _BURST_S))
    rate = round(_SHARE * point.rate_bps)
    return network.path(point, _end_s(point), policer=f"{{rate: {rate} bit/s, burst: {burst} B}}")


def _end_s(point: Point) -> float:
    return network.settled_s(point) + 25 + 20 * point.rtt_s


def judge(point: Point, seen: Seen) -> list[Finding]:
    rows = seen.probe_bw()
    finite = rows[(rows["bw_shortterm"] >= 0) & (rows["inflight_shortterm"] >= 0)]
    if not len(rows):
        return [passed_if(False, "it does not reach ProbeBW")]
    share = len(finite) / len(rows)
    return [passed_if(share > 0, f"both short-term bounds are finite in {share:.0%} of the events in ProbeBW"),
            *on_wire(point, seen)]


def on_wire(point: Point, seen: Seen) -> list[Finding]:
    end_us = 1e6 * _end_s(point)
    begin_us = end_us - 1e6 * _LAST_S
    lost = seen.lost_share(begin_us, end_us)
    goodput = seen.goodput(begin_us, end_us) / point.payload / _SHARE
    return [passed_if(lost <= _MOST_LOST, f"in the last ten seconds {lost:.1%} are lost"),
            # tokens that the bucket has when these seconds begin come on top (the bound was 1.02 at first)
            passed_if(0.7 <= goodput <= 1.02 + _BURST_S / _LAST_S, f"it has {goodput:.1%} of the token rate")]
