# SPDX-License-Identifier: GPL-2.0-only
"""Two lists of runs compared, metric by metric: congestion controls, kernels, engines, settings.

    reference, other = Measurements(runs_of_reno), Measurements(runs_of_cubic)
    found = compare_runs(reference, other)                      {(metric, scope): Comparison}
    decisions = stats.decide(list(found.values()))              Holm over all of them: what may be said

Runs with the same *pairing key*, the seed and the traffic that was replayed, saw the same demand, so that
differences are taken run by run. Where keys differ, the samples are independent. Which of the two was done stands in
every Comparison (`method`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple, TypeVar

import numpy as np

from analysis import metrics, stats
from analysis.read.runs import AnalysisError, Run

#: what belongs together: a pairing key, a seed; a sample of a metric is {key: value of the run}
Key = TypeVar("Key", bound=Hashable)
_LEAST_PAIRS = 2
# of a flow record: what decides the demand, whatever congestion control and ports it got
_DEMAND = ("sender", "receiver", "transport", "kind", "start_us", "stop_us", "bytes", "rate_bps")


class PairingKey(NamedTuple):
    """Runs that share it replay the same traffic. `traffic` is a hash of it."""

    seed: int
    traffic: str


class Measurements:
    """The metrics of some runs, of which no two have the same pairing key.

    runs: finished and usable ones, such as Experiment.usable(row). AnalysisError when two have the same key: then
    they differ in something else (subject, point) and belong into two of these.
    """

    def __init__(self, runs: Iterable[Run]) -> None:
        self.runs: dict[PairingKey, Run] = {}
        self.units: dict[tuple[str, str], str] = {}
        self._samples: dict[tuple[str, str], dict[PairingKey, float]] = {}
        for run in runs:
            key = pairing_key(run)
            if key in self.runs:
                raise AnalysisError(f"{run.path}: has the seed and the traffic of {self.runs[key].path}: "
                                    "of runs that are averaged, only one may have them")
            self.runs[key] = run
            for metric, scope, unit, value in metrics.load_metrics(run).itertuples(index=False, name=None):
                self._samples.setdefault((metric, scope), {})[key] = value
                self.units.setdefault((metric, scope), unit)

    def sample(self, metric: str, scope: str) -> dict[PairingKey, float]:
        """The value of each run that has the metric; empty when none has."""
        return self._samples.get((metric, scope), {})


def pairing_key(run: Run) -> PairingKey:
    """Seed and traffic of a run, from what it recorded: AnalysisError when that cannot be read."""
    known = run.__dict__.get("_pairing_key")
    if not isinstance(known, PairingKey):
        known = run.__dict__["_pairing_key"] = PairingKey(run.seed, _traffic(run))
    return known


def _traffic(run: Run) -> str:
    """A hash of the demand: flows, and of Tmix the connections with their times and sizes.

    Not in it: congestion controls, ports, and what became of the demand.
    """
    flows = [[flow.content().get(key) for key in _DEMAND] for flow in run.flows if not flow.both_ways]
    digest = hashlib.sha256(json.dumps(sorted(flows, key=repr)).encode())
    # a Run of its own, so that the table is freed afterwards
    connections = Run(run.path).frame("connections")
    if connections is not None:
        demand = connections[["source", "conn", "scheduled_us", "init_bytes_asked", "acc_bytes_asked"]]
        values = demand.fillna(-1).to_numpy(dtype=np.int64)
        digest.update(values[np.lexsort(values.T[::-1])].tobytes())
    return digest.hexdigest()[:16]


def compare(reference: Mapping[Key, float], values: Mapping[Key, float], ratio: bool = False,
            margin: float = stats.MARGIN, resolution: float = 0.0, most: float = math.inf) -> stats.Comparison:
    """Compare two samples {key: value}: paired where two keys or more are common (on these alone), else Welch.

    most: what no value can exceed (`metrics.most`).
    ValueError when one is empty, a ratio is not above zero, or a value is infinite (see `comparable`).
    """
    if not comparable(reference, values):
        raise ValueError("samples of finite values expected")
    common = [key for key in reference if key in values]
    if len(common) >= _LEAST_PAIRS:
        return stats.compare_paired([reference[key] for key in common], [values[key] for key in common], ratio, margin,
                                    resolution, most=most)
    return stats.compare_unpaired(list(reference.values()), list(values.values()), ratio, margin, resolution, most)


def comparable(reference: Mapping[Key, float], values: Mapping[Key, float]) -> bool:
    """Whether both have values, and all are finite: percentiles that were not reached have no mean."""
    return bool(reference and values) and all(map(math.isfinite, [*reference.values(), *values.values()]))


def compare_runs(reference: Measurements, other: Measurements, wanted: Iterable[tuple[str, str]] | None = None,
                 margin: float = stats.MARGIN) -> dict[tuple[str, str], stats.Comparison]:
    """{(metric, scope): Comparison} of what both lists of runs have in finite values; `wanted`: only these."""
    found = {}
    ratios = metrics.ratios()
    for metric, scope in reference.units if wanted is None else wanted:
        first, second = reference.sample(metric, scope), other.sample(metric, scope)
        if comparable(first, second):
            found[metric, scope] = compare(
                first, second, metric in ratios, *metrics.margin(metric, margin), metrics.most(metric))
    return found


def differences(reference: Mapping[Key, float], values: Mapping[Key, float], ratio: bool = False) -> dict[Key, float]:
    """{key: value - reference} (ratio: value / reference) on the common keys.

    To compare differences with differences: does another setting change what one congestion control is better by?
    """
    return {key: values[key] / reference[key] if ratio else values[key] - reference[key]
            for key in reference if key in values}


def by_seed(sample: Mapping[PairingKey, float]) -> dict[int, float]:
    """A sample by seeds alone, where settings make other traffic of the same seed (another load, say).

    AnalysisError when a seed is there twice.
    """
    found = {key.seed: value for key, value in sample.items()}
    if len(found) != len(sample):
        raise AnalysisError("two runs of one seed with different traffic: of runs that are averaged, only one may be")
    return found
