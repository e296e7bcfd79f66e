# SPDX-License-Identifier: GPL-2.0-only
"""Time series of a link in bins: throughput, queueing delay, drops, queue length."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd

from analysis.read.runs import AnalysisError, Array, Run
from topologies.links import varying
from topologies.links.records import Link

SECOND_US = 1_000_000
#: of the longest table whose links are told apart once for all metrics: some 10 MB
_KEPT_ROWS = 200_000
COUNTERS = ("sent_bytes", "sent_packets", "drops")


def queue_samples(run: Run, link: str, table: str = "queue") -> pd.DataFrame | None:
    """Samples of one link by time; None when the run has no such table (edge_queue: of links that are no bottlenecks).

    AnalysisError when a cumulative counter runs backwards. Not to be changed in place: those of a short table are kept.
    """
    return _of_link(run, table, link, lambda queue: _queue_samples(run, link, table, queue))


def _of_link(run: Run, table: str, link: str, find: Callable[[pd.DataFrame], pd.DataFrame]) -> pd.DataFrame | None:
    """What is found in a table of a link; None without the table."""
    frame = run.frame(table)
    kept: dict[tuple[str, str], pd.DataFrame] = run.__dict__.setdefault("_of_links", {})
    if frame is None or (table, link) in kept:
        return kept.get((table, link))
    found = find(frame)
    if len(frame) <= _KEPT_ROWS:
        kept[table, link] = found
    return found


def _queue_samples(run: Run, link: str, table: str, queue: pd.DataFrame) -> pd.DataFrame:
    samples = queue[(queue["link"] == link).to_numpy()]
    if not samples["t_us"].is_monotonic_increasing:
        samples = samples.sort_values("t_us", kind="stable")
    if len(samples) < 2:
        raise AnalysisError(f"{run.path / 'raw' / table}.csv.gz: "
                            f"{len(samples)} samples of link {link}, at least 2 are needed")
    for name in COUNTERS:
        steps = np.diff(samples[name].to_numpy())
        if (steps < 0).any():
            t_us = samples["t_us"].iloc[int(np.argmax(steps < 0)) + 1]
            raise AnalysisError(f"{run.path / 'raw' / table}.csv.gz: counter {name} of {link} "
                                f"falls at t_us={t_us}")
    return samples


def sampling_us(samples: pd.DataFrame) -> float:
    """Median distance of the samples, microseconds."""
    return float(np.median(np.diff(samples["t_us"].to_numpy())))


def covered(run: Run, link: str, samples: pd.DataFrame) -> tuple[int, int]:
    """The part of the measurement interval that has samples.

    It may miss two sampling intervals at either end; AnalysisError beyond that.
    """
    first, last = int(samples["t_us"].iloc[0]), int(samples["t_us"].iloc[-1])
    slack = 2 * sampling_us(samples)
    start, end = run.interval
    if first > start + slack or last < end - slack:
        raise AnalysisError(
            f"{run.path / 'raw/queue.csv.gz'}: samples of {link} cover "
            f"[{first / 1e6:g}, {last / 1e6:g}] s, the measurement interval is "
            f"[{start / 1e6:g}, {end / 1e6:g}] s")
    return max(first, start), min(last, end)


def whole_intervals(run: Run, probe: str) -> tuple[int, int]:
    """The part of the measurement interval that whole intervals of a probe's table cover; all of it without any."""
    each_us = run.scenario.probe(probe).interval_us or 100_000
    start, end = -(-run.interval.start_us // each_us) * each_us, run.interval.end_us // each_us * each_us
    return (start, end) if start < end else (run.interval.start_us, run.interval.end_us)


def metric_edges(run: Run, samples: pd.DataFrame) -> Array:
    """Edges of the bins over which standard deviations are taken.

    Whole bins of 1 s from the start of the measurement interval, or of the
    sampling interval (rounded up to seconds) where that is longer.
    """
    width = SECOND_US * max(1, math.ceil(sampling_us(samples) / SECOND_US - 1e-6))
    start, end = run.interval
    last = int(samples["t_us"].iloc[-1])
    count = int((min(last + sampling_us(samples), end) - start) // width)
    return start + width * np.arange(count + 1, dtype=np.int64)


def plot_edges(end_us: int, bins: int = 240, least_us: float = 10_000) -> Array:
    """Edges of about `bins` bins over [0, end_us), of a width 1, 2 or 5 times 10^k us."""
    raw = max(end_us / bins, least_us)
    power = 10 ** math.floor(math.log10(raw))
    width = int(next(step * power for step in (1, 2, 5, 10) if step * power >= raw * (1 - 1e-9)))
    return np.arange(0, end_us + 1, width, dtype=np.int64)


def counter_at(samples: pd.DataFrame, name: str, times_us: Array) -> Array:
    """A cumulative counter at the given times, linear between samples."""
    return np.interp(times_us, samples["t_us"].to_numpy(), samples[name].to_numpy())


def throughput_mbps(samples: pd.DataFrame, edges_us: Array) -> Array:
    """Mbit/s (10^6) at layer 2 in every bin."""
    return np.diff(counter_at(samples, "sent_bytes", edges_us)) * 8 / np.diff(edges_us)


def offered_packets(samples: pd.DataFrame, edges_us: Array) -> Array:
    """Packets that arrived at the queue in every bin: sent + dropped + growth of backlog."""
    return sum(np.diff(counter_at(samples, name, edges_us))
               for name in ("sent_packets", "drops", "backlog_packets"))


def drop_percent(samples: pd.DataFrame, edges_us: Array) -> Array:
    """Dropped packets in percent of the packets offered, NaN in bins without packets."""
    drops = np.diff(counter_at(samples, "drops", edges_us))
    offered = offered_packets(samples, edges_us)
    return np.divide(100 * drops, offered, out=np.full(len(drops), np.nan), where=offered > 0)


def bin_means(times_us: Array, values: Array, weights: Array,
              edges_us: Array) -> Array:
    """Weighted mean of the values whose time falls into each bin, NaN in empty ones."""
    index: Array = np.searchsorted(edges_us, times_us, side="right") - 1
    keep = (index >= 0) & (index < len(edges_us) - 1) & (weights > 0)
    count = len(edges_us) - 1
    total = np.bincount(index[keep], weights[keep], count)
    summed = np.bincount(index[keep], (weights * values)[keep], count)
    return np.divide(summed, total, out=np.full(count, np.nan), where=total > 0)


def sojourn_samples(run: Run, link: str) -> pd.DataFrame | None:
    """Sojourn intervals of one link that saw packets; None when not recorded. Not to be changed in place."""
    rows = _of_link(run, "sojourn", link, lambda sojourn: sojourn[
        ((sojourn["link"] == link) & (sojourn["packets"] > 0)).to_numpy()])
    return rows if rows is not None and len(rows) else None


def held_samples(run: Run, link: str) -> pd.DataFrame | None:
    """What a link's queue held between samples: a row for each time from one to the next, with its end `t_us`, its
    length `lasted_us`, the means `backlog_packets` and `backlog_bytes`, and the most packets; None if nobody counted.

    Not to be changed in place.
    """
    def find(table: pd.DataFrame) -> pd.DataFrame:
        rows = table[(table["link"] == link).to_numpy()].sort_values("t_us", kind="stable")
        lasted = np.diff(rows["t_us"].to_numpy())
        steps = {f"backlog_{what}s": np.diff(rows[f"{what}_us"].to_numpy()) / np.maximum(lasted, 1)
                 for what in ("packet", "byte")}
        return pd.DataFrame({"t_us": rows["t_us"].to_numpy()[1:], "lasted_us": lasted, **steps,
                             "most_packets": rows["most_packets"].to_numpy()[1:]})
    return _of_link(run, "backlog", link, find)


def held_or_sampled(run: Run, link: str, start_us: float, end_us: float, for_delay: bool = False) \
        -> tuple[pd.DataFrame, Array] | None:
    """(backlogs of a link within an interval, with times and what each counts): what it held between samples where
    the kernel counted that, else the samples; None without either. Not to be changed in place.

    for_delay: samples of a link with a trace, which says of an instant when what is queued then will have left.
    """
    held = None if for_delay and run.bottlenecks[link].opportunities else held_samples(run, link)
    if held is not None and len(held):
        t_us, lasted = held["t_us"].to_numpy(), held["lasted_us"].to_numpy()
        inside = np.minimum(t_us, end_us) - np.maximum(t_us - lasted, start_us)
        return held[inside > 0], inside[inside > 0]
    samples = queue_samples(run, link)
    if samples is None:
        return None
    samples = samples[(samples["t_us"] >= start_us) & (samples["t_us"] < end_us)]
    return samples.assign(most_packets=samples["backlog_packets"]), np.ones(len(samples))


def middles(held: pd.DataFrame) -> Array:
    """The times of rows of `held_or_sampled` by which they belong into a bin."""
    t_us: Array = held["t_us"].to_numpy()
    return t_us - held["lasted_us"].to_numpy() / 2 if "lasted_us" in held else t_us


def queueing_delay_ms(run: Run, link: str, edges_us: Array) -> Array | None:
    """Mean queueing delay in every bin, ms.

    Mean over packets of their sojourn time where it was recorded, otherwise
    mean over time, or over samples, of backlog / link rate.
    """
    rows = sojourn_samples(run, link)
    if rows is not None:
        return bin_means(rows["t_us"].to_numpy(), rows["mean_us"].to_numpy() / 1e3,
                         rows["packets"].to_numpy(), edges_us)
    found = held_or_sampled(run, link, edges_us[0], edges_us[-1], for_delay=True)
    if found is None:
        return None
    held, weights = found
    return bin_means(middles(held), backlog_ms(run, link, held), weights, edges_us)


def backlog_ms(run: Run, link: str, samples: pd.DataFrame) -> Array:
    """Time to send the backlog at the rate that the link has just then, ms per sample; NaN where nobody knows it."""
    facts = run.bottlenecks[link]
    if facts.opportunities:
        return _offered_ms(facts, samples, run.scenario.timing.duration_us)
    times_us, states = zip(*varying.states(run.bottlenecks[link]))
    rates = np.array([state.rate_bps for state in states])
    # a change at the instant of a sample takes effect after it
    now = np.maximum(np.searchsorted(times_us, samples["t_us"].to_numpy(), side="left") - 1, 0)
    return np.asarray(samples["backlog_bytes"].to_numpy() * 8e3 / rates[now])


def _offered_ms(facts: Link, samples: pd.DataFrame, end_us: int) -> Array:
    """Of a link with a trace: how long a full packet that comes behind the backlog waits for its opportunity.

    What comes after the end of a run is not known: where that would be needed, it is the last time before the end in
    which as much was offered, and where that is more than the whole run offers, its mean rate counts.
    """
    offered = list(varying.opportunities(facts, 0, end_us + 1))
    queued = samples["backlog_bytes"].to_numpy(dtype=float)
    if not offered:
        return np.where(queued > 0, np.nan, 0.0)
    now_us, times_us = samples["t_us"].to_numpy(), np.array([at_us for at_us, _ in offered])
    total = np.cumsum([0, *(count for _, count in offered)]) * float(varying.FRAME_BYTES)
    needed, last = queued + varying.FRAME_BYTES, len(times_us) - 1
    # a sample comes before the opportunities of its instant
    place = np.searchsorted(total[1:], total[np.searchsorted(times_us, now_us)] + needed)
    before_end = np.searchsorted(total, total[-1] - needed, side="right") - 1
    wait_us = np.where(place <= last, times_us[np.minimum(place, last)] - now_us,
                       end_us - times_us[np.clip(before_end, 0, last)])
    wait_us = np.where(needed > total[-1], queued * end_us / total[-1], wait_us)
    return np.asarray(np.where(queued > 0, wait_us, 0.0) / 1e3)


def queueing_delay_backlog_mean(run: Run, link: str) -> float | None:
    """Mean over the measurement interval, or over the samples in it, of backlog / link rate, ms."""
    samples = queue_samples(run, link)
    found = None if samples is None else held_or_sampled(run, link, *covered(run, link, samples), for_delay=True)
    mean = math.nan if found is None else float(np.average(backlog_ms(run, link, found[0]), weights=found[1]))
    return mean if math.isfinite(mean) else None
