# SPDX-License-Identifier: GPL-2.0-only
"""Connection vectors side by side: distributions, the load over time, a table of marginals, as a page."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.drawing import gnuplot, style
from analysis.pages import page_folder, templates
from analysis.read.runs import AnalysisError, Array
from analysis.stats import hurst
from traffic.tmix.batch import Batch
from traffic.tmix.load import Pieces, pieces
from traffic.tmix.marginals import connection_bytes, marginals
from traffic.tmix.vectors import ACCEPTOR, INITIATOR

#: bins of the load over time, and from which on H is fitted: below it is the shape of single transfers
BIN_S, FIT_FROM_S = 0.01, 1.0
#: the first connections find no long ones under way: the load is looked at from this share of the trace on
SETTLED_SHARE = 0.2
_MOST_BINS = 50_000_000
_MOST_POINTS = 300
_FILES = {"index.html", "marginals.csv", "vectors.csv", "vectors.gp", "vectors.svg", "vectors.png", "vectors.pdf"}
_BYTES = "'1 B' 1, '100 B' 100, '10 kB' 1e4, '1 MB' 1e6, '100 MB' 1e8, '10 GB' 1e10"
_SECONDS = ("'1 us' 1e-6, '10 us' 1e-5, '100 us' 1e-4, '1 ms' 1e-3, '10 ms' 1e-2, '100 ms' .1, '1 s' 1, '10 s' 10, "
            "'100 s' 100, '1000 s' 1000, '10000 s' 1e4")


@dataclass(frozen=True)
class Described:
    """What is drawn of a trace. Sizes in bytes of payload, times in seconds."""
    label: str
    marginals: dict[str, float]
    connection_bytes: Array             # of both sides
    adu_bytes: tuple[Array, Array]      # of initiators and of acceptors
    data_s: Array                       # from a connection's first packet to its last data
    adus: Array                         # per connection
    gaps_s: Array                       # between starts
    load_bps: float                     # from the acceptors, from SETTLED_SHARE of the trace on
    octaves: list[hurst.Octave]
    hurst: hurst.Hurst | None


def describe(label: str, batch: Batch, rate_bps: float) -> Described:
    """rate_bps: at which transfers proceed; round-trip times are the trace's own. AnalysisError for an empty trace."""
    if not len(batch):
        raise AnalysisError(f"{label}: no connections")
    explicit = batch.with_explicit_fins()
    wire = pieces(explicit, np.maximum(explicit.min_rtt_us, 0), rate_bps)
    data = batch.size_bytes > 0
    from_us, to_us = SETTLED_SHARE * float(batch.start_us.max()), float(batch.start_us.max())
    rates = load_over_time(wire, explicit.start_us, ACCEPTOR, from_us, to_us)
    found = hurst.octaves(rates, BIN_S)
    return Described(
        label, marginals(batch), connection_bytes(batch).sum(axis=0),
        (batch.size_bytes[data & (batch.side == INITIATOR)], batch.size_bytes[data & (batch.side == ACCEPTOR)]),
        wire.data_end_us / 1e6, np.bincount(batch.owner[data], minlength=len(batch)),
        np.diff(np.sort(batch.start_us)) / 1e6, float(rates.mean()) if len(rates) else 0.0, found,
        hurst.estimate(found, FIT_FROM_S))


def load_over_time(wire: Pieces, start_us: Array, side: int, from_us: float, to_us: float) -> Array:
    """bit/s that a side offers in the bins of BIN_S from from_us on, as many as are over by to_us."""
    count = max(int((to_us - from_us) / 1e6 / BIN_S), 0)
    if count > _MOST_BINS:
        raise AnalysisError(f"a trace of {to_us / 1e6:.0f} s is too long to be drawn; at most "
                            f"{_MOST_BINS * BIN_S:.0f} s")
    sent = wire.wire_bytes[side] > 0
    starts = np.asarray(start_us, float)[wire.owner[sent]]
    begin = starts + wire.begin_us[sent]
    end = np.maximum(starts + wire.end_us[sent], begin + 1)
    slope = wire.wire_bytes[side][sent] / (end - begin)
    edges = from_us + np.arange(count + 1) * BIN_S * 1e6
    sent_bytes = np.diff(_ramp(begin, slope, edges) - _ramp(end, slope, edges))
    return np.maximum(sent_bytes, 0) * 8 / BIN_S            # rounding may leave less than nothing


