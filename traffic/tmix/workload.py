# SPDX-License-Identifier: GPL-2.0-only
"""From vectors to a scenario's traffic: shuffle, scale, prefill, plan files, account.

The result offers the target load in the measurement interval, and does so steadily: an
arrangement of the bins is accepted if the load of the second third of the time after
prefill is within 5 % of the last third's, else the next one is tried.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Callable

import numpy as np

from . import batch as batches
from .compile import write_plan_of
from .load import (DIRECTIONS, Pieces, expected_share_bps, offered_bps, pieces, scale_starts,
                   search_scale, thirds_bps, thirds_difference)
from .prefill import prefill
from .reader import read_vectors
from .shuffle import bin_us, shuffle_starts
from .synth import SynthParameters, synthesise

THIRDS_LIMIT = 0.05         # draft-irtf-iccrg-tcpeval-01
LOAD_LIMIT = 0.05
MOST_ATTEMPTS = 30
TARGET_LINKS = {"left_to_right": (1.0, 0.0), "right_to_left": (0.0, 1.0), "both": (1.0, 1.0)}

# A synthesised trace is this much longer than the run, so that the scale that meets the
# target may be less than 1.
_TRACE_MARGIN = 1.3
SOURCES = 9


class WorkloadError(ValueError):
    """Traffic that cannot be made from what was given."""


@dataclass(frozen=True)
class Synthesised:
    """Stands for the sources when there are no trace files: `count` sources."""

    count: int = SOURCES
    parameters: SynthParameters = SynthParameters()


def trace_files(folder):
    """The vector files of a folder by name: one source each.

    Raises WorkloadError if there are none.
    """
    found = sorted(path for path in Path(folder).iterdir()
                   if path.is_file() and not path.name.startswith(".")
                   and path.suffix.lower() not in (".md", ".part", ".json"))
    if not found:
        raise WorkloadError(f"{folder}: no vector files; a source is one file")
    return found


def build_workload(sources, *, rate_bps, target_load, seed, prefill_us, warmup_us, test_us,
                   rtts_us, out_dir, scale=None, target_link="right_to_left",
                   most_attempts=MOST_ATTEMPTS):
    """Make the plan files `source<k>.plan` in out_dir and the account of the load.

    sources: a list of vector files or Batches, one for each source, or a `Synthesised`.
    rate_bps, target_load: rate of the target link and the fraction of it to offer.
    seed: integer; the run's seed.
    prefill_us, warmup_us, test_us: durations; measured is what follows prefill and warm-up.
    rtts_us: base round-trip time of each source's path.
    scale: experiment start / trace start; None searches the one that meets the target.
    target_link: the direction the load is meant for ("both": their sum).
    Returns the contents of workload.json (docs/run-folder.md), with `shuffle_attempts`,
    `thirds_difference` and `load_error` beside it; `thirds_difference` is at most 0.05
    unless all attempts failed, as happens in tests of seconds.
    Raises WorkloadError if the traces are too short or the load cannot be met within 5 %;
    VectorError for a defect in a file.
    """
    if target_link not in TARGET_LINKS:
        raise WorkloadError(f"target link {target_link!r}; one of {', '.join(TARGET_LINKS)}")
    if not (rate_bps > 0 and target_load > 0 and test_us > 0
            and min(prefill_us, warmup_us) >= 0):
        raise WorkloadError("rate, load and test time must be positive, the other times not "
                            "negative")
    run = _Run(rate_bps=rate_bps, target_bps=rate_bps * target_load,
               share_bps=expected_share_bps(rate_bps, target_load),
               weights=np.array(TARGET_LINKS[target_link]), prefill_us=prefill_us,
               from_us=prefill_us + warmup_us, to_us=prefill_us + warmup_us + test_us)
    if isinstance(sources, Synthesised):
        loaded = _synthesise(sources, run, seed, rtts_us)
    else:
        loaded = [source if isinstance(source, batches.Batch)
                  else batches.from_vectors(read_vectors(source)) for source in sources]
    if len(loaded) != len(rtts_us):
        raise WorkloadError(f"{len(loaded)} sources but {len(rtts_us)} round-trip times")
    traffic = _Traffic.of(loaded, rtts_us, run)
    schedule, attempts = _arrange(traffic, run, seed, scale, most_attempts)
    if abs(schedule.load_error) > LOAD_LIMIT and scale is None:
        raise WorkloadError(
            f"offered load is {100 * (1 + schedule.load_error):.1f} % of the target at scale "
            f"{schedule.scale:.4g}, the best there is; more or longer traces are needed")
    out_dir = Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    connections = _write_plans(traffic, schedule, run, seed, out_dir)
    return {
        "target_link": target_link, "target_load": target_load, "scale": schedule.scale,
        "prefill_us": prefill_us, "prefill_window_us": schedule.window_us,
        "warmup_us": warmup_us, "test_us": test_us, "duration_us": run.to_us,
        "offered_bps": _by_direction(schedule.offered_bps),
        "thirds_bps": _by_direction(schedule.thirds_bps),
        "connections": connections, "bin_us": bin_us(rate_bps),
        "thirds_difference": schedule.thirds_difference, "shuffle_attempts": attempts,
        "load_error": schedule.load_error,
    }


def _by_direction(values):
    return {name: np.round(value, 1).tolist() for name, value in zip(DIRECTIONS, values)}


@dataclass(frozen=True)
class _Run:
    """The scenario's side of the matter."""

    rate_bps: float
    target_bps: float
    share_bps: float
    weights: np.ndarray         # what of each direction counts towards the target
    prefill_us: int
    from_us: int
    to_us: int


