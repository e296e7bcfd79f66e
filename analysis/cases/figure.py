# SPDX-License-Identifier: GPL-2.0-only
"""The figure of a case: the states over time, what is in flight and the window beside the model, and the rates."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.cases.evidence import Point, Seen
from analysis.drawing import gnuplot, style

_HEIGHT_PX = 520
_SHADES = {"Startup": "#f6d5c3", "Drain": "#d9d9d9", "ProbeBW_DOWN": "#d5e5f0", "ProbeBW_CRUISE": "#ffffff",
           "ProbeBW_REFILL": "#fdf1cf", "ProbeBW_UP": "#d3ecdf", "ProbeRTT": "#ecdbe8"}
_MOST_SHADES = 80


def draw(seen: Seen, point: Point, moment: str, folder: Path, name: str) -> None:
    """Write NAME.svg and NAME.csv into the folder. moment: a state; the first time in it, with as much around it."""
    begin_us, end_us = _span(seen, point, moment)
    wire = seen.between(begin_us, end_us)
    data = {"t": wire["t_us"] / 1e6, "window": wire["cwnd"],
            "not acknowledged": wire["unacked"] - wire["lost"] + wire["retrans"],
            "pacing rate": wire["pacing_rate_bps"] / 1e6}
    # samples of a socket do not say how much of what is unacknowledged the receiver has reported
    volumes = [("not acknowledged", "t", "not acknowledged", 0), ("window", "t", "window", 1)]
    rates = [("pacing rate", "t", "pacing rate", 0)]
    body: list[str] = []
    if seen.model is not None:
        rows = seen.model[(seen.model["t_us"] >= begin_us) & (seen.model["t_us"] <= end_us)].reset_index(drop=True)
        volumes[0] = "in flight", "s", "in flight", 0
        data |= {"s": rows["t_us"] / 1e6, "in flight": rows["inflight"], "Inflight(1.0)": rows["bdp"],
                 "inflight_longterm": rows["inflight_longterm"].where(rows["inflight_longterm"] >= 0),
                 "max_bw": rows["max_bw"] * 8e-6, "bw": rows["bw"] * 8e-6}
        volumes += [("Inflight(1.0)", "s", "Inflight(1.0)", 2), ("inflight_longterm", "s", "inflight_longterm", 3)]
        rates += [("max_bw", "s", "max_bw", 2), ("bw", "s", "bw", 4)]
    shaded = seen.model is not None or seen.gains is not None
    if shaded:
        for spell in seen.spells():
            first, last = spell.begin_us, spell.end_us or end_us
            if last < begin_us or first > end_us or len(body) > _MOST_SHADES:
                continue
            body.append(f"set object rectangle from first {max(first, begin_us) / 1e6:.6f}, graph 0 to first "
                        f"{min(last, end_us) / 1e6:.6f}, graph 1 behind fillcolor rgb '{_SHADES[spell.state]}' "
                        "fillstyle solid noborder")
    table = pd.DataFrame({column: pd.Series(values).reset_index(drop=True) for column, values in data.items()})
    legend = [f"set label {20 + place} {gnuplot.quote(state)} at screen {0.09 + 0.13 * place:g}, screen 0.975 "
              f"textcolor rgb '#50565c' font ',10' front" for place, state in enumerate(_SHADES)]
    swatches = [f"set object {20 + place} rectangle at screen {0.08 + 0.13 * place:g}, screen 0.975 size screen 0.012, "
                f"screen 0.025 fillcolor rgb '{shade}' fillstyle solid border rgb '#8a8a8a' front"
                for place, shade in enumerate(_SHADES.values())] if shaded else []
    payload = point.payload * 8e-6
    gnuplot.draw(folder, name, table, [
        "set multiplot layout 2,1 margins 0.08,0.985,0.1,0.93 spacing 0.05,0.05",
        *(legend if swatches else []), *swatches,
        f"set xrange [{begin_us / 1e6:.6f}:{end_us / 1e6:.6f}]", "set yrange [0:*]", "set format x ''", "unset xlabel",
        "set key bottom right opaque", *body, "set ylabel 'packets'", gnuplot.plot(*_lines(name, volumes)),
        "set format x '%g'", "set xlabel 'time (s)'", "set ylabel 'Mbit/s of payload'",
        *(["unset label"] if swatches else []),
        gnuplot.plot(*_lines(name, rates), f"{payload:g} with lines dashtype 2 linecolor '{style.GREY}' title 'path'"),
        "unset multiplot"], height=_HEIGHT_PX)


def _lines(name: str, curves: list[tuple[str, str, str, int]]) -> list[str]:
    return [f"'{name}.csv' using {gnuplot.quote(x)}:{gnuplot.quote(y)} with steps linewidth 1.6 "
            f"linecolor '{style.PALETTE[colour]}' title {gnuplot.quote(title.replace('_', ' '))}"
            for title, x, y, colour in curves]


def _span(seen: Seen, point: Point, moment: str) -> tuple[float, float]:
    last_us = float(seen.wire["t_us"].max())
    if seen.model is None and seen.gains is None or not moment:
        return 0.0, last_us
    spells = seen.spells(moment)
    if not spells:
        return 0.0, last_us
    spell = spells[0]
    end_us = spell.end_us or last_us
    around_us = max(6 * point.rtt_us, min(0.5 * (end_us - spell.begin_us), 5e6))
    return max(0.0, spell.begin_us - around_us), min(last_us, end_us + around_us)
