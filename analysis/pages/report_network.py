# SPDX-License-Identifier: GPL-2.0-only
"""What was really built and run, in resolved numbers: links with their queues, paths, flows."""

from __future__ import annotations

from typing import NamedTuple

from analysis.drawing import style
from analysis.read.experiment import Experiment
from analysis.read.runs import Run
from testbed.core import fields, ip
from topologies.links import impairments, varying
from topologies.links.records import Link

MOST_ROWS = 40  # of a table; the rest is in raw/


class Facts(NamedTuple):
    """A table of texts, without columns that say nothing; `note` says what is left out of it."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""


def tables(experiment: Experiment) -> list[Facts]:
    """Of the first usable run; the last note says which that is."""
    run = next(iter(experiment.usable_runs), None)
    if run is None:
        return []
    found = [_filled(facts) for facts in (_links(run), _paths(run), _flows(run)) if facts.rows]
    if found and len(experiment.runs) > 1:
        what = "congestion control, random starts and what the sweep varies" if experiment.axes else \
            "congestion control and random starts"
        where = f"Links, paths and flows of {run.name}; other runs may differ in {what}."
        found[-1] = found[-1]._replace(note=" ".join(filter(None, (found[-1].note, where))))
    return found


def _filled(facts: Facts) -> Facts:
    keep = [place for place in range(len(facts.columns)) if any(row[place] for row in facts.rows)]
    return facts._replace(columns=[facts.columns[place] for place in keep],
                          rows=[[row[place] for place in keep] for row in facts.rows])


def _limited(rows: list[list[str]], what: str) -> tuple[list[list[str]], str]:
    if len(rows) <= MOST_ROWS:
        return rows, ""
    return rows[:MOST_ROWS], f"The first {MOST_ROWS} of {len(rows)} {what}."


def _links(run: Run) -> Facts:
    """Bottlenecks one by one; other links that are equal share a row."""
    groups: dict[tuple[str, ...], list[str]] = {}
    order = {name: place for place, name in enumerate(run.bottlenecks)}
    links = sorted(run.network.links, key=lambda link: order.get(link.name, len(order)))
    for link in links:
        own = link.name if link.bottleneck else ""
        delay = style.milliseconds(link.delay_us)
        changes = len(varying.changes(link))
        trace = f"trace, {style.rate(varying.nominal_bps(link))} on average" if link.opportunities else ""
        varies = ", ".join(filter(None, (trace, f"{changes} changes" if changes else "")))
        facts = (style.rate(link.rate_bps), delay, *_queue(link), _loss(link), varies,
                 f"{link.mtu_bytes} B" if link.has("mtu_bytes") else "")
        groups.setdefault((own, *facts), []).append(link.name)
    ways = {link.name: f"{link.from_node} to {link.to_node}" for link in links}
    rows = []
    for (_, *resolved), names in groups.items():
        first = names[0] if len(names) == 1 else f"{names[0]}, {names[1]}{' ...' * (len(names) > 2)}"
        rows.append([first, ways[names[0]] if len(names) == 1 else f"{len(names)} links",
                     "yes" if names[0] in run.bottlenecks else "", *resolved])
    rows, note = _limited(rows, "kinds of links")
    return Facts("Links", ["link", "from, to", "bottleneck", "rate", "delay", "queue", "limit, packets", "limit, bytes",
                           "limit, time", "loss", "schedule", "MTU"], rows, note)


def _queue(link: Link) -> tuple[str, str, str, str]:
    """(kind, packets, bytes, time): how much the queue holds, counted in each way."""
    packets, size = link.limit_packets, link.limit_bytes
    holds_packets = packets if packets is not None else link.capacity_packets if link.has("capacity_packets") else None
    holds_bytes = size if size is not None else link.capacity_bytes if link.has("capacity_bytes") else None
    if holds_bytes is None and holds_packets is not None:
        holds_bytes = holds_packets * (link.mtu_bytes + ip.ETHERNET_BYTES)
    time_us: float | None = link.capacity_us if link.has("capacity_us") else None
    if time_us is None and holds_bytes is not None:
        time_us = holds_bytes * 8e6 / link.rate_bps
    return (link.queue if link.has("queue") else "", "" if holds_packets is None else f"{holds_packets:g}",
            "" if holds_bytes is None else f"{holds_bytes:,.0f}".replace(",", "\u202f"),
            "" if time_us is None else style.milliseconds(time_us))


def _loss(link: Link) -> str:
    chosen = link.lose_segments or []
    share = link.loss_percent or 0
    words, said = [f"{share:g} %"] if share else [], link.content()
    words += [fields.plain(key).replace("_", " ") for key in impairments.NAMES if said.get(key)]
    return ", ".join(words + ([f"segments {', '.join(map(str, chosen))}"] if chosen else []))


def _paths(run: Run) -> Facts:
    rows = [[f"{path.initiator} \u2013 {path.acceptor}", style.milliseconds(path.base_rtt_us),
             ", ".join(path.hops)] for path in run.network.paths]
    rows, note = _limited(rows, "paths")
    return Facts("Paths", ["hosts", "base RTT", "links there"], rows, note)


def _flows(run: Run) -> Facts:
    end_us = run.interval.end_us
    rows = []
    for flow in run.flows:
        start, stop = flow.start_us or 0, flow.stop_us
        count = flow.connections
        rate = flow.rate_bps
        rows.append([
            str(flow.flow), flow.component, flow.sender, flow.receiver,
            "UDP" if flow.transport == "udp" else flow.variant or flow.cca or "", style.seconds(start),
            "end" if stop is None or stop >= end_us else style.seconds(stop),
            style.size(flow.bytes) if flow.bytes else "" if rate is None else style.rate(rate),
            style.milliseconds(flow.base_rtt_us) if flow.base_rtt_us is not None else "",
            "" if count == 1 else str(count)])
    rows, note = _limited(rows, "flows")
    columns = ["flow", "component", "sender", "receiver", "congestion control", "start", "stop", "amount or rate",
               "base RTT", "connections"]
    note = " ".join(filter(None, [note, "Connections of a source go both ways: the sender opens them."
                                  if any(flow.both_ways for flow in run.flows) else ""]))
    return Facts("Flows", columns, rows, note)
