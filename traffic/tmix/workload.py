# SPDX-License-Identifier: GPL-2.0-only
"""From vectors to a component's traffic: shuffle, scale, prefill, plan files, account.

The result offers the target load in the measurement interval, and does so steadily: an
arrangement of the bins is accepted if the load of the second third of the time after
prefill is within 5 % of the last third's, else the next one is tried.
"""
import pathlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from traffic.tmix import batch as batches
from traffic.tmix.compile import write_plan_of
from traffic.tmix.load import (Pieces, expected_share_bps, offered_bps, pieces, scale_starts, search_scale, thirds_bps,
                               thirds_difference)
from traffic.tmix.prefill import prefill
from traffic.tmix.reader import Limits, read_vectors
from traffic.tmix.shuffle import bin_us, permutation, shuffle_starts
from traffic.tmix.synth import SynthParameters, expected_connections, synthesise
from traffic.tmix.vectors import MAX_TIME_US

THIRDS_LIMIT = 0.05         # draft-irtf-iccrg-tcpeval-01
LOAD_LIMIT = 0.05
MOST_ATTEMPTS = 30

# A synthesised trace is this much longer than the run, so that the scale that meets the
# target may be less than 1; where chance wants more, as with few connections, the next is tried.
_TRACE_MARGINS = (1.3, 2.6, 5.2)
#: connections between two words of progress
_REPORT_EVERY = 100_000
# what counts as a connection more
_ADUS_PER_CONNECTION = 20


class WorkloadError(ValueError):
    """Traffic that cannot be made from what was given; `field` of the section says where, if one does."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class TooShort(WorkloadError):
    """The traces do not last as long as the run."""


@dataclass(frozen=True)
class Synthesised:
    """Stands for the sources when there are no trace files: `count` sources."""
    count: int = 9
    parameters: SynthParameters = SynthParameters()


@dataclass(frozen=True)
class SourcePath:
    """Where a source's connections go. there, back: names of the links that the initiator's and the
    acceptor's data cross."""
    rtt_us: int
    there: Sequence[str]
    back: Sequence[str]


@dataclass(frozen=True)
class Order:
    """What is wanted of a workload; times are experiment time.

    rates_bps: of all links whose load is to be known. targets, load: the load, as a share of their rates'
    sum, that these links are to be offered together from `from_us` to `to_us`. Connections start from begin_us to
    to_us, in the steady state from begin_us + prefill_us. scale: experiment start / trace start; None searches
    the one that meets the target. shares: each source's connections are dealt out to so many plans.
    """
    rates_bps: Mapping[str, int]
    targets: Sequence[str]
    load: float
    seed: int
    begin_us: int
    prefill_us: int
    from_us: int
    to_us: int
    scale: float | None = None
    shares: int = 1
    most_attempts: int = MOST_ATTEMPTS
    limits: Limits = Limits()


def trace_files(folder: str | pathlib.Path) -> list[pathlib.Path]:
    """The vector files of a folder by name: one source each.

    Raises WorkloadError if there are none.
    """
    try:
        found = sorted(path for path in pathlib.Path(folder).iterdir()
                       if path.is_file() and not path.name.startswith(".")
                       and path.suffix.lower() not in (".md", ".part", ".json"))
    except OSError as problem:
        raise WorkloadError(f"{folder}: {problem.strerror}", "traces") from None
    if not found:
        raise WorkloadError(f"{folder}: no vector files; a source is one file", "traces")
    return found


