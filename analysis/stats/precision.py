# SPDX-License-Identifier: GPL-2.0-only
"""Are the intervals of an experiment narrow enough, and how many seeds would make them so?

Of means by Student's intervals, from five seeds on; of medians by order statistics, from ten on, as Prudentia repeats
its experiments ten to thirty times (Philip et al., SIGCOMM 2024). docs/explanation/statistics.md has the
formula, and what adding seeds until the answer is yes does to the intervals.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from analysis import stats
from analysis.drawing import style
from analysis.flows import sizes
from analysis.read.experiment import Experiment, Row
from analysis.read.runs import AnalysisError
from analysis.read.tables import Results

MEAN, MEDIAN = "mean", "median"
#: seeds below which a narrow interval is luck
LEAST_SEEDS = {MEAN: 5, MEDIAN: 10}
#: what is judged when nothing is named, by kind of traffic; those that the runs have
DEFAULTS = {"tmix": ("throughput_mean", "queueing_delay_mean", "flow_completion_time_p50"),
            "greedy": ("queueing_delay_mean", "mean_agg_throughput_l4", "throughput_ratio_short_long"),
            "cbr": ("udp_received_rate",)}
_ANY_KIND = ("throughput_mean", "queueing_delay_mean")


class Reached(NamedTuple):
    """How narrow one interval is: its wider half as a share of the mean or median (None: no interval).

    needed: seeds that this spread needs for the target; None when no number is enough (a mean or median of 0, or a
    percentile that was not reached).
    """

    row: Row
    metric: str
    scope: str
    n: int
    share: float | None
    needed: int | None
    of: str = MEAN

    def enough(self) -> bool:
        return self.needed is not None and self.needed <= self.n

    def __str__(self) -> str:
        width = "no interval" if self.share is None else f"± {100 * self.share:.2g} %"
        if not self.n:
            needs = "no run of it is usable"
        elif self.needed is None:
            needs = (f"no number of seeds is enough for a {self.of} of 0, a percentile that was not reached, or seeds "
                     "that are one run")
        else:
            needs = "enough" if self.enough() else f"about {self.needed} are needed"
        scope = "" if self.scope == "all" else f" of {style.direction(self.scope)}"
        return f"{self.metric}{scope}, {self.row.label}: {width} with {self.n} seed{'s' * (self.n != 1)}; {needs}"


def judge(experiment: Experiment, target: float, wanted: Sequence[str] = (), ids: Collection[str] = (),
          of: str = MEAN) -> list[Reached]:
    """How narrow the intervals of some metrics are, those that need most seeds first.

    of: MEAN or MEDIAN; target: half the width as a share of it (of a ratio: of its factor); wanted: metrics, or
    metric:scope; without, those of DEFAULTS. ids: only rows with one of these runs.
    AnalysisError when no run is usable, or has such a metric.
    """
    results = Results(experiment)
    experiment.discard(results.problems)
    asked = {experiment.row_of(run) for run in experiment.runs if not ids or run.path.name in ids}
    rows = [row for row in experiment.rows if row in asked]
    if not any(experiment.usable(row) for row in rows):
        raise AnalysisError(f"{experiment.path}: no usable run, so nothing is known of the spread")
    found = []
    for metric, scope in _chosen(results, wanted):
        for row in rows:
            sample = results.sample(row, metric, scope)
            if not experiment.usable(row):
                found.append(Reached(row, metric, scope, 0, None, None, of))
            elif sample:
                summary = stats.summarise_median(sample) if of == MEDIAN else results.summarise(metric, sample)
                needed = None if row in results.repeats else _needed(summary, target, of)
                found.append(Reached(row, metric, scope, summary.n, summary.relative_half_width,
                                     needed and max(LEAST_SEEDS[of], needed), of))
    return sorted(found, key=lambda one: float("inf") if one.needed is None else one.needed, reverse=True)


def _needed(found: stats.Summary, target: float, of: str) -> int | None:
    """Seeds that this spread needs; None if no number is enough."""
    if math.isinf(found.mean):
        return None
    if of == MEAN:
        # one run says nothing about spread
        return LEAST_SEEDS[of] if found.sd is None else stats.seeds_needed(found, target)
    share = found.relative_half_width
    if share is None or share <= target:
        return LEAST_SEEDS[of]
    # an interval is narrower by the square root of the seeds; one step more at least, as it rests on two of them
    return None if math.isinf(share) else max(found.n + 1, math.ceil(found.n * (share / target) ** 2))


def _chosen(results: Results, wanted: Sequence[str]) -> list[tuple[str, str]]:
    """(metric, scope) of what was asked for, else of the defaults of the traffic that the runs have."""
    chosen: dict[tuple[str, str], None] = {}
    for name in wanted or _defaults(results.experiment):
        metric, _, scope = name.partition(":")
        scopes = [one for one in results.scopes(metric) if one == scope] if scope else _scopes(results, metric)
        if not scopes and wanted:
            known = results.scopes(metric)
            there = (f"{metric} has the scopes {', '.join(known)}" if known else
                     f"there are: {', '.join(sorted({metric for metric, _ in results.measured()}))}")
            raise AnalysisError(f"no run has the metric {name}; {there}")
        chosen.update(dict.fromkeys((metric, one) for one in scopes))
    if not chosen:
        raise AnalysisError(f"{results.experiment.path}: the runs have none of the metrics whose precision is judged "
                            f"({', '.join(_defaults(results.experiment))}); name some")
    return list(chosen)


def _defaults(experiment: Experiment) -> list[str]:
    kinds = {str(component.kind) for run in experiment.usable_runs[:1] for component in run.components}
    return list(dict.fromkeys(name for kind in sorted(kinds) for name in DEFAULTS.get(kind, _ANY_KIND)))


def _scopes(results: Results, metric: str) -> Iterable[str]:
    """Links that the traffic is meant for, and their directions; else all traffic; else single flows."""
    run = results.experiment.usable_runs[0]
    meant = {name for link in run.targets for name in (link, run.bottlenecks[link].direction)}
    scopes = [scope for scope in results.scopes(metric) if not sizes.bounds(scope) and not scope.startswith("cca_")]
    return [scope for scope in scopes if scope in meant] or [scope for scope in scopes if scope == "all"] or scopes


def next_count(reached: Sequence[Reached], count: int, most: int) -> int:
    """How many seeds to have next: what the widest interval needs, at most twice as many as now and at most `most`.

    count: seeds that there are now; where that is the answer, no more are to be had, or no number is enough.
    """
    short = [one for one in reached if not one.enough()]
    # a row some of whose runs cannot be used is behind the others
    missing = [one.needed - one.n for one in short if one.needed is not None]
    if not missing:
        return count
    wanted = max(count + max(missing), count + 1)
    return max(count, min(wanted, max(2 * count, LEAST_SEEDS[short[0].of]), most))
