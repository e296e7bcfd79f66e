# SPDX-License-Identifier: GPL-2.0-only
"""The tables of the report, laid out: which scopes each has, and what it is called.

Files of metrics say themselves which metrics stand in them (SHOWN).
The comparisons of one table are one family: what may be said of them is decided together (analysis/compare/rows.py).
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from analysis.drawing import style
from analysis.figures.adu_response import load_directions
from analysis.flows import camps, program_curves, sizes
from analysis.metrics import shown
from analysis.read import tcp
from analysis.read.experiment import Experiment
from analysis.read.runs import Run
from analysis.read.tables import Results

MOST_FLOWS = 6  # with a column each


class Column(NamedTuple):
    """A metric of a scope, and what heads its column; counted_by: of times by size, what counts them."""

    metric: str
    scope: str
    label: str
    counted_by: str = ""


class Columns(NamedTuple):
    """A table: its title and its columns, of which at least one run has each."""

    title: str
    columns: list[Column]


class Tables(NamedTuple):
    """All tables of the report by their place in it; of `sizes` the columns are drawn as rows."""

    links: list[Columns]
    connections: list[Columns]
    flows: list[Columns]
    fairness: list[Columns]
    load: list[Columns]
    slowdown: list[Columns]
    sizes: list[Columns]

    def all(self) -> list[Columns]:
        return [table for tables in self for table in tables]


def tables(results: Results) -> Tables:
    """The tables that the usable runs of an experiment fill, each (metric, scope) in one of them."""
    return Tables([*_links(results, "links", "Bottleneck"), *_journeys(results), *_air(results),
                   *_of_all(results, "Whole run", "run")],
                  [*_connections(results), *_camps(results)], _flows(results), _fairness(results),
                  _links(results, "load", "Load"), _of_all(results, "Slowdown", "slowdown"), _sizes(results))


def _known(results: Results, title: str, columns: list[Column]) -> list[Columns]:
    """The table with those columns that some run has; [] if there are none."""
    known = [column for column in columns if results.unit(column.metric, column.scope) is not None]
    return [Columns(title, known)] if known else []


def _of(table: str, scope: str, scope_words: str = "") -> list[Column]:
    """A table's columns of one scope; scope_words: what tells it from the other scopes of the table."""
    return [Column(one.metric, scope, _joined(scope_words, one.heading)) for one in shown(table)]


def _joined(*words: str) -> str:
    return ", ".join(filter(None, words))


def _words(scope: str) -> str:
    return scope.replace("_", " ")


def _of_all(results: Results, title: str, table: str) -> list[Columns]:
    return _known(results, title, _of(table, "all"))


def _scopes(results: Results, table: str, beginning: str = "") -> list[str]:
    """Scopes in which any usable run has any metric of a table."""
    return list(dict.fromkeys(scope for one in shown(table) for scope in results.scopes(one.metric)
                              if scope.startswith(beginning)))


def _links(results: Results, table: str, what: str) -> list[Columns]:
    """A table for each bottleneck link, then one for each direction in which there are several.

    Goodput, say, is that of a whole direction: with one bottleneck in it, it stands with that link.
    """
    run = next(iter(results.experiment.usable_runs), None)
    links = run.bottlenecks if run else {}
    directions = {name: link.direction or name for name, link in links.items()}
    alone = {name for name in links if list(directions.values()).count(directions[name]) == 1}
    found = []
    for link in links:
        found += _known(results, f"{what}, {style.direction(link)}", [
            column if results.unit(column.metric, link) is not None or link not in alone
            else column._replace(scope=directions[link]) for column in _of(table, link)])
    for name in dict.fromkeys(directions[link] for link in links if link not in alone):
        found += _known(results, f"All traffic, {style.direction(name)}", _of(table, name))
    return found


def _journeys(results: Results) -> list[Columns]:
    """[] where packets were not followed from host to host."""
    return _of_all(results, "From host to host", "journeys") if results.scopes("arrived_rate_l3") else []


