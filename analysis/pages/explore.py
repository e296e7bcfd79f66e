# SPDX-License-Identifier: GPL-2.0-only
"""Time series of an experiment's runs for its page, where they can be zoomed.

Of each run: throughput and queueing delay of its bottlenecks; throughput, congestion window and round-trip time of some
flows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.drawing import style
from analysis.flows import program_curves, windows
from analysis.pages.zoomable import Candidate, Explored, ExploredRun, Packed, Series, fit
from analysis.read import series, tcp
from analysis.read.experiment import Experiment
from analysis.read.runs import Run
from traffic.workload.records import Flow

MOST_LINKS, MOST_FLOWS = 4, 6   # of a run
RATE_US = 100_000   # throughput is over this much time, or over a sampling interval where that is longer
MOST_RATES = 100_000    # of a link


def context(experiment: Experiment, room_bytes: float) -> Explored:
    """{} where no run has any series.

    room_bytes: how much larger the page may become.
    """
    explored = fit([Candidate(run.name, run.interval.end_us, partial(_curves, run), partial(_about, experiment, run))
                    for run in _in_turn(experiment)], room_bytes)
    if "runs" in explored:
        order = {run.name: place for place, run in enumerate(experiment.runs)}
        explored["runs"].sort(key=lambda one: order[one["name"]])
        explored["left_out_which"] = ": later seeds first"
    return explored


def _curves(run: Run) -> list[Series]:
    return list(of_run(run))


def _about(experiment: Experiment, run: Run, packed: list[Packed]) -> ExploredRun:
    return {"name": run.name, "row": experiment.row_of(run).label, "seed": run.seed,
            "series": packed, "start": run.interval.start_us / 1e6, "end": run.interval.end_us / 1e6,
            "links": [style.direction(name) for name in _links(run)], "flows": [one.label for one in _flows(run)]}


def of_run(run: Run) -> Iterator[Series]:
    """The curves of a run that have two points or more."""
    for one in (*_of_links(run), *_of_flows(run)):
        known = np.isfinite(one.values) & (one.t_us >= 0) & (one.t_us <= run.interval.end_us)
        if known.sum() > 1:
            yield one._replace(t_us=one.t_us[known], values=np.clip(one.values[known], 0, None))


def _links(run: Run) -> list[str]:
    return list(run.bottlenecks)[:MOST_LINKS]


def _of_links(run: Run) -> Iterator[Series]:
    for place, link in enumerate(_links(run)):
        samples = series.queue_samples(run, link)
        if samples is None:
            continue
        t_us = samples["t_us"].to_numpy(dtype=float)
        end_us = min(t_us[-1], run.interval.end_us)
        edges = np.arange(0, end_us + 1, max(RATE_US, series.sampling_us(samples), end_us / MOST_RATES))
        if len(edges) > 1:
            yield Series("throughput", "link", place, (edges[:-1] + edges[1:]) / 2,
                         series.throughput_mbps(samples, edges))
        rows = series.sojourn_samples(run, link)
        yield Series("delay", "link", place, t_us, series.backlog_ms(run, link, samples)) if rows is None else \
            Series("delay", "link", place, rows["t_us"].to_numpy(dtype=float), rows["mean_us"].to_numpy() / 1e3)


class _Flow(NamedTuple):
    """A connection to draw: what it is called, and the samples of its sender by time."""

    label: str
    rows: pd.DataFrame
    flow: Flow | None


def _flows(run: Run) -> list[_Flow]:
    """The listed flows; without any, the connections that got most bytes acknowledged."""
    known: list[_Flow] | None = run.__dict__.get("_explored")
    if known is None:
        known = run.__dict__["_explored"] = _found_flows(run)
    return known


def _found_flows(run: Run) -> list[_Flow]:
    # a Run of its own, so that the table is freed afterwards
    fresh, listed = Run(run.path), tcp.listed_flows(run)[:MOST_FLOWS]
    programs = [_Flow(f"{flow.flow}: {flow.sender}\u2192{flow.receiver} {program_curves.name_of(flow)}",
                      pd.DataFrame(), flow) for flow in program_curves.flows(run)
                if program_curves.rates(run, flow, RATE_US) is not None]
    samples = tcp.flow_samples(fresh) if listed else fresh.frame("tcp_info")
    if samples is None or samples.empty:
        return programs[:MOST_FLOWS]
    samples = samples.sort_values("t_us", kind="stable")
    if listed:
        numbers = tcp.flow_numbers(run, samples)
        found = [_Flow(f"{flow.flow}: {flow.sender}\u2192{flow.receiver} {tcp.variant_of(flow)}", rows, flow)
                 for flow in listed if len(rows := samples[numbers == flow.flow]) > 1]
        return (programs + found)[:MOST_FLOWS]
    sockets = samples.groupby(tcp.SOCKET, observed=True, sort=False).ngroup().to_numpy()
    acked = pd.Series(samples["bytes_acked"].to_numpy()).groupby(sockets).agg(["max", "size"])
    chosen = acked[acked["size"] > 1].sort_values("max", ascending=False, kind="stable").index[:MOST_FLOWS]
    found = programs[:MOST_FLOWS]
    for socket in chosen[:MOST_FLOWS - len(found)]:
        rows = samples[sockets == socket]
        one = rows.iloc[0]
        far = run.owners.get(str(one["dst"]), str(one["dst"]))
        found.append(_Flow(f"{one['node']}:{one['sport']}\u2192{far}:{one['dport']} {one['cca']}", rows, None))
    return found


def _of_flows(run: Run) -> Iterator[Series]:
    probe = Run(run.path).frame("tcp_probe") if any(one.flow and len(one.rows) for one in _flows(run)) else None
    for place, one in enumerate(_flows(run)):
        if one.flow is not None and one.rows.empty:
            yield from _of_program(run, one.flow, place)
            continue
        t_us = one.rows["t_us"].to_numpy(dtype=float)
        steps = np.diff(one.rows["bytes_acked"].to_numpy(dtype=float))
        apart = np.diff(t_us)
        # a counter that falls belongs to another socket with the same ports
        rates = np.divide(8 * steps, apart, out=np.full(len(apart), np.nan), where=(apart > 0) & (steps >= 0))
        yield Series("throughput", "flow", place, t_us[1:], rates)
        cwnd, rtt = one.rows["cwnd"], one.rows["srtt_us"]
        if probe is not None and one.flow is not None:
            finer = windows.of(probe, one.flow).sort_values("t_us", kind="stable")
            finer = finer[finer["snd_una"] != 0]
            if len(finer) > len(one.rows):
                t_us, cwnd, rtt = finer["t_us"].to_numpy(dtype=float), finer["snd_cwnd"], finer["srtt_us"]
        yield Series("cwnd", "flow", place, t_us, cwnd.to_numpy(dtype=float))
        # 0: none measured yet
        yield Series("rtt", "flow", place, t_us, rtt.replace(0, np.nan).to_numpy(dtype=float) / 1e3)


def _of_program(run: Run, flow: Flow, place: int) -> Iterator[Series]:
    """What links say of a flow of which no socket does."""
    rates = program_curves.rates(run, flow, RATE_US)
    if rates is not None:
        yield Series("throughput", "flow", place, rates.t_us, rates.mbps)
        rtts = program_curves.rtt_ms(run, flow, rates.t_us)
        if rtts is not None:
            yield Series("rtt", "flow", place, rates.t_us, rtts)


def _in_turn(experiment: Experiment) -> Iterator[Run]:
    """The usable runs: the first seed of each row, then the second of each, ..."""
    rows = [experiment.usable(row) for row in experiment.rows]
    for number in range(max(map(len, rows), default=0)):
        yield from (runs[number] for runs in rows if number < len(runs))
