# SPDX-License-Identifier: GPL-2.0-only
"""Throughput against queueing delay: one covariance ellipse per row, over time and over seeds.

The form of the figures in Winstein and Balakrishnan, "TCP ex Machina:
Computer-Generated Congestion Control" (SIGCOMM 2013).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.drawing import gnuplot, labels, legend, style
from analysis.figures import Figure
from analysis.metrics import load_metrics
from analysis.read import series
from analysis.read.experiment import Experiment
from analysis.read.runs import Array, Run

ORDER = 10
OVERVIEW = 10
CORNERS = 360
LEAST_POINTS = 3
_BETTER = "Up and to the right is better: more throughput, less queueing delay (the delay axis grows to the left)."
_SIGMA = "which would hold 39\u00a0% of normally distributed points."
_CUT = "There is no delay below zero: ellipses end there."
MOST_LINKS = 4
WIDTH, HEIGHT = 1000, 520
# edges of the plot, px; the other two this far from the others of the picture
LEFT, BOTTOM, MARGIN = 92, 66, 15


def covariance_ellipse(x: Array, y: Array) -> Array:
    """Outline of the 1-sigma ellipse of the sample covariance, shape (CORNERS + 1, 2).

    Points at Mahalanobis distance 1 from the mean.
    """
    values, vectors = np.linalg.eigh(np.cov(x, y))
    angle = np.linspace(0, 2 * np.pi, CORNERS + 1)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    # Rounding can make the smaller eigenvalue of perfectly correlated data negative.
    return (np.array([[x.mean()], [y.mean()]])
            + vectors @ (np.sqrt(np.clip(values, 0, None))[:, None] * circle)).T


@dataclass(frozen=True)
class Ellipses:
    """Of each row: the outline, cut off at zero, the mean, and of how many points."""

    outlines: dict[str, Array]
    centres: dict[str, Array]
    counts: dict[str, int]

    @classmethod
    def of(cls, points: dict[str, tuple[Array, ...]], centres: dict[str, Array] | None = None) -> Ellipses:
        """points: {label: (delays, throughputs)}; rows with fewer than LEAST_POINTS are left out.

        centres: {label: (delay, throughput)} about which ellipses are drawn; without, the means of the points.
        """
        kept = {label: pair for label, pair in points.items() if len(pair[0]) >= LEAST_POINTS}
        means = {label: np.array([pair[0].mean(), pair[1].mean()]) for label, pair in kept.items()}
        about = {label: (centres or {}).get(label, mean) for label, mean in means.items()}
        return cls({label: np.maximum(covariance_ellipse(*pair) + about[label] - means[label], 0)
                    for label, pair in kept.items()}, about, {label: len(pair[0]) for label, pair in kept.items()})


def means(runs: Sequence[Run], link: str) -> list[tuple[float, float]]:
    """(queueing delay, throughput) of each run as the tables have them: the mean over packets, and over time."""
    found = list[tuple[float, float]]()
    for run in runs:
        metrics = load_metrics(run)
        of_link = metrics[metrics["scope"] == link].set_index("metric")["value"]
        if {"queueing_delay_mean", "throughput_mean"} <= set(of_link.index):
            found.append((float(of_link["queueing_delay_mean"]), float(of_link["throughput_mean"])))
    return found


def bins(run: Run, link: str) -> tuple[Array, Array] | None:
    """Queueing delay (ms) and throughput (Mbit/s) of the bins of 1 s."""
    samples = series.queue_samples(run, link)
    if samples is None:
        return None
    edges = series.metric_edges(run, samples)
    delay = series.queueing_delay_ms(run, link, edges)
    if delay is None:
        return None
    known = np.isfinite(delay)
    return delay[known], series.throughput_mbps(samples, edges)[known]


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    """One figure for each link that is loaded; for every bottleneck when none is known to be."""
    first = experiment.usable_runs[0]
    links = (first.targets or list(first.bottlenecks))[:MOST_LINKS]
    return [figure for link in links for figure in _draw_link(experiment, folder, link)]


def _draw_link(experiment: Experiment, folder: Path, link: str) -> list[Figure]:
    """The ellipse over time, and with three seeds or more the one over seeds."""
    found_bins = {row.label: [found for run in experiment.usable(row) if (found := bins(run, link))]
                  for row in experiment.drawn}
    of_runs = {row.label: each for row in experiment.drawn if (each := means(experiment.usable(row), link))}
    over_time = Ellipses.of({label: tuple(np.concatenate([pair[axis] for pair in found] or [[]]) for axis in (0, 1))
                             for label, found in found_bins.items()},
                            {label: np.mean(each, axis=0) for label, each in of_runs.items()})
    over_seeds = Ellipses.of({label: tuple(np.array(each).T) for label, each in of_runs.items()})
    figures = []
    where, looks = style.direction(link), experiment.looks(experiment.drawn)
    if over_time.outlines:
        name = f"ellipse_{link}"
        script(folder, name, over_time, looks, bool(experiment.axes))
        figures.append(Figure(name, f"Throughput and queueing delay over time, {where}", (
            f"{_BETTER} Each point has the means of the tables (delay over packets, throughput over time), each "
            "ellipse about it is the 1-sigma contour of the covariance of all bins of 1\u00a0s after warm-up of all "
            f"seeds, {_SIGMA} The file has both. A long ellipse varies much over time. Where the traffic "
            "demands less than the link gives, throughput and delay rise and fall together because demand does: the "
            "tilt then tells of the traffic, which all share, and not of the congestion control. "
            f"{_CUT}{experiment.drawn_note}")))
    if over_seeds.outlines:
        name = f"ellipse_seeds_{link}"
        script(folder, name, over_seeds, looks, bool(experiment.axes))
        figures.append(Figure(name, f"Throughput and queueing delay over seeds, {where}", (
            f"{_BETTER} Each point is the mean of the means of single runs ({_counts(over_seeds)}), each ellipse the "
            f"1-sigma contour of their covariance, {_SIGMA} All congestion controls of a seed have the same traffic, "
            "and move together from seed to seed: ellipses that overlap may belong to clear differences. The tables "
            f"say which are. {_CUT}{experiment.drawn_note}")))
    return figures


def _counts(ellipses: Ellipses) -> str:
    counts = sorted(set(ellipses.counts.values()))
    return f"{counts[0]} seeds" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"


def _limits(outlines: dict[str, Array], axis: int) -> tuple[float, float]:
    """Range of an axis over all ellipses with a margin, not below 0.

    At least 2 % of the values a side, so that noise does not fill the plot.
    """
    low = min(outline[:, axis].min() for outline in outlines.values())
    high = max(outline[:, axis].max() for outline in outlines.values())
    margin = max(0.08 * (high - low), 0.02 * high) or 1
    return max(0.0, low - margin), high + margin


def script(folder: Path, name: str, ellipses: Ellipses, looks: dict[str, style.Look], key: bool, size: tuple[int, int] =
           (WIDTH, HEIGHT)) -> None:
    """Rows are named beside their points, or in a key (those of a sweep: names are long, and points close).

    size: width and height, px.
    """
    outlines, centres = ellipses.outlines, ellipses.centres
    (x_low, x_high), (y_low, y_high) = (_limits(outlines, axis) for axis in (0, 1))
    columns: dict[str, Array] = {}
    for label, outline in outlines.items():
        columns[f"{label} delay_ms"], columns[f"{label} throughput_mbps"] = outline.T
        for what, mean in zip(("mean_delay_ms", "mean_throughput_mbps"), centres[label]):
            columns[f"{label} {what}"] = np.append(mean, np.full(len(outline) - 1, np.nan))
    right, top = size[0] - MARGIN, size[1] - MARGIN
    width, height = right - LEFT, top - BOTTOM

    def pixels(at: Array) -> Array:
        return np.stack([width * (x_high - at[:, 0]) / (x_high - x_low),
                         height * (at[:, 1] - y_low) / (y_high - y_low)], axis=1)

    lines = legend.lines(list(outlines)) if key else 0
    points = pixels(np.array(list(centres.values())))
    places = labels.place([(float(x), float(y)) for x, y in points], list(centres),
                          pixels(np.concatenate(list(outlines.values()))), width, height)
    body = [f"set lmargin at screen {LEFT / size[0]:g}; set rmargin at screen {right / size[0]:g}",
            f"set bmargin at screen {BOTTOM / size[1]:g}; set tmargin at screen {top / size[1] - 0.04 * lines:g}",
            f"set key above left maxcols {legend.columns(list(outlines))} samplen 3",
            f"set xrange [{x_high:g}:{x_low:g}]", f"set yrange [{y_low:g}:{y_high:g}]",
            "set style textbox opaque margins 0.4,0.4 fillcolor 'white' noborder",
            "set xlabel 'queueing delay (ms), less is better →'",
            "set ylabel 'throughput (Mbit/s), more is better →'"]
    curves = []
    for number, (label, (x, y)) in enumerate(zip(outlines, places), start=1):
        look = looks[label]
        at_x, at_y = centres[label]
        body.append(f"set label {2 * number} '' at {at_x:g},{at_y:g} point pointtype {look.point} "
                    f"pointsize 1 linecolor '{look.colour}' front")
        if not key:
            body.append(f"set label {2 * number + 1} {gnuplot.quote(label)} at graph {x / width:.4f}, "
                        f"graph {y / height:.4f} textcolor '{look.colour}' font ',13' front boxed")
        curves.append(f"'{name}.csv' using {gnuplot.quote(f'{label} delay_ms')}:"
                      f"{gnuplot.quote(f'{label} throughput_mbps')} with lines linewidth 2 "
                      f"dashtype {look.dash} linecolor '{look.colour}'")
        if key:
            curves.append(f"NaN with linespoints linewidth 2 dashtype {look.dash} pointtype {look.point} "
                          f"linecolor '{look.colour}' title {gnuplot.quote(label)}")
    body.append(gnuplot.plot(*curves))
    gnuplot.draw(folder, name, pd.DataFrame(columns), body, width=size[0], height=size[1])
