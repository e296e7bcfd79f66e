# SPDX-License-Identifier: GPL-2.0-only
"""When each connection starts: shuffle, scale and prefill.

The result offers the target load in the measurement interval, and does so steadily: an
arrangement of the bins is accepted if the load of the second third of the time after
prefill is within 5 % of the last third's, else the next one is tried.
"""
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from traffic.tmix import batch as batches
from traffic.tmix.load import Pieces, offered_bps, pieces, scale_starts, search_scale, thirds_bps, thirds_difference
from traffic.tmix.order import Run, TooShort
from traffic.tmix.prefill import prefill
from traffic.tmix.shuffle import bin_us, shuffle_starts

THIRDS_LIMIT = 0.05         # draft-irtf-iccrg-tcpeval-01
LOAD_LIMIT = 0.05


@dataclass(frozen=True)
class Traffic:
    """All sources' connections in one batch, in the order of the sources."""
    batch: batches.Batch        # start_us in trace time
    pieces: Pieces              # on the links
    bits: Any                   # of each connection on the target links
    source_first: Any           # offsets of the sources' connections
    length_us: int              # of the trace

    @classmethod
    def of(cls, loaded: Sequence[batches.Batch], run: Run) -> "Traffic":
        counts = np.array([len(source) for source in loaded])
        if not counts.all():
            raise TooShort(f"source {int(np.argmin(counts))} has no connections")
        batch = batches.concatenate(loaded).with_explicit_fins()
        wire = pieces(batch, np.repeat(run.rtts_us, counts), np.repeat(run.shares_bps, counts))
        wire = wire.on_links(np.repeat(run.crossing, counts, axis=1))
        return cls(batch, wire, 8 * (run.weights @ wire.connection_bytes),
                   batches.offsets(counts), int(batch.start_us.max()) + 1)


@dataclass(frozen=True)
class Schedule:
    """Start times from the component's beginning (-1: left out) and the load they give."""
    start_us: Any
    moved: Any                  # bool: by the prefill rule
    window_us: int
    scale: float
    offered_bps: Any
    thirds_bps: Any
    thirds_difference: float
    load_error: float           # offered / target - 1


def arrange(traffic: Traffic, run: Run) -> tuple[Schedule, int]:
    """The first arrangement that is steady enough, else the steadiest: (schedule, attempts)."""
    best: tuple[tuple[float, float], Schedule] | None = None
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


def _first_guess(traffic: Traffic, run: Run) -> float:
    """The scale at which the whole trace, evenly spread, offers the target."""
    return float(traffic.bits.sum()) / (traffic.length_us / 1e6) / run.target_bps


def _shuffled(traffic: Traffic, bin_length_us: float, seed: int, attempt: int) -> Any:
    starts = np.empty_like(traffic.batch.start_us)
    for source, (a, b) in enumerate(zip(traffic.source_first, traffic.source_first[1:])):
        starts[a:b] = shuffle_starts(traffic.batch.start_us[a:b], max(round(bin_length_us), 1),
                                     f"{seed}/{source}/{attempt}", traffic.length_us)
    return starts


def _timed(traffic: Traffic, run: Run, trace_starts: Any, scale: float) -> tuple[Any, Any, int]:
    """(start_us, moved, window_us), from the component's beginning."""
    start_us = scale_starts(trace_starts, scale)
    start_us[start_us >= run.to_us] = -1
    taking_part = np.where(start_us < 0, run.to_us, start_us)   # beyond the prefill
    placed, moved, window_us = prefill(taking_part, traffic.pieces.data_end_us, traffic.bits,
                                       run.prefill_us, run.target_bps)
    placed[start_us < 0] = -1
    return placed, moved, window_us


def _offer(traffic: Traffic, run: Run, trace_starts: Any) -> Callable[[float], float]:
    def offered(scale: float) -> float:
        start_us, _, _ = _timed(traffic, run, trace_starts, scale)
        return float(run.weights @ offered_bps(traffic.pieces, start_us, run.from_us,
                                               run.to_us))
    return offered


def _schedule(traffic: Traffic, run: Run, trace_starts: Any, scale: float) -> Schedule:
    start_us, moved, window_us = _timed(traffic, run, trace_starts, scale)
    offered = offered_bps(traffic.pieces, start_us, run.from_us, run.to_us)
    thirds = thirds_bps(traffic.pieces, start_us, run.prefill_us, run.to_us)
    return Schedule(start_us, moved, window_us, scale, offered, thirds,
                    float(thirds_difference(run.weights @ thirds)), float(run.weights @ offered) / run.target_bps - 1)