def build_workload(sources: Synthesised | Sequence[Any], paths: Sequence[SourcePath], order: Order,
                   out_dir: pathlib.Path, report: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Make the plan files (`plan_name`) in out_dir and the account of the load.

    sources: a list of vector files or Batches, one for each path, or a `Synthesised`.
    Returns what workload.json has of it (docs/run-folder.md), with `shuffle_attempts`,
    `thirds_difference` and `load_error` beside it; `thirds_difference` is at most 0.05
    unless all attempts failed, as happens in tests of seconds. `plans`: connections in each plan.
    Raises WorkloadError if the traces are too short or the load cannot be met within 5 %;
    VectorError for a defect in a file.
    """
    run = _Run.of(order, paths)
    if isinstance(sources, Synthesised):
        for margin in _TRACE_MARGINS:
            try:
                traffic, schedule, attempts = _arranged(_synthesise(sources, run, margin, report), run, report)
                break
            except TooShort:
                if margin == _TRACE_MARGINS[-1]:
                    raise
    else:
        traffic, schedule, attempts = _arranged(_read(sources, order.limits, report), run, report)
    if abs(schedule.load_error) > LOAD_LIMIT and order.scale is None:
        raise WorkloadError(
            f"offered load is {100 * (1 + schedule.load_error):.1f} % of the target at scale "
            f"{schedule.scale:.4g}, the best there is; more or longer traces are needed", "load")
    report("writing the plans")
    out_dir.mkdir(parents=True, exist_ok=True)
    plans = _write_plans(traffic, schedule, run, out_dir)
    return {
        "target_links": list(order.targets), "target_load": order.load, "scale": schedule.scale,
        "prefill_us": order.prefill_us, "prefill_window_us": schedule.window_us,
        "measured_us": [order.from_us, order.to_us],
        "offered_bps": _by_link(run, schedule.offered_bps),
        "thirds_bps": _by_link(run, schedule.thirds_bps),
        "connections": sum(sum(shares) for shares in plans), "bin_us": bin_us(run.rate_bps),
        "thirds_difference": schedule.thirds_difference, "shuffle_attempts": attempts,
        "load_error": schedule.load_error, "plans": plans,
    }


def _arranged(loaded: Sequence[batches.Batch], run: "_Run", report: Callable[[str], None]) \
        -> tuple["_Traffic", "_Schedule", int]:
    """(traffic, the schedule chosen, how many were tried)"""
    if len(loaded) != len(run.rtts_us):
        raise WorkloadError(f"{len(loaded)} sources but {len(run.rtts_us)} paths", "traces")
    traffic = _Traffic.of(loaded, run)
    report(f"arranging {len(traffic.batch)} connections")
    return traffic, *_arrange(traffic, run)


def plan_name(source: int, share: int = 0, shares: int = 1) -> str:
    """File name of a plan; the sources are those of a component, from 0."""
    return f"source{source}.plan" if shares == 1 else f"source{source}.share{share}.plan"


def _by_link(run: "_Run", values: Any) -> dict[str, Any]:
    return {name: np.round(value, 1).tolist() for name, value in zip(run.order.rates_bps, values)}


def _read(sources: Sequence[Any], limits: Limits, report: Callable[[str], None]) -> list[batches.Batch]:
    loaded: list[batches.Batch] = []
    for number, source in enumerate(sources):
        if not isinstance(source, batches.Batch):
            name = pathlib.Path(source).name
            source = batches.from_vectors(_counted(
                read_vectors(source, limits=limits), sum(map(len, loaded)), limits,
                lambda count, name=name, number=number: report(          # type: ignore[misc]
                    f"reading {name} ({number + 1} of {len(sources)}): {count} connections")))
        loaded.append(source)
    return loaded


def _counted(vectors: Any, before: int, limits: Limits, report: Callable[[int], None]) -> Any:
    """The same vectors, with progress shown. WorkloadError if there are too many."""
    adus = 0
    for count, vector in enumerate(vectors, start=1):
        adus += len(vector.adus)
        if count % _REPORT_EVERY == 1:
            report(count - 1)
        if before + count > limits.connections or adus > _ADUS_PER_CONNECTION * limits.connections:
            raise WorkloadError(_too_many(f"more than {limits.connections}"), "most_connections")
        yield vector


def _too_many(number: str) -> str:
    return f"{number} connections; if that is meant, allow it with most_connections"


@dataclass(frozen=True)
class _Run:
    """The scenario's side of the matter; links in the order of the order's rates_bps, sources in that of the paths."""
    order: Order
    rate_bps: float             # of the slowest target, which decides the length of the bins
    target_bps: float
    rtts_us: Sequence[int]
    shares_bps: Any             # float64[sources]: rate of a long transfer
    crossing: Any               # float64[links, sources, 2]: 1 where a side's data cross a link
    weights: Any                # float64[links]: 1 for a target
    prefill_us: int             # these three from the component's beginning
    from_us: int
    to_us: int

    @classmethod
    def of(cls, order: Order, paths: Sequence[SourcePath]) -> "_Run":
        for name in order.targets:
            if name not in order.rates_bps:
                raise WorkloadError(f"target link {name!r}; one of {', '.join(order.rates_bps)}", "target")
        if not (order.load > 0 and order.targets and order.begin_us <= order.from_us < order.to_us
                and order.prefill_us >= 0):
            raise WorkloadError("load and measured time must be positive, the other times not negative")
        crossing = np.array([[[name in path.there, name in path.back] for path in paths] for name in order.rates_bps],
                            float)
        slowest: list[int] = []
        for path in paths:
            rates = [order.rates_bps[name] for name in order.targets if name in [*path.there, *path.back]]
            if not rates:
                raise WorkloadError(f"source {len(slowest)} does not cross {' or '.join(order.targets)}", "target")
            slowest.append(min(rates))
        return cls(order, min(order.rates_bps[name] for name in order.targets),
                   sum(order.rates_bps[name] for name in order.targets) * order.load, [path.rtt_us for path in paths],
                   np.array([expected_share_bps(rate_bps, order.load) for rate_bps in slowest]), crossing,
                   np.array([float(name in order.targets) for name in order.rates_bps]), order.prefill_us,
                   order.from_us - order.begin_us, order.to_us - order.begin_us)


@dataclass(frozen=True)
class _Traffic:
    """All sources' connections in one batch, in the order of the sources."""
    batch: batches.Batch        # start_us in trace time
    pieces: Pieces              # on the links
    bits: Any                   # of each connection on the target links
    source_first: Any           # offsets of the sources' connections
    length_us: int              # of the trace

    @classmethod
    def of(cls, loaded: Sequence[batches.Batch], run: _Run) -> "_Traffic":
        counts = np.array([len(source) for source in loaded])
        if not counts.all():
            raise TooShort(f"source {int(np.argmin(counts))} has no connections")
        batch = batches.concatenate(loaded).with_explicit_fins()
        wire = pieces(batch, np.repeat(run.rtts_us, counts), np.repeat(run.shares_bps, counts))
        wire = wire.on_links(np.repeat(run.crossing, counts, axis=1))
        return cls(batch, wire, 8 * (run.weights @ wire.connection_bytes),
                   batches.offsets(counts), int(batch.start_us.max()) + 1)


@dataclass(frozen=True)
class _Schedule:
    """Start times from the component's beginning (-1: left out) and the load they give."""
    start_us: Any
    moved: Any                  # bool: by the prefill rule
    window_us: int
    scale: float
    offered_bps: Any
    thirds_bps: Any
    thirds_difference: float
    load_error: float           # offered / target - 1


def _synthesise(sources: Synthesised, run: _Run, margin: float, report: Callable[[str], None]) \
        -> list[batches.Batch]:
    """Batches of about the right arrival rate: the search then finds a scale near 1."""
    if sources.count != len(run.rtts_us):
        raise WorkloadError(f"{sources.count} sources but {len(run.rtts_us)} paths")
    # The mean of the distribution, measured on a fixed sample, is the same for every seed.
    sample = synthesise(200.0, 0, replace(sources.parameters, connections_per_second=200.0))
    sample = sample.with_explicit_fins()
    wire = pieces(sample, np.mean(run.rtts_us), float(run.shares_bps.min()))
    # how often a byte of each side crosses a target, on the mean of the sources
    crossings = (run.weights @ run.crossing.reshape(len(run.weights), -1)).reshape(-1, 2).mean(axis=0)
    bits = 8 * float(np.mean(crossings @ wire.connection_bytes))
    parameters = replace(sources.parameters,
                         connections_per_second=run.target_bps / bits / sources.count)
    duration_s = run.to_us / 1e6 * margin
    if duration_s * 1e6 > MAX_TIME_US:
        raise WorkloadError(f"{duration_s:.0f} s are too long to synthesise")
    expected = sources.count * expected_connections(duration_s, parameters)
    if expected > run.order.limits.connections:
        raise WorkloadError(_too_many(f"about {expected:.0f}"), "most_connections")
    report(f"synthesising about {expected:.0f} connections")
    return [synthesise(duration_s, (run.order.seed, source), parameters) for source in range(sources.count)]


def _arrange(traffic: _Traffic, run: _Run) -> tuple[_Schedule, int]:
    """The first arrangement that is steady enough, else the steadiest: (schedule, attempts)."""
    best: tuple[tuple[float, float], _Schedule] | None = None
    scale, fixed = run.order.scale, run.order.scale is not None
    if scale is None:
        # where a bin is shorter than 5 % of the trace its length decides little, so the
        # scale of the unshuffled trace is good enough to cut it by
        scale, _ = search_scale(_offer(traffic, run, traffic.batch.start_us), run.target_bps,
                                _first_guess(traffic, run))
    for attempt in range(run.order.most_attempts):
        starts = _shuffled(traffic, bin_us(run.rate_bps) / scale, run.order.seed, attempt)
        found = scale if fixed else search_scale(_offer(traffic, run, starts), run.target_bps, scale)[0]
        if traffic.length_us * found < 0.98 * run.to_us:
            raise TooShort(
                f"the traces last {traffic.length_us * found / 1e6:.0f} s at scale {found:.4g}, "
                f"the traffic {run.to_us / 1e6:.0f} s; longer traces or a shorter test are needed", "traces")
        schedule = _schedule(traffic, run, starts, found)
        # how far it is from one that will do; a given scale is not judged by its load
        lack = (0 if fixed else max(abs(schedule.load_error) - LOAD_LIMIT, 0),
                max(schedule.thirds_difference - THIRDS_LIMIT, 0))
        if best is None or lack < best[0]:
            best = (lack, schedule)
        if lack == (0, 0):
            break
    assert best
    return best[1], attempt + 1


def _first_guess(traffic: _Traffic, run: _Run) -> float:
    """The scale at which the whole trace, evenly spread, offers the target."""
    return float(traffic.bits.sum()) / (traffic.length_us / 1e6) / run.target_bps


def _shuffled(traffic: _Traffic, bin_length_us: float, seed: int, attempt: int) -> Any:
    starts = np.empty_like(traffic.batch.start_us)
    for source, (a, b) in enumerate(zip(traffic.source_first, traffic.source_first[1:])):
        starts[a:b] = shuffle_starts(traffic.batch.start_us[a:b], max(round(bin_length_us), 1),
                                     f"{seed}/{source}/{attempt}", traffic.length_us)
    return starts


def _timed(traffic: _Traffic, run: _Run, trace_starts: Any, scale: float) -> tuple[Any, Any, int]:
    """(start_us, moved, window_us), from the component's beginning."""
    start_us = scale_starts(trace_starts, scale)
    start_us[start_us >= run.to_us] = -1
    taking_part = np.where(start_us < 0, run.to_us, start_us)   # beyond the prefill
    placed, moved, window_us = prefill(taking_part, traffic.pieces.data_end_us, traffic.bits,
                                       run.prefill_us, run.target_bps)
    placed[start_us < 0] = -1
    return placed, moved, window_us


def _offer(traffic: _Traffic, run: _Run, trace_starts: Any) -> Callable[[float], float]:
    def offered(scale: float) -> float:
        start_us, _, _ = _timed(traffic, run, trace_starts, scale)
        return float(run.weights @ offered_bps(traffic.pieces, start_us, run.from_us,
                                               run.to_us))
    return offered


def _schedule(traffic: _Traffic, run: _Run, trace_starts: Any, scale: float) -> _Schedule:
    start_us, moved, window_us = _timed(traffic, run, trace_starts, scale)
    offered = offered_bps(traffic.pieces, start_us, run.from_us, run.to_us)
    thirds = thirds_bps(traffic.pieces, start_us, run.prefill_us, run.to_us)
    return _Schedule(start_us, moved, window_us, scale, offered, thirds,
                     float(thirds_difference(run.weights @ thirds)),
                     float(run.weights @ offered) / run.target_bps - 1)


def _write_plans(traffic: _Traffic, schedule: _Schedule, run: _Run, out_dir: pathlib.Path) -> list[list[int]]:
    """One plan file for each source and share; returns the numbers of connections in them."""
    counts: list[list[int]] = []
    order = run.order
    for source, (a, b) in enumerate(zip(traffic.source_first, traffic.source_first[1:])):
        chosen = np.flatnonzero(schedule.start_us[a:b] >= 0)
        shares = deal(traffic.bits[a + chosen], order.shares, f"{order.seed}/{source}/mix")
        counts.append([])
        for share in range(order.shares):
            mine = chosen[shares == share]
            batch = traffic.batch.take(a + mine).with_starts(schedule.start_us[a + mine] + order.begin_us)
            write_plan_of(out_dir / plan_name(source, share, order.shares), batch, mine,
                          schedule.moved[a + mine], source=source, duration_us=order.to_us,
                          seed=order.seed, scale=schedule.scale)
            counts[-1].append(len(mine))
    return counts


def deal(bits: Any, shares: int, seed: str) -> Any:
    """Deal connections out: the share of each, int64[n].

    In the order of their sizes, each group of as many as there are shares is dealt in random order: the
    shares have as many connections, and sizes of the same distribution.
    """
    result = np.zeros(len(bits), np.int64)
    if shares > 1:
        draw = random.Random(seed).random
        hands = [permutation(shares, draw) for _ in range(-(-len(bits) // shares))]
        result[np.argsort(bits, kind="stable")] = np.ravel(hands)[:len(bits)]
    return result
