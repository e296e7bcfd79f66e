# SPDX-License-Identifier: GPL-2.0-only
"""Throughput, congestion window and smoothed RTT of single long flows over time."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.drawing import gnuplot, style
from analysis.figures import Figure
from analysis.flows import program_curves
from analysis.read import series, tcp
from analysis.read.experiment import Experiment
from analysis.read.runs import Run
from topologies.links import varying

ORDER = 60
MOST_DRAWN = 12  # flows in a panel
PANEL_PX = 190
MOST_NAMED, MOST_DESCRIBED = 8, 5  # flows that a panel has room to name; also with what tells them apart
QUANTITIES = (("flows_throughput", "Throughput of each flow", "throughput_mbps", 1,
               "throughput (Mbit/s)"),
              ("flows_cwnd", "Congestion window of each flow", "cwnd", 1, "cwnd (segments)"),
              ("flows_in_flight", "In flight of each flow", "in_flight", 1, "in flight (segments)"),
              ("flows_srtt", "Smoothed RTT of each flow", "srtt_us", 1e3, "sRTT (ms)"))


def draw(experiment: Experiment, folder: Path) -> list[Figure]:
    """One panel per CCA from its first usable seed; nothing for workloads of many flows."""
    flows: dict[str, tuple[Run, dict[int, pd.DataFrame]]] = {}
    for row in experiment.drawn:
        for run in experiment.usable(row):
            if row.label not in flows and (senders := _senders(run)):
                flows[row.label] = run, senders
    if not flows:
        return []
    return [_draw(experiment, folder, flows, *quantity) for quantity in QUANTITIES
            if all(quantity[2] in rows or number in {flow.flow for flow in program_curves.flows(run)}
                   for run, senders in flows.values() for number, rows in senders.items())
            and any(quantity[2] in rows for _, senders in flows.values() for rows in senders.values())]


def _senders(run: Run) -> dict[int, pd.DataFrame]:
    """Samples of every flow's sender by its number, thinned to what a plot can show."""
    programs = _programs(run)
    samples = tcp.flow_samples(run) if tcp.listed_flows(run) else None
    if samples is None or samples.empty:
        return programs
    samples = _with_in_flight(run, samples).sort_values("t_us", kind="stable")
    # 0 before the first acknowledgement: nothing was measured yet
    samples = samples.assign(srtt_us=samples["srtt_us"].where(samples["srtt_us"] > 0))
    flows = samples.groupby(tcp.flow_numbers(run, samples))
    drawn = [number for number in flows.groups if number][:MOST_DRAWN - len(programs)]
    window_us = _window_us(run)
    return {**programs, **{number: _with_throughput(rows, window_us).iloc[::math.ceil(len(rows) / 1000)]
                           for number, rows in flows if number in drawn}}


def _programs(run: Run) -> dict[int, pd.DataFrame]:
    """The same of the flows of programs, from what links carried and how long their queues were."""
    found = {}
    window_us = _window_us(run)
    for flow in program_curves.flows(run)[:MOST_DRAWN]:
        rates = program_curves.rates(run, flow, window_us / 5, window_us)
        if rates is not None:
            rtts = program_curves.rtt_ms(run, flow, rates.t_us)
            found[flow.flow] = pd.DataFrame({
                "t_us": rates.t_us, "throughput_mbps": rates.mbps, "cca": program_curves.name_of(flow),
                "srtt_us": np.full(len(rates.t_us), np.nan) if rtts is None else rtts * 1e3,
                **program_curves.said(run, flow, rates.t_us)})
    return found


def _with_in_flight(run: Run, samples: pd.DataFrame) -> pd.DataFrame:
    """The samples and, where buffers were sampled, too, what was in flight."""
    buffers = run.frame("socket_buffers")
    if buffers is None:
        return samples
    key = ["t_us", *tcp.SOCKET]
    return samples.merge(buffers[[*key, "in_flight"]], on=key, how="left")


def _window_us(run: Run) -> float:
    """Over which throughput is averaged: a second, less in runs of less than a minute, more of more than five."""
    end_us = run.interval.end_us
    return max(min(series.SECOND_US, end_us / 60), end_us / 300)


def _with_throughput(rows: pd.DataFrame, window_us: float) -> pd.DataFrame:
    """Samples of one socket and, in throughput_mbps, the payload acknowledged in the window before each."""
    times, acked = rows["t_us"].to_numpy(), rows["bytes_acked"].to_numpy()
    before = np.interp(times - window_us, times, acked, left=0)
    return rows.assign(throughput_mbps=(acked - before) * 8 / window_us)


