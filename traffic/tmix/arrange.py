# SPDX-License-Identifier: GPL-2.0-only
"""When each connection starts: shuffle, scale and prefill.

The result offers the target load in the measurement interval. With `balance: thirds` it also does so
steadily: arrangements of the bins are tried until the load of the last third of the time after prefill is within
5 % of the second's.
"""
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from testbed.core import steadiness
from traffic.tmix import batch as batches
from traffic.tmix.chance import Starts, load_chance, thirds_chance
from traffic.tmix.each import fit_each
from traffic.tmix.load import Pieces, offered_bps, pieces, scale_starts, search_scale, thirds_bps
from traffic.tmix.order import Run, TooShort
from traffic.tmix.prefill import Candidates, at_flow_rate, flow_bps, prefill
from traffic.tmix.shuffle import bin_us, shuffle_starts

LOAD_LIMIT = 0.05


@dataclass(frozen=True)
class Traffic:
    """All sources' connections in one batch, in the order of the sources."""
    batch: batches.Batch        # start_us in trace time
    pieces: Pieces              # on the links
    counted: Pieces             # the same with the overhead by which the load is counted
    bits: np.ndarray            # of each connection on the target links, as counted
    source_first: np.ndarray    # offsets of the sources' connections
    length_us: int              # of the trace

    @property
    def source(self) -> np.ndarray:
        """The source of each connection, from 0."""
        return np.repeat(np.arange(len(self.source_first) - 1), np.diff(self.source_first))

    @classmethod
    def of(cls, loaded: Sequence[batches.Batch], run: Run) -> "Traffic":
        counts = np.array([len(source) for source in loaded])
        if not counts.all():
            raise TooShort(f"source {int(np.argmin(counts))} has no connections")
        batch = batches.concatenate(loaded).with_explicit_fins()
        wire = pieces(batch, np.repeat(run.rtts_us, counts), np.repeat(run.shares_bps, counts), run.order.l2)
        crossing = np.repeat(run.crossing, counts, axis=1)
        counted = wire.recounted(batch, run.order.counted).on_links(crossing)
        return cls(batch, wire.on_links(crossing), counted, 8 * (run.weights @ counted.connection_bytes),
                   batches.offsets(counts), int(batch.start_us.max()) + 1)


@dataclass(frozen=True)
class Schedule:
    """Start times from the component's beginning (-1: left out) and the load they give."""
    trace_starts_us: np.ndarray        # in trace time, shuffled
    start_us: np.ndarray
    moved: np.ndarray           # bool: by the prefill rule
    window_us: int
    scale: float
    factors: np.ndarray         # float64[sources], on the scale
    flow_bps: float | None      # of a connection in the prefill, where its rule has one
    offered_bps: np.ndarray
    counted_bps: np.ndarray     # the same with the overhead by which the load is counted
    thirds_bps: np.ndarray
    thirds_difference: float    # of the targets together, as testbed/core/steadiness.py defines it
    thirds_chance: float        # its standard deviation by chance alone
    load_error: float           # counted / target - 1
    worst_error: float          # the same, where each target has the load: of the one furthest from it
    load_chance: float          # its standard deviation by chance alone; 0 if the scale was searched for it


def arrange(traffic: Traffic, run: Run) -> tuple[Schedule, int]:
    """The first arrangement that will do, else the one that lacks least: (schedule, attempts).

    It will do if a scale was found at which it offers the target, where one is searched, and if its thirds
    agree, where `balance` is "thirds".
    """
    best: tuple[tuple[float, float], Schedule] | None = None
    scale, searched = _cutting_scale(traffic, run), run.order.scale == "search"
    for attempt in range(run.order.most_attempts):
        starts = _shuffled(traffic, bin_us(run.rate_bps) / scale, run.order.seed, attempt)
        found = _searched_scale(traffic, run, starts, scale) if searched else scale
        factors = _factors(traffic, run, starts, found)
        if traffic.length_us * found * factors.min() < 0.98 * run.to_us:
            raise TooShort(
                f"the traces last {traffic.length_us * found * factors.min() / 1e6:.0f} s at scale {found:.4g}, "
                f"the traffic {run.to_us / 1e6:.0f} s; longer traces or a shorter test are needed", "traces")
        schedule = schedule_of(traffic, run, starts, found, factors)
        lack = (max(abs(schedule.worst_error) - LOAD_LIMIT, 0) if searched else 0,
                max(schedule.thirds_difference - steadiness.LIMIT, 0) if run.order.balance == "thirds" else 0)
        if best is None or lack < best[0]:
            best = (lack, schedule)
        if lack == (0, 0):
            break
    assert best
    return best[1], attempt + 1


def _factors(traffic: Traffic, run: Run, trace_starts: np.ndarray, scale: float) -> np.ndarray:
    """A factor on the scale for each source: 1, but where every target is to have the load."""
    def offered(factors: np.ndarray) -> np.ndarray:
        start_us, _, _ = _timed(traffic, run, trace_starts, scale, factors)
        return offered_bps(traffic.counted, start_us, run.from_us, run.to_us)
    ones = np.ones(len(run.rtts_us))
    return fit_each(offered, traffic.counted.connection_bytes, traffic.source, run) if run.fits_each else ones


