# SPDX-License-Identifier: GPL-2.0-only
"""From vectors to a component's traffic: plan files and the account of the load."""
import pathlib
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from traffic.replay.component import plan_name
from traffic.tmix import batch as batches
from traffic.tmix.arrange import LOAD_LIMIT, Schedule, Traffic, arrange
from traffic.tmix.compile import write_plan_of
from traffic.tmix.order import Order, Run, SourcePath, TooShort, WorkloadError
from traffic.tmix.reverse import Reverse, meet
from traffic.tmix.shuffle import bin_us, permutation
from traffic.tmix.sources import Synthesised, mean_scale, read, synthesised

# A synthesised trace is this much longer than the run, so that the scale that meets the
# target may be less than 1; where chance wants more, as with few connections, the next is tried.
_TRACE_MARGINS = (1.3, 2.6, 5.2)


def build_workload(sources: Synthesised | Sequence[batches.Batch | str | pathlib.Path], paths: Sequence[SourcePath],
                   order: Order,
                   out_dir: pathlib.Path, report: Callable[[str], None] = lambda text: None) -> dict[str, object]:
    """Make the plan files (`plan_name`) in out_dir and the account of the load.

    sources: a list of vector files or Batches, one for each path, or a `Synthesised`.
    Returns what workload.json has of it (docs/reference/run-folder.md), with `shuffle_attempts`,
    `thirds_difference` and `load_error` beside it. With `balance: thirds` `thirds_difference` is at most 0.05
    unless all attempts failed, as happens in tests of seconds. `plans`: connections in each plan.
    Raises WorkloadError if the traces are too short or the load cannot be met within 5 %;
    VectorError for a defect in a file.
    """
    run = Run.of(order, paths)
    if isinstance(sources, Synthesised):
        if order.scale == "mean":       # not that of this seed's trace
            run = replace(run, order=replace(order, scale=mean_scale(sources, run)))
        for margin in _TRACE_MARGINS:
            try:
                loaded = synthesised(sources, run, margin, report)
                traffic, schedule, attempts = _arranged(loaded, run, report)
                break
            except TooShort:
                if margin == _TRACE_MARGINS[-1]:
                    raise
    else:
        loaded = read(sources, order.limits, report)
        traffic, schedule, attempts = _arranged(loaded, run, report)
    factor, reverse = 1.0, Reverse.of(run)
    if reverse and order.scale == "search":
        traffic, schedule, factor = meet(reverse, loaded, schedule, run)
    if abs(schedule.worst_error) > LOAD_LIMIT and order.scale == "search":
        raise WorkloadError(
            f"offered load is {100 * (1 + schedule.worst_error):.1f} % of the target at scale "
            f"{schedule.scale:.4g}, the best there is; more or longer traces are needed", "load")
    report("writing the plans")
    out_dir.mkdir(parents=True, exist_ok=True)
    plans = _write_plans(traffic, schedule, run, out_dir)
    made = {
        "target_links": list(order.targets), "target_load": order.load, "scale": schedule.scale,
        "prefill_us": order.prefill_us, "prefill_window_us": schedule.window_us,
        "measured_us": [order.from_us, order.to_us],
        "offered_bps": _by_link(run, schedule.offered_bps),
        "thirds_bps": _by_link(run, schedule.thirds_bps),
        "connections": sum(sum(shares) for shares in plans), "bin_us": bin_us(run.rate_bps),
        "balance": order.balance, "shuffle_attempts": attempts,
        "thirds_difference": schedule.thirds_difference, "thirds_chance": schedule.thirds_chance,
        "load_error": schedule.load_error, "load_chance": schedule.load_chance, "plans": plans,
        "prefill_rule": order.prefill_rule, "overhead": order.overhead,
        "windows": "vector" if order.windows else "off",
        **({"reverse_links": list(order.reverse), "reverse_load": order.reverse_load, "reverse_factor": factor}
           if reverse else {}),
    }
    if run.fits_each:
        made |= {"load_on": "each", "source_factors": np.round(schedule.factors, 6).tolist()}
    if schedule.flow_bps is not None:
        made["prefill_flow_bps"] = round(schedule.flow_bps)
    if order.overhead != "l2":
        made["counted_bps"] = _by_link(run, schedule.counted_bps)
    return made


def _arranged(loaded: Sequence[batches.Batch], run: Run, report: Callable[[str], None]) \
        -> tuple[Traffic, Schedule, int]:
    """(traffic, the schedule chosen, how many were tried)"""
    if len(loaded) != len(run.rtts_us):
        raise WorkloadError(f"{len(loaded)} sources but {len(run.rtts_us)} paths", "traces")
    traffic = Traffic.of(loaded, run)
    report(f"arranging {len(traffic.batch)} connections")
    return traffic, *arrange(traffic, run)


def _by_link(run: Run, values: np.ndarray) -> dict[str, object]:
    return {name: np.round(value, 1).tolist() for name, value in zip(run.order.rates_bps, values)}


def _write_plans(traffic: Traffic, schedule: Schedule, run: Run, out_dir: pathlib.Path) -> list[list[int]]:
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
                          schedule.moved[a + mine], order.windows, order.l2.mss, source=source,
                          duration_us=order.to_us, seed=order.seed,
                          scale=schedule.scale * float(schedule.factors[source]))
            counts[-1].append(len(mine))
    return counts


def deal(bits: np.ndarray, shares: int, seed: str) -> np.ndarray:
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