def _draw(experiment: Experiment, folder: Path,
          flows: dict[str, tuple[Run, dict[int, pd.DataFrame]]], name: str, title: str,
          column: str, factor: float, y_label: str) -> Figure:
    flows = {label: (run, {number: rows for number, rows in senders.items() if column in rows})
             for label, (run, senders) in flows.items()}
    labels = list(flows)
    data: dict[str, pd.Series] = {}
    for label in labels:
        for number, rows in flows[label][1].items():
            data[f"{label} {number} time_s"] = rows["t_us"].reset_index(drop=True) / 1e6
            data[f"{label} {number} {column}"] = rows[column].reset_index(drop=True) / factor
    height = PANEL_PX * len(labels) + 62
    tops = [float(values.max()) for key, values in data.items() if key.endswith(column)]
    top = max((value for value in tops if value > 0), default=1.0)   # nothing sent, or nothing known
    end_s = max(flows[label][0].interval.end_us for label in labels) / series.SECOND_US
    body = [f"set multiplot layout {len(labels)},1 margins 0.07,0.985,{62 / height},"
            f"{1 - 28 / height} spacing 0,{32 / height}",
            f"set xrange [0:{end_s:g}]", f"set yrange [0:{1.06 * top or 1:g}]",
            f"set ylabel {gnuplot.quote(y_label)} offset 1"]
    for place, label in enumerate(labels):
        curves = [f"'{name}.csv' using {gnuplot.quote(f'{label} {number} time_s')}:"
                  f"{gnuplot.quote(f'{label} {number} {column}')} with lines linewidth 1.2 "
                  f"linecolor '{style.PALETTE[index % len(style.PALETTE)]}' "
                  f"dashtype {1 + index // len(style.PALETTE)}"
                  for index, number in enumerate(flows[label][1])]
        body += [f"set label 1 {gnuplot.quote(label)} at graph 0, graph 1.07 font ',13'",
                 *_names(flows[label]),
                 "set xlabel 'time (s)'; set xtics format '%g'" if place == len(labels) - 1
                 else "unset xlabel; set xtics format ''", gnuplot.plot(*curves)]
    gnuplot.draw(folder, name, pd.DataFrame(data), [*body, "unset multiplot"], height=height)
    seeds = sorted({flows[label][0].seed for label in labels})
    how = (f"Payload acknowledged in the {_window_us(flows[labels[0]][0]) / 1e6:g} s before"
           if column == "throughput_mbps" else "As tcp_info has it")
    if column == "throughput_mbps" and top > _fastest_mbps([flows[label][0] for label in labels]):
        how += (". More than the link's rate is acknowledged at once when a lost segment, for which others waited, "
                "has come; shown are samples")
    of_quic = any(flow.kind == "quic" for run, _ in flows.values() for flow in run.flows)
    if of_quic and column != "throughput_mbps":
        how += "; of QUIC, as its sender's qlog has it" + (
            "" if column == "srtt_us" else f", in segments of {program_curves.SEGMENT_BYTES} bytes")
    elif column in ("throughput_mbps", "srtt_us") and any(program_curves.flows(run) for run, _ in flows.values()):
        how += "; of programs, " + (
            "what the link to their receiver carried, with headers" if column == "throughput_mbps" else
            "an estimate: the round-trip time of the idle network, and the wait in the bottlenecks")
    return Figure(name, title, f"{how}, one line per flow (at most "
                  f"{MOST_DRAWN}), one panel per congestion control; here colours tell flows "
                  f"apart. Seed {', '.join(map(str, seeds))} only, from the begin of the run, "
                  f"warm-up included.{experiment.drawn_note}")


def _fastest_mbps(runs: list[Run]) -> float:
    """The rate of the fastest bottleneck at any time; infinite where one follows a trace."""
    links = [link for run in runs for link in run.bottlenecks.values()]
    if any(link.opportunities for link in links):
        return math.inf
    rates = [state.rate_bps or math.inf for link in links for _, state in varying.states(link)]
    return max(rates, default=math.inf) / 1e6


def _names(drawn: tuple[Run, dict[int, pd.DataFrame]]) -> list[str]:
    """The names of a panel's flows above it, each in its colour; none if there are too many."""
    run, senders = drawn
    body = [f"unset label {2 + index}" for index in range(MOST_NAMED)]
    if len(senders) > MOST_NAMED:
        return body
    programs = {flow.flow: flow for flow in program_curves.flows(run)}
    listed = {flow.flow: flow for flow in tcp.listed_flows(run)} | programs
    ccas = {number: program_curves.name_of(programs[number]) if number in programs else
            tcp.variant_of(listed[number]) or str(rows["cca"].iloc[-1]) for number, rows in senders.items()}
    mixed = len(set(ccas.values())) > 1
    step = 0.76 / max(3, len(senders))
    for index, number in enumerate(senders):
        rtt_us = listed[number].base_rtt_us
        words = [f"flow {number}", ccas[number] if mixed else "", f"{rtt_us / 1e3:g} ms" if rtt_us else ""]
        text = ", ".join(filter(None, words[:3 if len(senders) <= MOST_DESCRIBED else 1]))
        body[index] = (f"set label {2 + index} {gnuplot.quote(text)} at graph {0.24 + step * index:g}, "
                       f"graph 1.07 textcolor '{style.PALETTE[index % len(style.PALETTE)]}'")
    return body
