# SPDX-License-Identifier: GPL-2.0-only
"""The figure of a case: the states over time, what is in flight and the window beside the model, and the rates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from analysis.cases.evidence import Point, Seen
from analysis.drawing import gnuplot, style
from analysis.read import zooms
from analysis.read.runs import Array

#: the colour behind a state
SHADES = {"Startup": "#f6d5c3", "Drain": "#d9d9d9", "ProbeBW_DOWN": "#d5e5f0", "ProbeBW_CRUISE": "#ffffff",
          "ProbeBW_REFILL": "#fdf1cf", "ProbeBW_UP": "#d3ecdf", "ProbeRTT": "#ecdbe8"}
_HEIGHT_PX = 520
_MOST_SHADES = 80
_MOST_SPANS = 100


class Curve(NamedTuple):
    """chart: packets or rates; colour: of the palette."""

    chart: str
    name: str
    t_us: pd.Series[int]
    values: pd.Series[float]
    colour: int


def draw(seen: Seen, point: Point, moment: str, folder: Path, name: str) -> None:
    """Write NAME.svg and NAME.csv into the folder. moment: a state; the first time in it, with as much around it."""
    begin_us, end_us = span(seen, point, moment)
    shown = curves(seen, begin_us, end_us)
    body: list[str] = []
    shaded = seen.model is not None or seen.gains is not None
    if shaded:
        for spell in seen.spells():
            first, last = spell.begin_us, spell.end_us or end_us
            if last < begin_us or first > end_us or len(body) > _MOST_SHADES:
                continue
            body.append(f"set object rectangle from first {max(first, begin_us) / 1e6:.6f}, graph 0 to first "
                        f"{min(last, end_us) / 1e6:.6f}, graph 1 behind fillcolor rgb '{SHADES[spell.state]}' "
                        "fillstyle solid noborder")
    table = pd.DataFrame({column: pd.Series(values) for one in shown for column, values in _thinned(one)})
    legend = [f"set label {20 + place} {gnuplot.quote(state)} at screen {0.09 + 0.13 * place:g}, screen 0.975 "
              f"textcolor rgb '#50565c' font ',10' front" for place, state in enumerate(SHADES)]
    swatches = [f"set object {20 + place} rectangle at screen {0.08 + 0.13 * place:g}, screen 0.975 size screen 0.012, "
                f"screen 0.025 fillcolor rgb '{shade}' fillstyle solid border rgb '#8a8a8a' front"
                for place, shade in enumerate(SHADES.values())] if shaded else []
    payload = point.payload * 8e-6
    gnuplot.draw(folder, name, table, [
        "set multiplot layout 2,1 margins 0.08,0.835,0.1,0.93 spacing 0.05,0.05",
        *(legend if swatches else []), *swatches,
        f"set xrange [{begin_us / 1e6:.6f}:{end_us / 1e6:.6f}]", "set yrange [0:*]", "set format x ''", "unset xlabel",
        "set key left top Left reverse samplen 1.5 at graph 1.01,1", *body, "set ylabel 'packets'",
        gnuplot.plot(*_lines(name, shown, "packets")),
        "set format x '%g'", "set xlabel 'time (s)'", "set ylabel 'Mbit/s of payload'",
        *(["unset label"] if swatches else []),
        gnuplot.plot(*_lines(name, shown, "rates"),
                     f"{payload:g} with lines dashtype 2 linecolor '{style.GREY}' title 'path'"),
        "unset multiplot"], height=_HEIGHT_PX)


def curves(seen: Seen, begin_us: float, end_us: float) -> list[Curve]:
    """What is drawn of this time; packets and Mbit/s of payload."""
    wire = seen.between(begin_us, end_us)
    # samples of a socket do not say how much of what is unacknowledged the receiver has reported
    in_flight = Curve("packets", "not acknowledged", wire["t_us"], wire["unacked"] - wire["lost"] + wire["retrans"],
                      0)
    window = Curve("packets", "window", wire["t_us"], wire["cwnd"], 1)
    pacing = Curve("rates", "pacing rate", wire["t_us"], wire["pacing_rate_bps"] / 1e6, 0)
    if seen.model is None:
        return [in_flight, window, pacing]
    model = seen.model[(seen.model["t_us"] >= begin_us) & (seen.model["t_us"] <= end_us)]

    def told(chart: str, name: str, values: pd.Series[float], colour: int) -> Curve:
        return Curve(chart, name, model["t_us"], values, colour)

    bound = model["inflight_longterm"]
    return [told("packets", "in flight", model["inflight"], 0), window,
            told("packets", "Inflight(1.0)", model["bdp"], 2),
            told("packets", "inflight_longterm", bound.where(bound >= 0), 3), pacing,
            told("rates", "max_bw", model["max_bw"] * 8e-6, 2), told("rates", "bw", model["bw"] * 8e-6, 4)]


def states(seen: Seen) -> list[tuple[float, float, str, str]]:
    """(from, to, state, its shade) of the whole run, s."""
    if seen.model is None and seen.gains is None:
        return []
    return [(spell.begin_us / 1e6, (spell.end_us or seen.last_us) / 1e6, spell.state, SHADES[spell.state])
            for spell in seen.spells()]


def _thinned(one: Curve) -> Iterator[tuple[str, Array]]:
    """Its columns: times in s, and values."""
    t_s, values = one.t_us.to_numpy(dtype=float) / 1e6, one.values.to_numpy(dtype=float)
    kept = zooms.thinned(t_s, values, _MOST_SPANS)
    yield _clock(one), t_s[kept]
    yield one.name, values[kept]


def _clock(one: Curve) -> str:
    return f"time of {one.name}"


def _lines(name: str, shown: list[Curve], chart: str) -> list[str]:
    return [f"'{name}.csv' using {gnuplot.quote(_clock(one))}:{gnuplot.quote(one.name)} with steps linewidth 1.6 "
            f"linecolor '{style.PALETTE[one.colour]}' title {gnuplot.quote(one.name.replace('_', ' '))}"
            for one in shown if one.chart == chart]


def span(seen: Seen, point: Point, moment: str) -> tuple[float, float]:
    """From when to when a moment is shown, with as much around it as shows it, microseconds; else the whole run."""
    last_us = seen.last_us
    if seen.model is None and seen.gains is None or not moment:
        return 0.0, last_us
    spells = seen.spells(moment)
    if not spells:
        return 0.0, last_us
    spell = spells[0]
    end_us = spell.end_us or last_us
    around_us = max(6 * point.rtt_us, min(0.5 * (end_us - spell.begin_us), 5e6))
    return max(0.0, spell.begin_us - around_us), min(last_us, end_us + around_us)
