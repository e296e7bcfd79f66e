# SPDX-License-Identifier: GPL-2.0-only
"""Congestion window, throughput and queue around the step of the cross traffic, a column for each point of a sweep."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.drawing import gnuplot, legend, style
from analysis.figures import Figure
from analysis.flows import transients
from analysis.flows.transients import Step
from analysis.read import series
from analysis.read.experiment import Experiment
from analysis.read.runs import Array, Run

ORDER = 5
MOST_PANELS = 4     # side by side
BEFORE_US, AFTER_US = 20_000_000, 130_000_000   # at most, of what is shown before and after the first step
WIDTH, ROW_PX, TOP_PX, BOTTOM_PX, GAP_PX = 1000, 170, 64, 52, 22
MOST_POINTS = 600   # of a curve
Panels = dict[tuple[str, ...], dict[str, tuple[Run, Step]]]    # of each point, by subject
ROWS = (("cwnd", "cwnd (segments)"), ("throughput", "TCP and UDP (Mbit/s)"), ("queue", "queue (packets)"))


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    """Nothing but for runs with a transient; of each subject and point the first seed."""
    shown: Panels = {}
    seeds = set()
    for row in experiment.rows:
        for run in experiment.usable(row)[:1]:
            step = transients.step_of(run)
            if step is not None and (len(shown) < MOST_PANELS or row.point in shown):
                shown.setdefault(row.point, {})[row.subject] = run, step
                seeds.add(run.seed)
    if not shown:
        return []
    after_us = min(AFTER_US, max(run.interval.end_us - step.start_us for runs in shown.values()
                                 for run, step in runs.values()))
    span_us = -min(BEFORE_US, after_us / 4), after_us
    data, tops = _data(shown, span_us)
    _script(experiment, folder, shown, data, tops, span_us)
    return [Figure("transients", "Around the step of the cross traffic",
                   "0 is the first step; the rate of the UDP flows is dashed, the bandwidth-delay product that is left "
                   "after the last step is dotted. Window as sampled, throughput (acknowledged "
                   f"payload) over 1 s, queue as sampled; of each congestion control seed "
                   f"{', '.join(map(str, sorted(seeds)))} only.")]


def _data(shown: Panels, span_us: tuple[float, float]) -> tuple[dict[str, pd.Series], dict[str, float]]:
    """Columns `POINT ROW SUBJECT t` and without t, times in s from the step; the largest value of each row."""
    data: dict[str, pd.Series] = {}
    tops = dict.fromkeys([row for row, _ in ROWS], 0.0)
    for place, runs in enumerate(shown.values()):
        for subject, (run, step) in runs.items():
            for row, (times_us, values) in _curves(run, step).items():
                times_us = times_us - step.start_us
                inside = (times_us >= span_us[0]) & (times_us <= span_us[1])
                times_us, values = times_us[inside], values[inside]
                thin = slice(None, None, max(1, len(times_us) // MOST_POINTS))
                data[f"{place} {row} {subject} t"] = pd.Series(times_us[thin] / 1e6)
                data[f"{place} {row} {subject}"] = pd.Series(values[thin])
                tops[row] = max(tops[row], float(np.max(values, initial=0)))
        run, step = next(iter(runs.values()))
        times_s, rates_mbps = _cross(run, step, span_us)
        data[f"{place} cross t"], data[f"{place} cross"] = pd.Series(times_s), pd.Series(rates_mbps)
        tops["throughput"] = max(tops["throughput"], max(rates_mbps))
        tops["cwnd"] = max(tops["cwnd"], step.bdp_window)
    return data, tops


def _curves(run: Run, step: Step) -> dict[str, tuple[Array, Array]]:
    found = {}
    samples = transients.window_samples(run, step)
    if samples is not None:
        times_us = samples["t_us"].to_numpy(dtype=float)
        found["cwnd"] = times_us, samples["cwnd"].to_numpy(dtype=float)
        before = np.interp(times_us - series.SECOND_US, times_us, samples["bytes_acked"], left=0)
        found["throughput"] = times_us, (samples["bytes_acked"].to_numpy() - before) * 8 / series.SECOND_US
    queue = series.queue_samples(run, step.link)
    if queue is not None:
        found["queue"] = queue["t_us"].to_numpy(dtype=float), queue["backlog_packets"].to_numpy(dtype=float)
    return found


def _cross(run: Run, step: Step, span_us: tuple[float, float]) -> tuple[list[float], list[float]]:
    """(seconds from the step, Mbit/s that hold from then on) of the cross traffic."""
    flows = [flow for flow in run.flows if flow.flow in step.cross]
    edges = {*span_us, *(float(at_us - step.start_us) for flow in flows for at_us in (flow.start_us, flow.stop_us)
                         if at_us is not None and span_us[0] < at_us - step.start_us < span_us[1])}
    times_us = sorted(edges)
    return [time_us / 1e6 for time_us in times_us], [sum(
        flow.rate_bps or 0 for flow in flows if (flow.start_us or 0) - step.start_us <= time_us
        < (run.interval.end_us if flow.stop_us is None else flow.stop_us) - step.start_us) / 1e6
        for time_us in times_us]


def _script(experiment: Experiment, folder: Path, shown: Panels, data: dict[str, pd.Series], tops: dict[str, float],
            span_us: tuple[float, float]) -> None:
    looks = style.looks(experiment.subjects)
    top_px = TOP_PX + legend.more_px(experiment.subjects)
    height = top_px + BOTTOM_PX + len(ROWS) * (ROW_PX + GAP_PX) - GAP_PX
    wide = (985 - 62) / len(shown)
    body = ["set multiplot", f"set xrange [{span_us[0] / 1e6:g}:{span_us[1] / 1e6:g}]",
            legend.above(experiment.subjects, 62 / WIDTH, height)]
    for number, (row, label) in enumerate(ROWS):
        top = 1 - (top_px + number * (ROW_PX + GAP_PX)) / height
        for place, (point, runs) in enumerate(shown.items()):
            left = 62 + place * wide + (42 if place else 0)
            last = number == len(ROWS) - 1
            named = ", ".join(axis.say(value) for axis, value in zip(experiment.axes, point))
            body += [f"set tmargin at screen {top:g}; set bmargin at screen {top - ROW_PX / height:g}",
                     f"set lmargin at screen {left / WIDTH:g}; "
                     f"set rmargin at screen {(62 + (place + 1) * wide) / WIDTH:g}",
                     f"set yrange [0:{1.06 * tops[row] or 1:g}]",
                     f"set ylabel {gnuplot.quote(label)} offset 1.5" if not place else "unset ylabel",
                     "set xlabel 'time from the first step (s)'; set xtics format '%g'" if last
                     else "unset xlabel; set xtics format ''",
                     f"set label 1 {gnuplot.quote(named)} at graph 0, graph 1.06 textcolor '#444444'"
                     if not number and named else "unset label 1",
                     "set arrow 1 from 0, graph 0 to 0, graph 1 nohead linecolor '#aaaaaa' back"]
            curves = []
            if row == "throughput":
                curves.append(f"'transients.csv' using '{place} cross t':'{place} cross' with steps dashtype 2 "
                              f"linewidth 1.5 linecolor '{style.GREY}'")
            if row == "cwnd":
                curves.append(f"{next(iter(runs.values()))[1].bdp_window:g} with lines dashtype 3 linewidth 1.2 "
                              f"linecolor '{style.GREY}'")
            first = not number and not place
            curves += [f"'transients.csv' using {gnuplot.quote(f'{key} t')}:{gnuplot.quote(key)} with lines "
                       f"linewidth 1.2 dashtype {look.dash} linecolor '{look.colour}' "
                       + (f"title {gnuplot.quote(subject)}" if first else "notitle")
                       for subject, look in looks.items() if (key := f"{place} {row} {subject}") in data]
            body += [gnuplot.plot(*curves), "unset key"] if curves else ["plot NaN"]
    gnuplot.draw(folder, "transients", pd.DataFrame(data), [*body, "unset multiplot"], width=WIDTH, height=height)