@dataclass(frozen=True)
class _Traffic:
    """All sources' connections in one batch, in the order of the sources."""

    batch: batches.Batch        # start_us in trace time
    pieces: Pieces
    bits: np.ndarray            # of each connection on the target link
    source_first: np.ndarray    # offsets of the sources' connections
    length_us: int              # of the trace

    @classmethod
    def of(cls, loaded, rtts_us, run):
        counts = np.array([len(source) for source in loaded])
        if not counts.all():
            raise WorkloadError(f"source {int(np.argmin(counts))} has no connections")
        batch = batches.concatenate(loaded).with_explicit_fins()
        wire = pieces(batch, np.repeat(rtts_us, counts), run.share_bps)
        return cls(batch, wire, 8 * (run.weights @ wire.connection_bytes),
                   batches.offsets(counts), int(batch.start_us.max()) + 1)


@dataclass(frozen=True)
class _Schedule:
    """Start times in experiment time (-1: left out) and the load they give."""

    start_us: np.ndarray
    moved: np.ndarray           # bool: by the prefill rule
    window_us: int
    scale: float
    offered_bps: np.ndarray
    thirds_bps: np.ndarray
    thirds_difference: float
    load_error: float           # offered / target - 1


def _synthesise(sources, run, seed, rtts_us):
    """Batches of about the right arrival rate: the search then finds a scale near 1."""
    if sources.count != len(rtts_us):
        raise WorkloadError(f"{sources.count} sources but {len(rtts_us)} round-trip times")
    # The mean of the distribution, measured on a fixed sample, is the same for every seed.
    sample = synthesise(200.0, 0, replace(sources.parameters, connections_per_second=200.0))
    sample = sample.with_explicit_fins()
    wire = pieces(sample, np.mean(rtts_us), run.share_bps)
    bits = 8 * float(np.mean(run.weights @ wire.connection_bytes))
    parameters = replace(sources.parameters,
                         connections_per_second=run.target_bps / bits / sources.count)
    return [synthesise(run.to_us / 1e6 * _TRACE_MARGIN, (seed, source), parameters)
            for source in range(sources.count)]