def _cutting_scale(traffic: Traffic, run: Run) -> float:
    """The scale by which the trace is cut into bins: the one that is given, or about the one that is searched."""
    if isinstance(run.order.scale, float):
        return run.order.scale
    # at which the whole trace, evenly spread, offers the target
    mean = float(traffic.bits.sum()) / (traffic.length_us / 1e6) / run.target_bps
    if run.order.scale == "mean":
        return mean
    # where a bin is shorter than 5 % of the trace its length decides little, so the scale of the unshuffled
    # trace is good enough
    return _searched_scale(traffic, run, traffic.batch.start_us, mean)


def _searched_scale(traffic: Traffic, run: Run, trace_starts: np.ndarray, guess: float) -> float:
    """TooShort if the traces carry so little that no scale offers any load in the measured time."""
    try:
        return search_scale(_offer(traffic, run, trace_starts), run.target_bps, guess)[0]
    except ValueError:
        bits = float(traffic.bits.sum())
        raise TooShort(
            f"the traces carry {bits / 8e6:.3g} MB over the target, which {run.target_bps / 1e6:.3g} Mbit/s carry in "
            f"{bits / run.target_bps:.2g} s; the traffic lasts {run.to_us / 1e6:.0f} s: longer or more traces, a lower "
            "load or a shorter test are needed", "traces") from None


def _shuffled(traffic: Traffic, bin_length_us: float, seed: int, attempt: int) -> np.ndarray:
    starts = np.empty_like(traffic.batch.start_us)
    for source, (a, b) in enumerate(zip(traffic.source_first, traffic.source_first[1:])):
        starts[a:b] = shuffle_starts(traffic.batch.start_us[a:b], max(round(bin_length_us), 1),
                                     f"{seed}/{source}/{attempt}", traffic.length_us)
    return starts


def _flow_bps(traffic: Traffic, run: Run, scale: float) -> float | None:
    """The rate of a connection by which the prefill rule judges, if it does by one."""
    if run.order.prefill_rule != "suite":
        return None
    per_s = (run.order.connections_per_s * len(run.rtts_us) if run.order.connections_per_s
             else len(traffic.batch) / (traffic.length_us / 1e6))
    return flow_bps(run.rate_bps, per_s / scale, run.most_rtt_us)


def _timed(traffic: Traffic, run: Run, trace_starts: np.ndarray, scale: float,
           factors: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, int]:
    """(start_us, moved, window_us), from the component's beginning; factors: on the scale, of each source."""
    start_us = scale_starts(trace_starts, scale if factors is None else (scale * factors)[traffic.source])
    start_us[start_us >= run.to_us] = -1
    taking_part = np.where(start_us < 0, run.to_us, start_us)   # beyond the prefill
    rate_bps = _flow_bps(traffic, run, scale)
    candidates = (Candidates(traffic.pieces.data_end_us, traffic.bits) if rate_bps is None
                  else at_flow_rate(taking_part, traffic.bits, rate_bps, run.prefill_us))
    placed, moved, window_us = prefill(taking_part, candidates, run.prefill_us, run.target_bps,
                                       run.order.prefill_window_us)
    placed[start_us < 0] = -1
    return placed, moved, window_us


def _offer(traffic: Traffic, run: Run, trace_starts: np.ndarray) -> Callable[[float], float]:
    def offered(scale: float) -> float:
        start_us, _, _ = _timed(traffic, run, trace_starts, scale)
        return float(run.weights @ offered_bps(traffic.counted, start_us, run.from_us,
                                               run.to_us))
    return offered


def schedule_of(traffic: Traffic, run: Run, trace_starts: np.ndarray, scale: float,
                factors: np.ndarray | None = None) -> Schedule:
    """The schedule of an arrangement: trace_starts, start times of the connections in trace time."""
    start_us, moved, window_us = _timed(traffic, run, trace_starts, scale, factors)
    offered, counted = (offered_bps(one, start_us, run.from_us, run.to_us)
                        for one in (traffic.pieces, traffic.counted))
    thirds = thirds_bps(traffic.pieces, start_us, run.prefill_us, run.to_us)
    starts = Starts(start_us, traffic.source, bin_us(run.rate_bps))
    error = float(run.weights @ counted) / run.target_bps - 1
    worst = max(counted[run.weights > 0] / run.each_bps - 1, key=abs) if run.fits_each else error
    return Schedule(
        trace_starts, start_us, moved, window_us, scale, np.ones(len(run.rtts_us)) if factors is None else factors,
        _flow_bps(traffic, run, scale), offered, counted, thirds,
        steadiness.difference(run.weights @ thirds),
        thirds_chance(traffic.pieces, starts, run.prefill_us, run.to_us, run.weights),
        error, float(worst), 0.0 if run.order.scale == "search"
        else load_chance(traffic.counted, starts, run.from_us, run.to_us, run.weights))
