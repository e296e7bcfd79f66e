# SPDX-License-Identifier: GPL-2.0-only
"""Time series of an experiment's runs for its page, where they can be zoomed: thinned and packed into so many bytes.

Of each run: throughput and queueing delay of its bottlenecks; throughput, congestion window and round-trip time of some
flows. Thinning keeps of each of many equal spans of time the first, the last, the smallest and the largest value (M4:
Jugel et al., VLDB 2014), so that no peak is lost: nothing is averaged.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np
import pandas as pd

from analysis.drawing import style
from analysis.flows import program_curves, windows
from analysis.read import series, tcp, zooms
from analysis.read.experiment import Experiment
from analysis.read.runs import AnalysisError, Array, Run
from traffic.workload.records import Flow

#: the largest page, bytes; what tables and figures leave of it is for series
MOST_PAGE_BYTES = 4_900_000
#: the most that series take
MOST_BYTES = 2_500_000
#: a series has no fewer spans than LEAST_SPANS (rather, there are fewer runs), and no more than MOST_SPANS
LEAST_SPANS, MOST_SPANS = 100, 1000
MOST_LINKS, MOST_FLOWS = 4, 6   # of a run
RATE_US = 100_000   # throughput is over this much time, or over a sampling interval where that is longer
NO_ROOM = "No time series to zoom: tables and figures leave no room for them."
MOST_RATES = 100_000    # of a link
LIBRARY = Path("/usr/share/javascript/dygraphs")

_POINT_BYTES = 16 / 3   # two numbers of 16 bits, in base64
_AROUND_BYTES = 120     # what else is written down of a series
_STEPS = 65_535


class Series(NamedTuple):
    """One curve: of which chart, of what (a link, a flow), as numbers over microseconds in order."""

    chart: str      # throughput (Mbit/s), delay (ms), cwnd (segments), rtt (ms)
    of: str         # link or flow
    place: int      # which of the links or flows
    t_us: Array
    values: Array


class Missing(AnalysisError):
    """dygraphs is not installed."""


class Packed(TypedDict):
    """A curve as the page reads it: its chart, name and place, its largest value, and its numbers."""

    c: str
    k: str
    i: int
    max: float
    d: str


class ExploredRun(TypedDict):
    """A run as the page reads it; start and end of the measurement in s, names of its links and flows."""

    name: str
    row: str
    seed: int
    series: list[Packed]
    start: float
    end: float
    links: list[str]
    flows: list[str]


class Explored(TypedDict, total=False):
    """What the template needs: series, how they were thinned, and the library; or why there are none."""

    problem: str
    script: str
    style: str
    spans: int
    #: {run that is left out: why}
    problems: dict[str, str]
    runs: list[ExploredRun]
    left_out: int


def context(experiment: Experiment, room_bytes: float) -> Explored:
    """{} where no run has any series.

    room_bytes: how much larger the page may become.
    """
    runs = list(_in_turn(experiment))
    if not runs:
        return {}
    try:
        script, style_sheet = library()
    except Missing as problem:
        return {"problem": str(problem)}
    room = min(MOST_BYTES, room_bytes - len(script) - len(style_sheet))
    problems: dict[str, str] = {}
    spans, count, used = 0, len(runs), 0
    found: dict[str, ExploredRun] = {}
    for run in runs:
        if len(found) >= count:
            break
        try:
            curves = list(of_run(run))
            if not curves:
                continue
            if not spans:
                # the others are taken to have about what the first one has
                spans, count = plan(0.9 * room, [len(one.t_us) for one in curves], len(runs))
            packed = [pack(one, run.interval.end_us, spans) for one in curves]
        except Exception as problem:    # the fault of what was given to read
            problems[run.name] = str(problem) if isinstance(problem, AnalysisError) else \
                f"{type(problem).__name__}: {problem}"
            continue
        size = sum(len(one["d"]) + _AROUND_BYTES for one in packed)
        if used + size <= room:
            used += size
            found[run.name] = {
                "name": run.name, "row": experiment.row_of(run).label, "seed": run.seed, "series": packed,
                "start": run.interval.start_us / 1e6, "end": run.interval.end_us / 1e6,
                "links": [style.direction(name) for name in _links(run)], "flows": [one.label for one in _flows(run)]}
    if not found:
        why = [f"{name}: {problem}" for name, problem in problems.items()]
        return {"problem": "; ".join(["No time series to zoom", *why]) if why else NO_ROOM} if spans or why else {}
    return {"script": script, "style": style_sheet, "spans": spans, "problems": problems,
            "runs": [found[run.name] for run in experiment.runs if run.name in found],
            "left_out": len(runs) - len(found) - len(problems)}


def library() -> tuple[str, str]:
    """(script, style sheet) of dygraphs, to be put into the page. Missing if it is not there."""
    try:
        script = (LIBRARY / "dygraph.min.js").read_text(encoding="utf-8")
        sheet = (LIBRARY / "dygraph.min.css").read_text(encoding="utf-8")
    except OSError:
        raise Missing("No time series to zoom: dygraphs is not installed (Debian package libjs-dygraphs, make setup)."
                      ) from None
    # without the line that has a browser look for the source, and nothing that would end the element around it
    for end in ("//# sourceMappingURL", "/*# sourceMappingURL"):
        script, sheet = script.partition(end)[0], sheet.partition(end)[0]
    return script.replace("</script", "<\\/script"), sheet.replace("</style", "")


def plan(room_bytes: float, lengths: Sequence[int], runs: int) -> tuple[int, int]:
    """(spans of a series, runs): as many spans as there is room for, fewer runs where that would be too few.

    lengths: of the series of one run, points.
    """
    def size(spans: int) -> float:
        return sum(min(length, 4 * spans) * _POINT_BYTES + _AROUND_BYTES for length in lengths)

    count = max(0, min(runs, int(room_bytes / max(1.0, size(LEAST_SPANS)))))
    # bisect: the most spans that still fit
    low, high = LEAST_SPANS, MOST_SPANS
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count * size(middle) <= room_bytes else (low, middle - 1)
    return low, count


def pack(one: Series, end_us: float, spans: int) -> Packed:
    """A curve as the page reads it: d is base64 of 16-bit numbers, little end first: all times, then all values.

    Times are 1/65535 of the run, values 1/65535 of the largest one; times that would fall together move by one.
    """
    kept = zooms.thinned(one.t_us, one.values, spans)
    top = float(one.values.max()) or 1.0
    order = np.arange(len(kept))
    times = np.round(one.t_us[kept] / end_us * _STEPS).astype(int)
    times = np.minimum(np.maximum.accumulate(times - order) + order, _STEPS - order[::-1])
    numbers = np.concatenate([times, np.round(one.values[kept] / top * _STEPS)]).astype("<u2")
    return {"c": one.chart, "k": one.of, "i": one.place, "max": float(f"{top:.6g}"),
            "d": base64.b64encode(numbers.tobytes()).decode("ascii")}


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
