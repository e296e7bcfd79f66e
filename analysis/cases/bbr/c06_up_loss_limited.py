# SPDX-License-Identifier: GPL-2.0-only
"""Losses end ProbeBW_UP also where the application is the limit."""

from __future__ import annotations

from analysis.cases import NOTE, OPEN, Finding, Settings, network, passed_if
from analysis.cases.bbr import _blind
from analysis.cases.evidence import Point, Seen

NUMBER = 6
MOMENT = "ProbeBW_UP"
TITLE = "Exiting PROBE_UP on Loss When Application-Limited"
ASKS = ("in ProbeBW_UP the application writes half of what the path carries; when more than 2 % are lost over a round "
        "trip, ProbeBW_DOWN follows")
_LOSS_RTTS = 3


def sensible(point: Point) -> str:
    return "" if point.bdp >= 20 else "losses of a few per cent need some tens of packets in flight"


def first(point: Point) -> Settings:
    duration_s = network.settled_s(point) + 4 + 15 * point.rtt_s
    return network.path(point, duration_s, data=network.at_the_end(duration_s))


def second(point: Point, seen: Seen) -> Settings | None:
    begin_us = seen.entry("ProbeBW_REFILL")
    if begin_us is None:
        return None
    lossy_us = begin_us + 4 * point.rtt_us
    return network.path(point, lossy_us / 1e6 + 20 * point.rtt_s + 1,
                        phases=["at: 0 s", f"{network.at(begin_us)}, rate: {round(point.payload * 4)} bit/s"],
                        data=[f"{network.at(lossy_us)}, loss: 20 %",
                              f"{network.at(lossy_us + _LOSS_RTTS * point.rtt_us)}, loss: 0 %"])


def judge(point: Point, seen: Seen) -> list[Finding]:
    ups = seen.undisturbed("ProbeBW_UP")
    if not ups or ups[0].end_us is None:
        return [passed_if(False, "ProbeBW_UP does not end")]
    up = ups[0]
    before, after = up.rows.iloc[-1], seen.told[seen.told["t_us"] >= up.end_us].iloc[0]
    return [
        passed_if(up.left_why == "high_loss" and up.after == "ProbeBW_DOWN",
                  f"{up.after} because of {up.left_why}; {after['lost'] - up.rows.iloc[0]['lost']} packets lost"),
        Finding(NOTE, f"inflight_longterm {_volume(before['inflight_longterm'])}, then "
                      f"{_volume(after['inflight_longterm'])}: the case wants it adapted \"regardless of the "
                      "application-limited state\"; HandleInflightTooHigh() adapts it only if the sample is not "
                      "application-limited")]


def _volume(packets: int) -> str:
    return "infinite" if packets < 0 else f"{packets} packets"


def blind(point: Point) -> Settings:
    limited_us = _blind.begin_us(point) - 10 * point.rtt_us
    return _blind.path(point, phases=["at: 0 s",
                                      f"{network.at(limited_us)}, rate: {round(point.payload * 4)} bit/s"])


def by_gains(point: Point, seen: Seen) -> list[Finding]:
    begin_us = _blind.begin_us(point)
    before = [one for one in seen.spells() if one.begin_us < begin_us]
    if not before or before[-1].state != "ProbeBW_UP":
        return [Finding(OPEN, "losses did not begin in ProbeBW_UP")]
    up = before[-1]
    rtts = (up.ended_us - begin_us) / point.rtt_us
    # ProbeBW_DOWN may be shorter than a sample: what follows it is ProbeBW_CRUISE
    return [passed_if(up.after in ("ProbeBW_DOWN", "ProbeBW_CRUISE") and rtts <= 3,
                      f"ProbeBW_UP lasts {(up.ended_us - up.begin_us) / point.rtt_us:.0f} round-trip times, to "
                      f"{rtts:.1f} after losses begin; then {up.after or 'the run ends'}")]


def on_wire(point: Point, seen: Seen) -> list[Finding]:
    return _blind.judge(point, seen)