def _air(results: Results) -> list[Columns]:
    """A table for all radios, then one for each."""
    found = []
    for scope in sorted(results.scopes("airtime"), key=lambda name: name != "all"):
        busy = [column._replace(label=f"{cell} {column.label}") for cell in _scopes(results, "cells")
                for column in _of("cells", cell)]
        found += _known(results, f"Radios, {'all stations' if scope == 'all' else scope}",
                        [*(busy if scope == "all" else []), *_of("stations", scope)])
    return found


def _connections(results: Results) -> list[Columns]:
    """[] when no connection started after warm-up, as with long flows alone."""
    if not any(value for row in results.experiment.rows
               for value in results.sample(row, "connections_started", "all")):
        return []
    return [*_of_all(results, "Connections", "connections"),
            *(table for scope in _scopes(results, "crossings", "across_")
              for table in _known(results, f"Connections {_words(scope)}", _of("crossings", scope)))]


def _camps(results: Results) -> list[Columns]:
    """Of camps that replay the same connections: how transfer times of each stand to the baseline, then themselves."""
    run = next(iter(results.experiment.usable_runs), None)
    quarters = ("all", "smallest quarter", "second", "third", "largest quarter")
    times, ratios = list[Columns](), list[Columns]()
    for camp in camps.camps(run) if run else ():
        def of_quarters(table: str, camp: camps.Camp = camp) -> list[Column]:
            """What has no heading has its quarters' names."""
            return [Column(one.metric, camps.scope(camp.name, place), one.heading or label)
                    for one in shown(table) for place, label in enumerate(quarters)]
        whose = f"camp {camp.name} ({'+'.join(camp.variants) or 'congestion control under test'})"
        times += _known(results, f"Mean transfer time, {whose}", of_quarters("camp_times"))
        letter = "L, the loss" if camp.standard else "G, the gain"
        ratios += _known(
            results, f"{letter} of {whose}: mean transfer time over that of the same connections in the baseline "
                     "(below 1: faster)", of_quarters("camp_ratios"))
    return [*ratios, *times]


def _fairness(results: Results) -> list[Columns]:
    """Fairness among few long flows (the bin width is part of its definition), and how losses are shared."""
    scope = next(iter(_scopes(results, "fairness", "bin_")), None)
    if scope is None:
        return []
    flows = [column for flow in _scopes(results, "episode_flows")[:MOST_FLOWS]
             for column in _of("episode_flows", flow, _words(flow))]
    found = _known(results, f"Long flows, bins of {_words(scope.removeprefix('bin_'))}", _of("fairness", scope))
    for link in _scopes(results, "episodes"):
        found += _known(results, f"Loss episodes, {style.direction(link)}", [*_of("episodes", link), *flows])
    return found


