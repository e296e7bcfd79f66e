# SPDX-License-Identifier: GPL-2.0-only
"""Congestion marks (CE): of each bottleneck that marks, of each long flow, of each variant."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis.metrics import Metric, Shown
from analysis.read import series, tcp
from analysis.read.runs import Array, Run
from topologies import queues

UNITS = {"ce_marked": "packets", "ce_mark_rate": "%"}
WINDOWED = {"ce_marked", "ce_mark_rate"}
SHOWN = [Shown("links", "ce_mark_rate", "CE marks", 70), Shown("flows", "ce_mark_rate", "CE marks", 30)]


def compute(run: Run) -> list[Metric]:
    """Packets that leave a queue with CE, and their share; of a flow those that leave the last such queue on its way.

    Counts are of the measurement interval: those of the intervals of the table that lie in it.
    """
    table = run.frame("ce_marks")
    if table is None:
        return []
    start, end = series.whole_intervals(run, "ce_marks")
    table = table[(table["t_us"] >= start) & (table["t_us"] < end)]
    return [*_links(run, table), *_flows(run, table)]


def _links(run: Run, table: pd.DataFrame) -> Iterator[Metric]:
    for name, link in run.bottlenecks.items():
        samples = series.queue_samples(run, name) if queues.traits(link).marks else None
        if samples is None:
            continue
        marked = float(table.loc[table["link"] == name, "packets"].sum())
        edges = np.clip(series.whole_intervals(run, "ce_marks"), *series.covered(run, name, samples))
        sent = float(np.diff(series.counter_at(samples, "sent_packets", edges))[0])
        yield Metric("ce_marked", name, "packets", marked)
        if sent and not link.uncut:             # what was sent is counted in segments, marks in packets
            yield Metric("ce_mark_rate", name, "%", 100 * marked / sent)


def _flows(run: Run, table: pd.DataFrame) -> Iterator[Metric]:
    marked = _by_flow(run, table)
    delivered = _delivered(run)
    for flow in tcp.listed_flows(run):
        number = flow.flow
        if number in marked:
            yield Metric("ce_marked", f"flow_{number}", "packets", marked[number])
            if delivered.get(number):
                yield Metric("ce_mark_rate", f"flow_{number}", "%", 100 * marked[number] / delivered[number])
    variants = {flow.flow: tcp.variant_of(flow) for flow in run.flows}
    if len(set(variants.values()) - {""}) > 1:
        for variant in sorted(set(variants.values()) - {""}):
            yield Metric("ce_marked", f"cca_{variant}", "packets",
                         sum(packets for flow, packets in marked.items() if variants[flow] == variant))


def _by_flow(run: Run, table: pd.DataFrame) -> dict[int, float]:
    """Packets with CE of each flow that crosses a queue that marks, of both directions if it has data in both."""
    links = {link.name for link in run.network.links if queues.traits(link).marks}
    counts = table.groupby(["flow", "backward", "link"], observed=True)["packets"].sum().to_dict()
    found = {}
    for flow in run.flows:
        ways = [(0, flow.hops), *([(1, flow.hops_back)] if flow.both_ways else [])]
        lasts = [(backward, queues.last_marking(way, links)) for backward, way in ways]
        if any(last for _, last in lasts):
            found[flow.flow] = float(sum(counts.get((flow.flow, *place), 0) for place in lasts))
    return found


def _delivered(run: Run) -> dict[int, float]:
    """Packets of each listed flow that its receiver was known to have got within the measurement interval; nothing
    where nobody cuts packets, as these are segments then."""
    if any(link.uncut for link in run.network.links):
        return {}
    samples = tcp.flow_samples(run, "delivered")
    if samples is None or samples.empty:
        return {}
    numbers: Array = tcp.flow_numbers(run, samples)
    edges, found = series.whole_intervals(run, "ce_marks"), {}
    for number in sorted(set(numbers) - {0}):
        mine = samples[numbers == number].sort_values("t_us", kind="stable")
        found[int(number)] = float(np.diff(np.interp(edges, mine["t_us"], mine["delivered"], left=0))[0])
    return found
