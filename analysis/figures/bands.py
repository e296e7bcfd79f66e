# SPDX-License-Identifier: GPL-2.0-only
"""Time series as means over seeds with their confidence bands: of one flow or two beside UDP, in bins of 0.25 s; of
flows that share a link under several congestion controls, and of networks with radios, in bins of 0.1 s."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis import stats
from analysis.drawing import gnuplot, legend, style
from analysis.figures import Figure
from analysis.flows import air, quarters
from analysis.read import tcp
from analysis.read.experiment import Experiment, Row
from analysis.read.runs import Array, Run

ORDER = 59
MOST_PANELS = 4         # side by side
MOST_LINES = 6          # in a panel
WIDTH, ROW_PX, TOP_PX, BOTTOM_PX, GAP_PX, LEFT_PX = 1000, 170, 66, 52, 22, 74
Lines = dict[tuple[str, str], Array]  # (quantity, line): a value for each bin


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    """Nothing unless runs of at most a minute have one flow or two beside UDP, or flows of several variants."""
    runs = experiment.usable_runs
    if max(run.interval.end_us for run in runs) > quarters.LONGEST_US:
        return []
    found = []
    if all(1 <= len(tcp.listed_flows(run)) <= quarters.MOST_FLOWS and any(
            flow.transport == "udp" for flow in run.flows) for run in runs):
        found += _draw(experiment, folder, "bands", "Flows in time", quarters.BIN_US, _single)
    if all(len(_variants(run)) > 1 for run in runs):
        found += _draw(experiment, folder, "goodput_bands", "Goodput of the congestion controls in time",
                       quarters.GROUP_BIN_US, _by_variant)
    if all(air.has_radios(run) for run in runs):
        found += _draw(experiment, folder, "air_bands", "The air in time", quarters.GROUP_BIN_US, air.lines)
    return found


def _variants(run: Run) -> dict[str, list[int]]:
    """{variant: numbers of its flows}"""
    found: dict[str, list[int]] = {}
    for flow in tcp.listed_flows(run):
        found.setdefault(tcp.variant_of(flow), []).append(flow.flow)
    return found


def _single(run: Run, edges_us: Array) -> Lines:
    flows = quarters.flows(run, edges_us)
    found: Lines = {}
    for number, flow in sorted(flows.items()):
        whose = f"flow {number}" if len(flows) > 1 else ""
        found["throughput (Mbit/s)", whose] = flow.rates_mbps
        found["round-trip time (ms)", whose] = flow.srtt_ms
    for link in run.targets[:1] if flows else ():
        drops = quarters.drop_percent(run, link, edges_us)
        if drops is not None:
            found["link drops (%)", ""] = drops
    return found


def _by_variant(run: Run, edges_us: Array) -> Lines:
    flows = quarters.flows(run, edges_us)
    return {("goodput, all flows (Mbit/s)", variant): np.sum([flows[number].rates_mbps for number in numbers], axis=0)
            for variant, numbers in _variants(run).items() if set(numbers) <= flows.keys()}


def _draw(experiment: Experiment, folder: Path, name: str, title: str, bin_us: int, lines_of: object) -> list[Figure]:
    """A column of panels for each subject (each point, if there is one subject), a row for each quantity."""
    by_subject = len(experiment.subjects) > 1
    columns: dict[str, list[Row]] = {}
    for row in experiment.drawn:
        columns.setdefault(row.subject if by_subject else _point(experiment, row), []).append(row)
    columns = dict(list(columns.items())[:MOST_PANELS])
    edges = quarters.edges(max(experiment.usable_runs, key=lambda run: run.interval.end_us), bin_us)
    curves: dict[tuple[str, str, str], pd.DataFrame] = {}
    for column, rows in columns.items():
        for row in rows:
            of_runs = [lines_of(run, edges) for run in experiment.usable(row)]       # type: ignore[operator]
            for key in dict.fromkeys(key for lines in of_runs for key in lines):
                words = [key[1], _point(experiment, row) if by_subject else ""]
                line = " ".join(filter(None, words))
                curves[key[0], column, line] = _band([lines[key] for lines in of_runs if key in lines])
    if not curves:
        return []
    _script(experiment, folder, name, list(columns), curves, edges)
    seeds = max(len(experiment.usable(row)) for rows in columns.values() for row in rows)
    spread = f"Lines are means over up to {seeds} seeds, bands their 95 % confidence intervals" if seeds > 1 else \
        "One seed: nothing is known of the spread"
    return [Figure(name, title, f"Bins of {bin_us / 1e6:g} s. {spread}. The shaded time is warm-up and enters no "
                   f"metric.{experiment.drawn_note}")]


def _point(experiment: Experiment, row: Row) -> str:
    return ", ".join(axis.say(value) for axis, value in zip(experiment.axes, row.point) if value)


def _band(values: list[Array]) -> pd.DataFrame:
    """mean, low and high of every bin, over the seeds that have a value in it."""
    summaries = [stats.summarise(known) if (known := [float(one) for one in column if np.isfinite(one)]) else None
                 for column in np.array(values).T]
    return pd.DataFrame([(np.nan,) * 3 if one is None else (
        one.mean, np.nan if one.low is None else one.low, np.nan if one.high is None else one.high)
        for one in summaries], columns=["mean", "low", "high"])


def _script(experiment: Experiment, folder: Path, name: str, columns: list[str],
            curves: dict[tuple[str, str, str], pd.DataFrame], edges: Array) -> None:
    quantities = list(dict.fromkeys(key[0] for key in curves))
    lines = list(dict.fromkeys(key[2] for key in curves))[:MOST_LINES]
    looks = style.looks(lines)
    top_px = TOP_PX + legend.more_px(lines)
    height = top_px + BOTTOM_PX + len(quantities) * (ROW_PX + GAP_PX) - GAP_PX
    wide = (WIDTH - LEFT_PX - 14 + 18) / len(columns)
    start_s = min(run.interval.start_us for run in experiment.usable_runs) / 1e6
    data = {"time_s": pd.Series((edges[:-1] + edges[1:]) / 2e6)}
    body = ["set multiplot", f"set xrange [0:{edges[-1] / 1e6:g}]", "set style fill transparent solid 0.25 noborder",
            legend.above(lines, LEFT_PX / WIDTH, height)]
    if start_s > 0:
        body.append(f"set object 1 rectangle from 0, graph 0 to {start_s:g}, graph 1 behind fillcolor '#eeeeee' "
                    "fillstyle solid noborder")
    for place, quantity in enumerate(quantities):
        top, last = 1 - (top_px + place * (ROW_PX + GAP_PX)) / height, place == len(quantities) - 1
        of_row = [table for key, table in curves.items() if key[0] == quantity]
        highest = max(min(float(table["high"].max()), 1.5 * float(table["mean"].max()))
                      if table["high"].notna().any() else float(table["mean"].max()) for table in of_row)
        for number, column in enumerate(columns):
            left = (LEFT_PX + number * wide) / WIDTH
            body += [f"set tmargin at screen {top:g}; set bmargin at screen {top - ROW_PX / height:g}",
                     f"set lmargin at screen {left:g}; set rmargin at screen {left + (wide - 18) / WIDTH:g}",
                     f"set yrange [0:{1.06 * highest if highest > 0 else 1:g}]",
                     f"set ylabel {gnuplot.quote(quantity)} offset 0; set ytics format '%g'" if not number else
                     "unset ylabel; set ytics format ''",
                     "set xlabel 'time (s)'; set xtics format '%g'" if last else "unset xlabel; set xtics format ''",
                     f"set label 1 {gnuplot.quote(column)} at graph 0, graph 1.07 font ',13'"
                     if not place else "unset label 1"]
            bands, means = [], []
            for line in lines:
                table = curves.get((quantity, column, line))
                if table is None:
                    continue
                # as gnuplot.quote spells it
                key = " ".join(f"{quantity} {column} {line}".replace(",", "").split())
                data |= {f"{key} {part}": table[part] for part in table}
                mean, low, high = (gnuplot.quote(f"{key} {part}") for part in ("mean", "low", "high"))
                if table["low"].notna().any():
                    bands.append(f"'{name}.csv' using 'time_s':(column({low}) < 0 ? 0 : column({low})):{high} "
                                 f"with filledcurves fillcolor '{looks[line].colour}'")
                title = f" title {gnuplot.quote(line)}" if line else ""
                means.append(f"'{name}.csv' using 'time_s':{mean} with lines linewidth 1.6 "
                             f"linecolor '{looks[line].colour}'{title}")
            body += [gnuplot.plot(*bands, *means) if means else "plot NaN", "unset key"]
    gnuplot.draw(folder, name, pd.DataFrame(data), [*body, "unset multiplot"], width=WIDTH, height=height)
