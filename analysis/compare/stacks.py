# SPDX-License-Identifier: GPL-2.0-only
"""QUIC stacks and the kernel's TCP on one bottleneck: each alone, beside itself, and beside the kernel's CUBIC.

Who sends is `STACK:CONTROL`; of the kernel the stack is called `kernel`. Rates are those at which a flow arrives at its
host, layer 2 (`arrived_rate_l2`), the same for QUIC and TCP. Harm to CUBIC, which is the second flow, is 1 - (its rate
beside the other / its rate beside itself), as of Ware and others (HotNets 2019) but for what it is compared with. The
distance of a stack from the kernel is that of its values from those of the kernel's Reno or CUBIC; of BBR, stacks have
other versions than the kernel.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from analysis import stats
from analysis.read.experiment import Row
from analysis.read.parts import Runs, opened
from analysis.read.runs import AnalysisError
from analysis.read.tables import Results
from testbed.core.quic_sender import QuicSender

KERNEL, REFERENCE = "kernel", "cubic"
#: algorithms that are one in all stacks
_SAME = ("reno", "cubic")
#: of the sweep of a part with stacks
_AXIS = "traffic.quic.stack"
_LINK = "right_to_left"
_RATE = "arrived_rate_l2"
#: {pattern: parts of the suite that have it: of the kernel, of stacks}
PARTS = {"alone": ("kernel-alone", "stacks-alone"), "pair": ("kernel-pairs", "stacks-pairs"),
         "beside": ("kernel-beside-cubic", "stacks-beside-cubic")}


class Quantity(NamedTuple):
    """What is measured: in which pattern, its name, unit, whether it is compared as a ratio, and the least and the most
    that it can be."""

    pattern: str
    name: str
    label: str
    unit: str
    ratio: bool = True
    least: float = 0
    most: float = math.inf


QUANTITIES = (
    Quantity("alone", "utilisation", "utilisation", "%", most=100),
    Quantity("alone", "delay", "mean queueing delay", "ms"),
    Quantity("alone", "drops", "packets dropped", "%", False, most=100),
    Quantity("alone", "packet", "mean packet", "B"),
    Quantity("pair", "jain", "Jain's index of the two", "", False, most=1),
    Quantity("pair", "delay", "mean queueing delay", "ms"),
    Quantity("beside", "rate", "its rate", "Mbit/s"),
    Quantity("beside", "cubic", "CUBIC's rate", "Mbit/s"),
    Quantity("beside", "harm", "harm to CUBIC", "%", False, least=-math.inf, most=100),
)
#: those of the distance from the kernel
DISTANCES = tuple(one for one in QUANTITIES if (one.pattern, one.name) in (
    ("alone", "delay"), ("pair", "jain"), ("beside", "rate")))


class Distance(NamedTuple):
    """A stack's quantity beside that of the kernel's Reno or CUBIC, and what may be said of it."""

    sender: QuicSender
    quantity: Quantity
    compared: stats.Comparison
    decision: stats.Decision


@dataclass
class Stacks:
    """The runs of the suite by part."""

    runs: Mapping[str, Runs]

    @cached_property
    def _results(self) -> dict[str, Results | AnalysisError | None]:
        return {name: opened(one) for name, one in self.runs.items()}

    @cached_property
    def problems(self) -> list[str]:
        """What could not be run or read, part by part."""
        return [f"{name}: {one.problem}" for name, one in self.runs.items() if one.problem] + [
            f"{name}: {results}" for name, results in self._results.items() if isinstance(results, AnalysisError)]

    @cached_property
    def senders(self) -> list[QuicSender]:
        """All of which there is a run, the kernel's first, then by congestion control."""
        found = {sender for pattern in PARTS for sender in self._rows(pattern)}
        return sorted(found, key=lambda one: (one.stack != KERNEL, one.control, one.stack))

    def _rows(self, pattern: str) -> dict[QuicSender, tuple[Results, Row]]:
        """AnalysisError if a sender has two rows, as in a sweep over buffers."""
        found: dict[QuicSender, tuple[Results, Row]] = {}
        for name in PARTS[pattern]:
            results = self._results.get(name)
            if isinstance(results, Results):
                axes = [axis.key for axis in results.experiment.axes]
                for row in results.experiment.rows:
                    sender = QuicSender.of(row.point[axes.index(_AXIS)]) if _AXIS in axes else \
                        QuicSender(KERNEL, row.subject.partition("+")[0])
                    if sender in found:
                        raise AnalysisError(f"{name}: {sender} has two rows; the page shows one for each sender")
                    found[sender] = results, row
        return found

    @cached_property
    def _by_pattern(self) -> dict[str, dict[QuicSender, tuple[Results, Row]]]:
        found = {pattern: self._rows(pattern) for pattern in PARTS}
        reference = QuicSender(KERNEL, REFERENCE)
        if reference in found["pair"]:              # CUBIC beside CUBIC is a pair
            found["beside"].setdefault(reference, found["pair"][reference])
        return found

    def values(self, sender: QuicSender, quantity: Quantity) -> list[float]:
        """One of each seed; [] where nothing was measured."""
        known = self._by_pattern[quantity.pattern].get(sender)
        if known is None:
            return []
        results, row = known
        if quantity.name in _METRICS:
            return results.sample(row, *_METRICS[quantity.name])
        first, second = (results.keyed(row, _RATE, f"flow_{number}") for number in (1, 2))
        pairs = [(first[key], second[key]) for key in sorted(first.keys() & second.keys())]
        return [value for mine, its in pairs for value in self._of_rates(quantity.name, mine, its)]

    def _of_rates(self, name: str, mine: float, its: float) -> Iterator[float]:
        if name == "jain":
            if mine + its > 0:
                yield (mine + its) ** 2 / (2 * (mine ** 2 + its ** 2))
        elif name == "harm":
            if self._beside_itself:
                yield 100 * (1 - its / self._beside_itself)
        else:
            yield mine if name == "rate" else its

    @cached_property
    def _beside_itself(self) -> float | None:
        """CUBIC's mean rate beside CUBIC, of both seats."""
        known = self._by_pattern["pair"].get(QuicSender(KERNEL, REFERENCE))
        if known is None:
            return None
        rates = [rate for number in (1, 2) for rate in known[0].sample(known[1], _RATE, f"flow_{number}")]
        return statistics.fmean(rates) if rates else None

    def summary(self, sender: QuicSender, quantity: Quantity) -> stats.Summary | None:
        """Mean and interval; None where nothing was measured."""
        values = self.values(sender, quantity)
        if not values:
            return None
        # whether harm spreads widely is asked of what is left, which is not near 0
        whole = 100 if quantity.name == "harm" else 0
        found = stats.summarise([value - whole for value in values])
        low, high = (None if end is None else min(max(end + whole, quantity.least), quantity.most)
                     for end in (found.low, found.high))
        return replace(found, mean=found.mean + whole, low=low, high=high)

    @cached_property
    def distances(self) -> list[Distance]:
        """Of Reno and CUBIC of all stacks; Holm's correction over all of them."""
        asked = [(sender, quantity, self._compared(sender, quantity)) for sender in self.senders
                 if sender.stack != KERNEL and sender.control in _SAME for quantity in DISTANCES]
        known = [(sender, quantity, one) for sender, quantity, one in asked if one is not None]
        return [Distance(sender, quantity, one, decision) for (sender, quantity, one), decision in zip(
            known, stats.decide([one for *_, one in known]))]

    def _compared(self, sender: QuicSender, quantity: Quantity) -> stats.Comparison | None:
        values, reference = self.values(sender, quantity), self.values(QuicSender(KERNEL, sender.control), quantity)
        if not values or not reference:
            return None
        ratio = quantity.ratio and min(*values, *reference) > 0
        return stats.compare_unpaired(reference, values, ratio)

    @cached_property
    def verdicts(self) -> Counter[str]:
        """{verdict: how many runs have it}"""
        return Counter(results.experiment.verdict(run) for results in self._results.values()
                       if isinstance(results, Results) for run in results.experiment.runs)

    @cached_property
    def kernel(self) -> str:
        """The kernel's release; '' if there are no runs."""
        known = (one.experiment.kernel for one in self._results.values() if isinstance(one, Results))
        return next(known, "")

    def sentences(self) -> Sequence[str]:
        """For a terminal: the number of runs, and of values that differ from the kernel's."""
        said = ", ".join(f"{count} {word}" for word, count in self.verdicts.most_common())
        apart = sum(one.decision.different for one in self.distances)
        return [f"{sum(self.verdicts.values())} runs: {said}",
                f"{apart} of {len(self.distances)} values of stacks' Reno and CUBIC differ from the kernel's"]


_METRICS = {"utilisation": ("utilisation", _LINK), "delay": ("queueing_delay_mean", _LINK),
            "drops": ("drop_rate", _LINK), "packet": ("arrived_packet_mean_l2", "flow_1")}