def _ramp(times: Array, slopes: Array, at: Array) -> Array:
    """Sum of slopes * max(at - times, 0)."""
    order = np.argsort(times, kind="stable")
    passed = np.searchsorted(times[order], at, "right")
    of_slopes = np.concatenate([[0.0], np.cumsum(slopes[order])])
    of_offsets = np.concatenate([[0.0], np.cumsum(slopes[order] * times[order])])
    return np.asarray(of_slopes[passed] * at - of_offsets[passed])


# -- the page ------------------------------------------------------------------------------------

def write(described: Sequence[Described], rate_bps: float, folder: Path, command: str) -> Path:
    """Write folder/index.html, marginals.csv and vectors.* (data, script, SVG, PNG); returns the path of the page.

    AnalysisError when the folder is there and is not one of these, EnvironmentProblem when it cannot be written.
    """
    with page_folder(folder, _FILES, "page of connection vectors") as building:
        draw(described, building)
        table(described).to_csv(building / "marginals.csv", index=False, float_format="%.6g")
        picture = base64.b64encode((building / "vectors.svg").read_bytes()).decode("ascii")
        (building / "index.html").write_text(templates().get_template("vectors.html.j2").render(
            rows=[_cells(one) for one in described], picture=f"data:image/svg+xml;base64,{picture}",
            rate=style.rate(rate_bps), settled=f"{100 * SETTLED_SHARE:g}", command=command), encoding="utf-8",
            errors="replace")
    return folder / "index.html"


def table(described: Sequence[Described]) -> pd.DataFrame:
    """A row for each trace: marginals, load, H with its 95 % interval and the bins that it was fitted to."""
    return pd.DataFrame([{
        "name": one.label, "connections": len(one.adus), **one.marginals, "adus_per_connection": one.adus.mean(),
        "load_bps": one.load_bps, **{
            column: math.nan if one.hurst is None else getattr(one.hurst, field) for column, field in (
                ("hurst", "value"), ("hurst_low", "low"), ("hurst_high", "high"), ("hurst_from_s", "from_s"),
                ("hurst_to_s", "to_s"))}} for one in described])


def _cells(one: Described) -> dict[str, object]:
    found = one.marginals
    return {"name": one.label, "connections": len(one.adus), "median": style.size(found["median_bytes"]),
            "mean": style.size(found["mean_bytes"]), "largest": style.size(found["largest_bytes"]),
            "top": f"{100 * found['top_percent_share']:.0f} %", "above": f"{100 * found['above_1mb_share']:.0f} %",
            "adus": f"{one.adus.mean():.1f}", "load": style.rate(float(f"{one.load_bps:.3g}")),
            "hurst": "–" if one.hurst is None else
            f"{one.hurst.value:.2f} ({one.hurst.low:.2f} to {one.hurst.high:.2f})",
            "fitted": "–" if one.hurst is None else f"{one.hurst.from_s:.3g} to {one.hurst.to_s:.3g} s"}


