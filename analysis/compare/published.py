# SPDX-License-Identifier: GPL-2.0-only
"""What others published beside the same experiment here, cell by cell.

When a cell agrees:

* Of published trials: the mean of our seeds lies in the range of theirs, widened on both sides by c(k, n) standard
  deviations of our seeds. If k trials and our n seeds came from one normal distribution, all trials would lie more than
  c(k, n) standard deviations above our mean, or all below, with a probability of 1 %. c is not below 0. c(1, 5) = 5.04,
  c(3, 5) = 1.91, c(5, 5) = 1.05; of many seeds, whose mean and spread are known, c(1) = 2.58, c(3) = 0.95, c(8) = 0.
* Of a formula or a single value with `within`: our mean lies so near, give or take half its 95 % interval.
* Of bounds: our mean lies in them.

Published values are known to half a unit of their last digit, or to their `resolution` if that is more. Fewer than five
seeds give no verdict.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from analysis import stats
from analysis.read.experiment import Axis, Experiment, Row, axis_of
from analysis.read.parts import Runs, opened
from analysis.read.runs import AnalysisError
from analysis.read.tables import Results
from testbed.core.published_cells import About, Cell, Compared

AGREES, EXPLAINED, OPEN, NO_VERDICT = WORDS = ("agrees", "differs, explained", "differs, open", "no verdict")
#: of a cell that agrees with its published values by chance alone, how often it is said to differ
FALSE_ALARMS = 0.01


class Ours(NamedTuple):
    """What was measured here of a cell. values: of the seeds that differ; seeds: of all usable runs."""

    values: list[float]
    seeds: int

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def sd(self) -> float:
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0


class Verdict(NamedTuple):
    """A cell, ours and the limits within which our mean agrees; switched: what each switch gives, if it has the cell,
    and whether that agrees; why_not: why there is no verdict."""

    cell: Cell
    quantity: Compared
    unit: str
    ours: Ours
    low: float
    high: float
    switched: Mapping[str, tuple[Ours, bool]]
    why_not: str = ""

    @property
    def label(self) -> str:
        """What is compared, with its unit."""
        return self.quantity.label + (f" ({self.unit})" if self.unit not in ("", "1") else "")

    @property
    def agrees(self) -> bool:
        return not self.why_not and self.low <= self.ours.mean <= self.high

    @property
    def causes(self) -> list[str]:
        """Switches with which a cell agrees that differs without."""
        return [] if self.agrees or self.why_not else [name for name, (_, agrees) in self.switched.items() if agrees]

    @property
    def word(self) -> str:
        return NO_VERDICT if self.why_not else AGREES if self.agrees else EXPLAINED if self.causes else OPEN


#: of the seeds, that stand for all
_DEVIATIONS = 400


@lru_cache(maxsize=None)
def widening(trials: int, seeds: int) -> float:
    """c(k, n) of k trials and n seeds, at least two; see above."""
    low, high = 0.0, 1.0
    if _beyond(low, trials, seeds) <= FALSE_ALARMS / 2:
        return low
    while _beyond(high, trials, seeds) > FALSE_ALARMS / 2:
        low, high = high, 2 * high
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if _beyond(middle, trials, seeds) > FALSE_ALARMS / 2 else (low, middle)
    return high


def _beyond(widened: float, trials: int, seeds: int) -> float:
    """The probability that each trial is above the mean of the seeds by more than `widened` times the seeds' deviation.

    If the least trial and the deviation are given, the mean of the seeds decides, and it is normal. The sums are over
    both. SciPy's nctdtr would save one sum, but in 1.15 it is NaN at some points.
    """
    from scipy.special import gammaincinv, ndtr
    least, step = np.linspace(-9, 9, 721, retstep=True)
    density = trials * np.exp(-least ** 2 / 2) / math.sqrt(2 * math.pi) * ndtr(-least) ** (trials - 1)
    root = (np.arange(_DEVIATIONS) + 0.5) / _DEVIATIONS          # of the probability: small deviations matter most
    deviations = np.sqrt(2 * gammaincinv((seeds - 1) / 2, root ** 2) / (seeds - 1))
    above = ndtr(math.sqrt(seeds) * (least[:, None] - widened * deviations)) @ (2 * root / _DEVIATIONS)
    return float(np.sum(density * above) * step)


def limits(cell: Cell, quantity: Compared, ours: Ours) -> tuple[float, float]:
    """Between which our mean agrees with what was published."""
    if not cell.trials:
        return (-float("inf") if cell.least is None else cell.least), (float("inf") if cell.most is None else cell.most)
    digit = max(0.5 * 10.0 ** -cell.decimals, quantity.resolution)
    low, high = min(cell.trials) - digit, max(cell.trials) + digit
    if quantity.within_percent is None:
        room = widening(len(cell.trials), len(ours.values)) * ours.sd if len(ours.values) > 1 else 0.0
        return low - room, high + room
    found = stats.summarise(ours.values) if len(ours.values) > 1 else None
    room = (found.high - found.low) / 2 if found and found.low is not None and found.high is not None else 0.0
    return (low - quantity.within_percent / 100 * abs(min(cell.trials)) - room,
            high + quantity.within_percent / 100 * abs(max(cell.trials)) + room)


@dataclass(frozen=True)
class Judged:
    """A published result with its runs, and those of its switches. cells: those that were run."""

    about: About
    cells: Sequence[Cell]
    runs: Runs
    switches: Mapping[str, Runs]

    @cached_property
    def problems(self) -> list[str]:
        """What could not be run or read."""
        found = [f"{name}: {runs.problem}" if name else runs.problem
                 for name, runs in {"": self.runs, **self.switches}.items() if runs.problem]
        return found + [str(one) for one in (self._opened, *self._switched.values()) if isinstance(one, AnalysisError)]

    @cached_property
    def experiment(self) -> Experiment | None:
        return None if isinstance(self._opened, AnalysisError) or self._opened is None else self._opened.experiment

    @cached_property
    def axes(self) -> dict[str, Axis]:
        """{its name: axis} of what is swept, with the values of the cells."""
        units = self.experiment.description.units if self.experiment else {}
        values: dict[str, dict[str, None]] = {}
        for verdict in self.verdicts:
            for name, value in verdict.cell.point.items():
                values.setdefault(name, {})[value] = None
        return {name: axis_of(name, name.rpartition(".")[2], list(found), unit=units.get(name, ""))
                for name, found in values.items()}

    @cached_property
    def _opened(self) -> Results | AnalysisError | None:
        return opened(self.runs)

    @cached_property
    def _switched(self) -> dict[str, Results | AnalysisError | None]:
        return {name: opened(runs) for name, runs in self.switches.items()}

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """Cell by cell, in the order of the file."""
        return [self._verdict(cell) for cell in self.cells]

    def _verdict(self, cell: Cell) -> Verdict:
        quantity = self.about.quantities[cell.quantity]
        ours, unit, why_not = _ours(self._opened, cell, quantity)
        low, high = limits(cell, quantity, ours)
        switched = {}
        for name, results in self._switched.items():
            cause = self.about.causes[name]
            other, _, problem = _ours(results, cell._replace(cca=cause.ccas.get(cell.cca, cell.cca)),
                                      quantity._replace(scope=cause.scope(quantity.scope)))
            if not problem:
                least, most = limits(cell, quantity, other)
                switched[name] = other, least <= other.mean <= most
        return Verdict(cell, quantity, unit, ours, low, high, switched, why_not)

    @property
    def counts(self) -> Counter[str]:
        return Counter(one.word for one in self.verdicts)


def _ours(results: Results | AnalysisError | None, cell: Cell, quantity: Compared) -> tuple[Ours, str, str]:
    """(values of a cell, their unit, why there is no verdict)"""
    nothing = Ours([], 0), ""
    if results is None or isinstance(results, AnalysisError):
        return *nothing, "not run"
    row = next((row for row in results.experiment.rows if _is_at(results.experiment, row, cell)), None)
    if row is None:
        return *nothing, "not run"
    values = results.sample(row, quantity.metric, quantity.scope)
    if not values:
        return *nothing, "no usable run has a value"
    ours = Ours(values, len(results.experiment.usable(row)))
    unit = results.unit(quantity.metric, quantity.scope) or ""
    return ours, unit, f"{stats.LEAST} seeds expected, not {ours.seeds}" if ours.seeds < stats.LEAST else ""


def _is_at(experiment: Experiment, row: Row, cell: Cell) -> bool:
    point = dict(zip((axis.key for axis in experiment.axes), row.point))
    return all(point.get(axis) == value for axis, value in cell.point.items()) and \
        (not cell.cca or row.subject.split("+")[0] == cell.cca)


def sentence(found: Sequence[Judged]) -> str:
    """75 of 90 cells agree; differ, explained by a switch: 8; differ, open: 5; without a verdict: 2."""
    counts = sum((one.counts for one in found), Counter[str]())
    total = sum(counts.values())
    said = [f"{counts[AGREES]} of {total} cells agree"]
    said += [f"{words}: {counts[word]}" for word, words in (
        (EXPLAINED, "differ, explained by a switch"), (OPEN, "differ, open"), (NO_VERDICT, "without a verdict"))
        if counts[word]]
    return "; ".join(said) + "."
