# SPDX-License-Identifier: GPL-2.0-only
"""ProbeRTT, once the shortest round trip is ten seconds old."""

from __future__ import annotations

import math

from analysis.cases import Finding, Settings, network, passed_if
from analysis.cases.evidence import FRAME_BYTES, Point, Seen

NUMBER = 10
MOMENT = "ProbeRTT"
TITLE = "Entering and Exiting PROBE_RTT"
ASKS = ("ten seconds without a shorter round trip, and longer ones at the end: ProbeRTT with a window of half the BDP "
        "of the old min_rtt, for 200 ms and a round trip, then ProbeBW")


def sensible(point: Point) -> str:
    return ""


def first(point: Point) -> Settings:
    settled_s = network.settled_s(point)
    # the path becomes longer by a quarter, as if a queue stood there
    return network.path(point, settled_s + 14 + 20 * point.rtt_s,
                        data=[f"{network.at(1e6 * settled_s)}, delay: {round(0.75 * point.rtt_us)} us"])


def judge(point: Point, seen: Seen) -> list[Finding]:
    begun_us = network.settled_s(point) * 1e6
    spells = [one for one in seen.spells("ProbeRTT") if one.begin_us > begun_us]
    if not spells or spells[0].end_us is None:
        return [passed_if(False, "there is no ProbeRTT that ends")]
    spell = spells[0]
    before = seen.told[seen.told["t_us"] < spell.begin_us].iloc[-1]
    last_lower = seen.told[(seen.told["t_us"] < spell.begin_us)
                           & (seen.told["min_rtt_us"] < seen.told["min_rtt_us"].shift())]["t_us"]
    wanted = max(4, math.ceil(before["bw"] * before["min_rtt_us"] / 2e6 / 1448))
    target = spell.rows["probe_rtt_cwnd"].unique()
    took_ms = (spell.ended_us - spell.begin_us) / 1000
    inflated = spell.rows["min_rtt_us"].iloc[0] > before["min_rtt_us"]
    since_us = spell.begin_us - (last_lower.max() if len(last_lower) else 0)
    most_ms = 220 + 4 * max(point.rtt_us / 1e3, 4 * FRAME_BYTES * 8e3 / point.rate_bps)
    return [
        passed_if(spell.why == "min_rtt_expired" and since_us >= 9.9e6 - 2 * point.rtt_us,
                  f"it begins {since_us / 1e6:.1f} s after the last lower min_rtt that was traced"),
        passed_if(bool((spell.rows["cwnd_gain"] == 50).all()),
                  f"the window's gain is {spell.rows['cwnd_gain'].iloc[0]} %"),
        passed_if(len(target) == 1 and abs(target[0] - wanted) <= 1,
                  f"probe_rtt_cwnd is {', '.join(map(str, target))} packets, half of the BDP of the old min_rtt is "
                  f"{wanted}" + ("; the new sample is longer" if inflated else "")),
        passed_if(200 <= took_ms <= most_ms and str(spell.after).startswith("ProbeBW"),
                  f"it takes {took_ms:.0f} ms, then {spell.after}")]


def on_wire(point: Point, seen: Seen) -> list[Finding]:
    begun_us = (network.settled_s(point) + 2) * 1e6
    rows = seen.wire[seen.wire["t_us"] > begun_us]
    least, usual = rows["cwnd"].min(), rows["cwnd"].median()
    wanted = max(4, math.ceil(point.bdp / 2))
    return [passed_if(abs(least - wanted) <= max(2, 0.15 * wanted),
                      f"the smallest window is {least} packets (usually {usual:.0f}); half of the BDP is {wanted}")]