def draw(described: Sequence[Described], folder: Path) -> None:
    """folder/vectors.csv, .gp, .svg and .png: six panels."""
    looks = style.looks([one.label for one in described])
    data: dict[str, Array] = {}

    def curve(name: str, one: Described, x: Array, y: Array, dash: int = 1, title: bool = False,
              way: str = "lines") -> str:
        """A curve of one trace, its points in two columns of the table."""
        if not len(x):
            return ""
        look = looks[one.label]
        data[f"{one.label} {name} x"], data[f"{one.label} {name} y"] = x, y
        legend = f" title {gnuplot.quote(one.label)}" if title else ""
        points = f" pointtype {look.point} pointsize 0.6" if way != "lines" else ""
        return (f"'vectors.csv' using {len(data) - 1}:{len(data)} with {way} linewidth 2 "
                f"linecolor '{look.colour}' dashtype {dash}{points}{legend}")

    def distributions(name: str, values: Sequence[Array], dash: int = 1, title: bool = False) -> list[str]:
        return [curve(name, one, *ccdf(of), dash, title) for one, of in zip(described, values)]

    panels = [
        ("connection size, both sides", _BYTES, distributions(
            "connection bytes", [one.connection_bytes for one in described], title=True)),
        ("ADU size (solid: acceptors, dashed: initiators)", _BYTES,
         distributions("acceptor ADU bytes", [one.adu_bytes[ACCEPTOR] for one in described])
         + distributions("initiator ADU bytes", [one.adu_bytes[INITIATOR] for one in described], dash=2)),
        ("duration on an idle path", _SECONDS, distributions("data s", [one.data_s for one in described])),
        ("ADUs of a connection", "'1' 1, '10' 10, '100' 100, '1000' 1000, '10000' 1e4, '100000' 1e5, '1000000' 1e6",
         distributions("ADUs", [one.adus for one in described])),
        ("time between starts of connections", _SECONDS,
         distributions("gap s", [one.gaps_s for one in described])),
        ("length of a bin", _SECONDS,
         [curve("octaves", one, np.array([octave.bin_s for octave in one.octaves]),
                np.array([octave.variance for octave in one.octaves]), way="linespoints") for one in described])]
    if any(one.octaves for one in described):
        # from the largest variance at a second on
        begin, end, top = FIT_FROM_S, max(one.octaves[-1].bin_s for one in described if one.octaves), max(
            octave.variance for one in described for octave in one.octaves)
        data["slope -1 x"], data["slope -1 y"] = np.array([begin, end]), np.array([top, top * begin / end])
        panels[-1][2].append(f"'vectors.csv' using {len(data) - 1}:{len(data)} with lines linewidth 1.5 dashtype 3 "
                             f"linecolor '{style.GREY}' title 'slope -1: independent bins, H = 0.5'")
    body = ["set multiplot layout 3,2 margins 0.08,0.98,0.065,0.985 spacing 0.1,0.085", "set logscale xy",
            "set key top right samplen 2"]
    for place, (x_label, x_tics, curves) in enumerate(panels):
        last = place == len(panels) - 1
        body += [f"set xlabel {gnuplot.quote(x_label)}", f"set xtics ({x_tics})", "set autoscale",
                 f"set ylabel '{'variance of the load / mean²' if last else 'share above'}'",
                 "set ytics ('1' 1, '0.1' .1, '0.01' .01, '0.001' 1e-3, '1e-4' 1e-4, '1e-5' 1e-5, '1e-6' 1e-6, "
                 "'10' 10, '100' 100, '1000' 1000, '1e4' 1e4)",
                 # a trace of one connection has no time between starts
                 gnuplot.plot(*filter(None, curves)) if any(curves) else "plot [1:10] [1:10] NaN"]
        if place == 0:
            body.append("unset key")
        elif place == len(panels) - 2:
            body.append("set key bottom left samplen 3")
    body.append("unset multiplot")
    longest = max(map(len, data.values()), default=0)
    padded = {name: np.concatenate([np.asarray(values, float), np.full(longest - len(values), np.nan)])
              for name, values in data.items()}
    gnuplot.draw(folder, "vectors", pd.DataFrame(padded), body, width=1000, height=1100)


def ccdf(values: Array) -> tuple[Array, Array]:
    """(x, share of the values above x): some hundred points, the closer the farther in the tail; x > 0."""
    values = np.sort(np.asarray(values, float))
    values = values[values > 0]
    count = len(values)
    # how many values are above each point: 0 is no place on a logarithmic axis
    above = np.unique(np.geomspace(1, max(count - 1, 1), _MOST_POINTS).astype(int))[::-1]
    above = above[above < count]
    return values[count - 1 - above], above / max(count, 1)
