# SPDX-License-Identifier: GPL-2.0-only
"""Figures of experiments laid over each other: ellipses, windows and queues over time, times of connections."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.compare import sweeps
from analysis.compare.experiments import Group
from analysis.drawing import gnuplot, style
from analysis.figures import Figure, ellipse
from analysis.flows import per_connection, windows
from analysis.read import series, tcp
from analysis.read.experiment import MOST_DRAWN
from analysis.read.runs import Array, Run

HALF_PX = (560, 380)
PANEL_PX = 190
MOST_FLOWS = 2      # of a run, whose windows are drawn
MOST_POINTS = 1500  # connections of a run in a scatter plot
MOST_BINS = 1000
#: times in an overlay: {label: (times in s, values)}
Curves = dict[str, tuple[Array, Array]]


def draw(group: Group, folder: Path) -> tuple[list[Figure], list[Figure]]:
    """(figures that stand side by side, figures as wide as the page)"""
    folder.mkdir(parents=True, exist_ok=True)
    looks = style.looks(list(group.labels.values()))
    return (list(_ellipses(group, folder, looks)),
            [figure for make in (sweeps.draw, _windows, _queues, _connections)
             for figure in make(group, folder, looks)])


def _ellipses(group: Group, folder: Path, looks: dict[str, style.Look]) -> Iterator[Figure]:
    """One for each row, at the link that is loaded most."""
    for number, row in enumerate(group.rows[:MOST_DRAWN]):
        runs = group.runs(row)
        first = next(run for of_label in runs.values() for run in of_label)
        link = next(iter(first.targets or first.bottlenecks), None)
        if link is None:
            continue
        points: dict[str, tuple[Array, ...]] = {}
        for label, of_label in runs.items():
            found = [pair for run in of_label if link in run.bottlenecks and (pair := ellipse.bins(run, link))]
            if found:
                points[label] = tuple(np.concatenate([pair[axis] for pair in found]) for axis in (0, 1))
        ellipses = ellipse.Ellipses.of(points, {label: np.mean(means, axis=0) for label, of_label in runs.items()
                                                if (means := ellipse.means(of_label, link))})
        if len(ellipses.outlines) > 1:
            name = f"ellipse_{number}"
            ellipse.script(folder, name, ellipses, looks, key=False, size=HALF_PX)
            yield Figure(name, row.label, f"{style.direction(link)}")


def _windows(group: Group, folder: Path, looks: dict[str, style.Look]) -> Iterator[Figure]:
    panels: list[tuple[str, Curves]] = []
    seeds = set()
    for row in group.rows:
        runs = group.one_seed(row)
        numbers = [flow.flow for run in runs.values() for flow in tcp.listed_flows(run)]
        for number in list(dict.fromkeys(numbers))[:MOST_FLOWS]:
            curves: Curves = {}
            for label, run in runs.items():
                flow = next((flow for flow in tcp.listed_flows(run) if flow.flow == number), None)
                table = windows.samples(run, flow) if flow else pd.DataFrame()
                if len(table):
                    table = table.iloc[::math.ceil(len(table) / MOST_BINS)]
                    curves[label] = table["t_us"].to_numpy() / 1e6, table["cwnd"].to_numpy()
                    seeds.add(run.seed)
            if len(curves) > 1:
                panels.append((row.label + (f", flow {number}" if len(set(numbers)) > 1 else ""), curves))
    if panels:
        shown = _overlay(folder, "windows", "cwnd (segments)", panels, looks)
        yield Figure("windows", "Congestion windows laid over each other", (
            f"As sampled by tcp_info, of the same flow with the same start, seed {_list(seeds)}; from the begin of the "
            f"run, warm-up included.{shown}"))


def _queues(group: Group, folder: Path, looks: dict[str, style.Look]) -> Iterator[Figure]:
    panels: list[tuple[str, Curves]] = []
    seeds, names, width_s = set(), set(), 0.0
    for row in group.rows:
        curves: Curves = {}
        for label, run in group.one_seed(row).items():
            found = _queue(run)
            if found is not None:
                link, edges, values = found
                curves[label] = (edges[:-1] + edges[1:]) / 2e6, values
                seeds.add(run.seed)
                names.add(link)
                width_s = (edges[1] - edges[0]) / 1e6
        if len(curves) > 1:
            panels.append((row.label, curves))
    if panels:
        shown = _overlay(folder, "queues", "queue (packets)", panels, looks)
        yield Figure("queues", "Queues laid over each other", (
            f"Mean length in bins of {width_s:g} s, {', '.join(map(style.direction, sorted(names)))}, seed "
            f"{_list(seeds)}; from the begin of the run.{shown}"))


def _queue(run: Run) -> tuple[str, Array, Array] | None:
    """(link, edges of bins in us, mean length of its queue in each)"""
    link = next(iter(run.targets or run.bottlenecks), None)
    samples = series.queue_samples(run, link) if link else None
    if link is None or samples is None:
        return None
    edges = series.plot_edges(run.interval.end_us, least_us=series.sampling_us(samples))
    lengths = samples["backlog_packets"].to_numpy(dtype=float)
    return link, edges, series.bin_means(samples["t_us"].to_numpy(), lengths, np.ones(len(lengths)), edges)


def _connections(group: Group, folder: Path, looks: dict[str, style.Look]) -> Iterator[Figure]:
    """Ratio of completion times against size, one point a connection."""
    kind = per_connection.KINDS[0]
    panels: list[tuple[str, Curves]] = []
    seeds = set()
    for row in group.rows:
        points: Curves = {}
        for label, pairs in group.pairs(row).items():
            table = per_connection.joined(kind, *pairs[0]) if pairs else None
            if table is not None and len(table := table.dropna()):
                # the same connections in every panel, spread over the whole run
                table = table.iloc[::math.ceil(len(table) / MOST_POINTS)]
                points[label] = table["bytes"].to_numpy(), (table["time_us_other"] / table["time_us"]).to_numpy()
                seeds.add(pairs[0][0].seed)
        if points:
            panels.append((row.label, points))
    if panels:
        name = "connections"
        reference = group.labels[group.reference.path]
        shown = _scatter(folder, name, panels, looks, f"completion time / {reference}")
        yield Figure(name, f"Completion time of each connection, divided by that of the same in {reference}", (
            f"At most {MOST_POINTS} connections of seed {_list(seeds)} each, by the bytes of both directions; at 1 a "
            f"connection took the same time in both. Points far from 1 are connections that met a loss in only one of "
            f"them; the times have the waits of the applications in them.{shown}"))


def _list(seeds: set[int]) -> str:
    return ", ".join(map(str, sorted(seeds)))


def _frame(panels: list[tuple[str, Curves]]) -> tuple[list[tuple[str, Curves]], pd.DataFrame, str]:
    """The panels that are drawn, their data in columns, and a sentence of what is left out."""
    drawn = panels[:MOST_DRAWN]
    data = {_column(title, label, axis): pd.Series(values) for title, curves in drawn
            for label, pair in curves.items() for axis, values in zip("xy", pair)}
    rest = len(panels) - len(drawn)
    return drawn, pd.DataFrame(data), f" {rest} more are not drawn." if rest else ""


def _column(title: str, label: str, axis: str) -> str:
    """The name of a column: gnuplot takes a comma for its end."""
    return f"{title} {label} {axis}".replace(",", "")


def _multiplot(folder: Path, name: str, panels: list[tuple[str, Curves]], data: pd.DataFrame, settings: list[str],
               x_label: str, curve: Callable[[str, str, style.Look], str], looks: dict[str, style.Look]) -> None:
    """Small panels with the same axes; labels are named once, above the first panel."""
    columns = 1 if len(panels) <= 3 else 2
    rows = math.ceil(len(panels) / columns)
    height = PANEL_PX * rows + 62 + 22
    body = [f"set multiplot layout {rows},{columns} margins 0.07,0.985,{62 / height},{1 - 50 / height} "
            f"spacing {80 / 1000},{32 / height}", *settings]
    labels = list(dict.fromkeys(label for _, curves in panels for label in curves))
    at = 0.07
    for number, label in enumerate(labels):
        body.append(f"set label {10 + number} {gnuplot.quote(label)} at screen {at:g}, screen {1 - 14 / height:g} "
                    f"textcolor '{looks[label].colour}' font ',13'")
        at += 0.03 + 0.0095 * len(label)
    for index, (title, curves) in enumerate(panels):
        if index == 1:
            body += [f"unset label {10 + number}" for number in range(len(labels))]
        bottom = index >= len(panels) - columns
        body += [f"set label 1 {gnuplot.quote(title)} at graph 0, graph 1.07 font ',13'",
                 f"set xlabel {gnuplot.quote(x_label)}; set xtics format '%g'" if bottom else
                 "unset xlabel; set xtics format ''",
                 gnuplot.plot(*(curve(title, label, looks[label]) for label in curves))]
    gnuplot.draw(folder, name, data, [*body, "unset multiplot"], height=height)


def _overlay(folder: Path, name: str, y_label: str, panels: list[tuple[str, Curves]],
             looks: dict[str, style.Look]) -> str:
    drawn, data, left_out = _frame(panels)
    end_s = max(x.max() for _, curves in drawn for x, _ in curves.values())
    top = max(np.nanmax(y) for _, curves in drawn for _, y in curves.values())

    def curve(title: str, label: str, look: style.Look) -> str:
        x, y = (gnuplot.quote(_column(title, label, axis)) for axis in "xy")
        return f"'{name}.csv' using {x}:{y} with lines linewidth 1.4 linecolor '{look.colour}'"
    _multiplot(folder, name, drawn, data, [
        f"set xrange [0:{end_s:g}]", f"set yrange [0:{1.06 * top or 1:g}]",
        f"set ylabel {gnuplot.quote(y_label)} offset 1"], "time (s)", curve, looks)
    return left_out


def _scatter(folder: Path, name: str, panels: list[tuple[str, Curves]], looks: dict[str, style.Look],
             y_label: str) -> str:
    drawn, data, left_out = _frame(panels)
    xs = np.concatenate([x for _, curves in drawn for x, _ in curves.values()])
    ys = np.concatenate([y for _, curves in drawn for _, y in curves.values()])
    low, high = min(ys.min() / 1.1, 0.8), max(ys.max() * 1.1, 1.25)

    def curve(title: str, label: str, look: style.Look) -> str:
        x, y = (gnuplot.quote(_column(title, label, axis)) for axis in "xy")
        return f"'{name}.csv' using {x}:{y} with points pointtype {look.point} pointsize 0.25 linecolor '{look.colour}'"
    _multiplot(folder, name, drawn, data, [
        "set logscale xy", f"set xrange [{xs.min() / 1.5:g}:{xs.max() * 1.5:g}]", f"set yrange [{low:g}:{high:g}]",
        f"set ytics ({style.log_ticks(low, high)})", f"set ylabel {gnuplot.quote(y_label)} offset 1",
        "set arrow 1 from graph 0, first 1 to graph 1, first 1 nohead dashtype 2 linecolor '#444444'"],
        "bytes", curve, looks)
    return left_out