def _flows(results: Results) -> list[Columns]:
    """Single long flows, congestion controls side by side, UDP flows, and what single studies look at."""
    udp, quic = ([column for scope in _scopes(results, kind)[:MOST_FLOWS // 2]
                  for column in _of(kind, scope, _words(scope))] for kind in ("udp", "quic"))
    transients = [Column(one.metric, scope, one.heading) for one in shown("transients")
                  for scope in results.scopes(one.metric)]
    names = _component_names(results.experiment)
    arrived = [column for scope in _scopes(results, "arrived")[:MOST_FLOWS]
               for column in _of("arrived", scope, names.get(scope, _words(scope)))]
    recovery = [column for scope in results.scopes("segments_sent_again") for column in _of("recovery", scope)]
    return [*_known(results, "Throughput of long flows", [*_flow_columns(results), *_ratio_columns(results)]),
            *_known(results, "Congestion controls side by side, mean per flow", _cca_columns(results, "ccas")),
            *_known(results, "Congestion controls side by side, connections", _cca_columns(results, "mixed")),
            *_known(results, "UDP flows", udp), *_known(results, "QUIC flows", quic), *_ramp_up(results),
            *_known(results, "Around the step of the cross traffic", transients),
            *_known(results, "What arrived, layer 2", arrived),
            *_known(results, "Repair of the chosen losses", recovery)]


def _ramp_up(results: Results) -> list[Columns]:
    """A table for each flow: a column for each number of bytes that some run reached."""
    labels, found = _flow_labels(results.experiment), list[Columns]()
    for one in shown("ramp_up"):
        sizes_of: dict[int, list[int]] = {}
        for scope in results.scopes(one.metric):
            flow, size = re.findall(r"\d+", scope)
            if any(math.isfinite(value) for row in results.experiment.rows
                   for value in results.sample(row, one.metric, scope)):
                sizes_of.setdefault(int(flow), []).append(int(size))
        for number, reached in sorted(sizes_of.items()):
            found += _known(results, f"{one.heading}, flow {number}{labels.get(number, '')}", [
                Column(one.metric, f"flow_{number}/bytes_{size}", style.size(size)) for size in sorted(reached)])
    return found


def _flow_columns(results: Results) -> list[Column]:
    """Each flow, if there are few; what tells flows apart stands with the metric that has no heading."""
    labels, columns = _flow_labels(results.experiment), list[Column]()
    for one in shown("flows"):
        flows = sorted(int(found[1]) for scope in results.scopes(one.metric)
                       if (found := re.fullmatch(r"flow_(\d+)", scope)))
        if len(flows) <= MOST_FLOWS:
            columns += [Column(one.metric, f"flow_{flow}", f"flow {flow}, {one.heading}" if one.heading
                               else f"flow {flow}{labels.get(flow, '')}") for flow in flows]
    return columns


def _ratio_columns(results: Results) -> list[Column]:
    """Of flows to each other: which, where the heading does not say it, are base round-trip times."""
    columns = []
    for one in shown("flow_ratios"):
        for scope in results.scopes(one.metric):
            rtts = re.fullmatch(r"rtt_(.+)_to_(.+)_ms", scope)
            columns.append(Column(one.metric, scope, f"{one.heading} {rtts[1]} ms : {rtts[2]} ms" if rtts
                                  else one.heading))
    return columns


def _component_names(experiment: Experiment) -> dict[str, str]:
    """{flow_N: 'quic (flow N)'} of runs with programs: what the scenario calls what sends, if in all rows."""
    found: dict[int, set[str]] = {}
    runs = [run for row in experiment.rows for run in experiment.usable(row)[:1]]
    for run in runs:
        for flow in run.flows:
            found.setdefault(flow.flow, set()).add(flow.component)
    return {f"flow_{flow}": f"{named.pop()} (flow {flow})" if len(named) == 1 else f"flow {flow}"
            for flow, named in found.items()} if any(map(program_curves.flows, runs)) else {}


def _flow_labels(experiment: Experiment) -> dict[int, str]:
    """What tells the flows apart: base RTTs, else hosts; where that is the same in all rows that have the flow."""
    found: dict[int, set[str]] = {}
    for row in experiment.rows:
        for run in experiment.usable(row)[:1]:
            for flow, label in _run_labels(run).items():
                found.setdefault(flow, set()).add(label)
    return {flow: labels.pop() for flow, labels in found.items() if len(labels) == 1}


def _run_labels(run: Run) -> dict[int, str]:
    flows = tcp.listed_flows(run)
    rtts_us = {flow.flow: flow.base_rtt_us for flow in flows}
    if len(flows) == 1 or len(set(rtts_us.values())) > 1:
        return {flow: f", {rtt_us / 1e3:g} ms" for flow, rtt_us in rtts_us.items() if rtt_us}
    return {flow.flow: f", {flow.sender} to {flow.receiver}" for flow in flows}


def _cca_columns(results: Results, table: str) -> list[Column]:
    return [column for scope in _scopes(results, table, "cca_")
            for column in _of(table, scope, scope.removeprefix("cca_"))]


def _sizes(results: Results) -> list[Columns]:
    """A column for each size class: of all, then for each direction that has the metric by itself."""
    run = next(iter(results.experiment.usable_runs), None)
    found = []
    for one in shown("sizes"):
        for direction in ("", *(load_directions(run) if run else ())):
            classes = sorted((bounds[1], bounds[2], scope) for scope in results.scopes(one.metric)
                             if (bounds := sizes.bounds(scope)) and bounds[0] == direction)
            found += _known(results, _joined(one.heading, style.direction(direction) if direction else ""), [
                Column(one.metric, scope, f"{style.size(low)} to {style.size(high)}", one.counted_by)
                for low, high, scope in classes])
    return found