def _arrange(traffic, run, seed, scale, most_attempts):
    """The first arrangement that is steady enough, else the steadiest: (schedule, attempts)."""
    best = None
    fixed = scale is not None
    if not fixed:
        # where a bin is shorter than 5 % of the trace its length decides little, so the
        # scale of the unshuffled trace is good enough to cut it by
        scale, _ = search_scale(_offer(traffic, run, traffic.batch.start_us), run.target_bps,
                                _first_guess(traffic, run))
    for attempt in range(most_attempts):
        starts = _shuffled(traffic, bin_us(run.rate_bps) / scale, seed, attempt)
        found = scale if fixed else search_scale(_offer(traffic, run, starts), run.target_bps,
                                                 scale)[0]
        if traffic.length_us * found < 0.98 * run.to_us:
            raise WorkloadError(
                f"the traces last {traffic.length_us * found / 1e6:.0f} s at scale {found:.4g}, "
                f"the run {run.to_us / 1e6:.0f} s; longer traces or a shorter test are needed")
        schedule = _schedule(traffic, run, starts, found)
        # how far it is from one that will do; a given scale is not judged by its load
        lack = (0 if fixed else max(abs(schedule.load_error) - LOAD_LIMIT, 0),
                max(schedule.thirds_difference - THIRDS_LIMIT, 0))
        if best is None or lack < best[0]:
            best = (lack, schedule)
        if lack == (0, 0):
            break
    return best[1], attempt + 1


def _first_guess(traffic, run):
    """The scale at which the whole trace, evenly spread, offers the target."""
    return float(traffic.bits.sum()) / (traffic.length_us / 1e6) / run.target_bps


def _shuffled(traffic, bin_length_us, seed, attempt):
    starts = np.empty_like(traffic.batch.start_us)
    for source, (a, b) in enumerate(zip(traffic.source_first, traffic.source_first[1:])):
        starts[a:b] = shuffle_starts(traffic.batch.start_us[a:b], max(round(bin_length_us), 1),
                                     f"{seed}/{source}/{attempt}", traffic.length_us)
    return starts


def _timed(traffic, run, trace_starts, scale):
    """(start_us, moved, window_us) in experiment time."""
    start_us = scale_starts(trace_starts, scale)
    start_us[start_us >= run.to_us] = -1
    taking_part = np.where(start_us < 0, run.to_us, start_us)   # beyond the prefill
    placed, moved, window_us = prefill(taking_part, traffic.pieces.data_end_us, traffic.bits,
                                       run.prefill_us, run.target_bps)
    placed[start_us < 0] = -1
    return placed, moved, window_us


def _offer(traffic, run, trace_starts) -> Callable[[float], float]:
    def offered(scale):
        start_us, _, _ = _timed(traffic, run, trace_starts, scale)
        return float(run.weights @ offered_bps(traffic.pieces, start_us, run.from_us,
                                               run.to_us))
    return offered


def _schedule(traffic, run, trace_starts, scale):
    start_us, moved, window_us = _timed(traffic, run, trace_starts, scale)
    offered = offered_bps(traffic.pieces, start_us, run.from_us, run.to_us)
    thirds = thirds_bps(traffic.pieces, start_us, run.prefill_us, run.to_us)
    return _Schedule(start_us, moved, window_us, scale, offered, thirds,
                     float(thirds_difference(run.weights @ thirds)),
                     float(run.weights @ offered) / run.target_bps - 1)


def _write_plans(traffic, schedule, run, seed, out_dir):
    """One plan file for each source; returns the number of connections in all of them."""
    total = 0
    for source, (a, b) in enumerate(zip(traffic.source_first, traffic.source_first[1:])):
        chosen = np.flatnonzero(schedule.start_us[a:b] >= 0)
        batch = traffic.batch.take(a + chosen).with_starts(schedule.start_us[a + chosen])
        write_plan_of(out_dir / f"source{source}.plan", batch, chosen,
                      schedule.moved[a + chosen], source=source, duration_us=run.to_us,
                      seed=seed, scale=schedule.scale)
        total += len(chosen)
    return total
