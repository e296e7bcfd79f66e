# SPDX-License-Identifier: GPL-2.0-only
"""The load of the links that run against the targets, where a scenario says what it is to be.

Without that it follows from what the two sides of the connections send. With it, the mean that the side
concerned sends is set so that both loads are met in expectation, by more or fewer ADUs of the tail. What chance
leaves in a single run is taken up by one factor on all ADUs of that side.
"""
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from traffic.tmix.arrange import LOAD_LIMIT, Schedule, Traffic, schedule_of
from traffic.tmix.batch import Batch
from traffic.tmix.order import Run, WorkloadError
from traffic.tmix.synth import SynthParameters
from traffic.tmix.vectors import ACCEPTOR, INITIATOR, MAX_ADU_BYTES
from traffic.tmix.wire import Overhead

_NAMES = {INITIATOR: "mean_initiator_bytes", ACCEPTOR: "mean_acceptor_bytes"}
_TOLERANCE = 0.01
_MOST_ROUNDS = 12


@dataclass(frozen=True)
class Reverse:
    """side: whose data cross the reverse links; links: float64[links], 1 for one of them; bps: their load together."""
    side: int
    links: np.ndarray
    bps: float

    def load(self, run: Run) -> float:
        """What is wanted, as a share of the rates of the reverse links."""
        return self.bps / sum(run.order.rates_bps[name] for name in run.order.reverse)

    @classmethod
    def of(cls, run: Run) -> "Reverse | None":
        """What the order wants; None if it leaves the load of the reverse links open.

        WorkloadError if not all sources send data of one side, and of that only, over the reverse links.
        """
        order = run.order
        if order.reverse_load is None:
            return None
        links = np.array([float(name in order.reverse) for name in order.rates_bps])
        crosses, towards = run.crossings(links) > 0, run.crossings(run.weights) > 0
        for side in (INITIATOR, ACCEPTOR):
            if crosses[:, side].all() and not crosses[:, 1 - side].any() and not towards[:, side].any():
                return cls(side, links, order.reverse_load * sum(order.rates_bps[name] for name in order.reverse))
        raise WorkloadError("a reverse load needs sources whose initiators are all on one side of the target",
                            "reverse_load")

    def parameters(self, parameters: SynthParameters, run: Run, crossings: np.ndarray, against: np.ndarray,
                   wire_bytes: np.ndarray) \
            -> SynthParameters:
        """The parameters with the mean of the side's data at which both loads are met together.

        crossings, against: float64[2], how often a byte of each side crosses a target, a reverse link; wire_bytes:
        float64[2], mean of a connection with the parameters as they are. WorkloadError if there is no such mean.
        """
        name, ratio = _NAMES[self.side], self.bps / run.target_bps
        growth = wire_growth(run.order.counted)[self.side]
        present = getattr(parameters, name)
        # wire bytes are linear in the mean, since the mean decides how many ADUs are of the tail
        change = float((ratio * crossings - against) @ wire_bytes / ((against - ratio * crossings) @ growth))
        adus = parameters.adus_per_connection(self.side)
        for bound, sign, words in zip(parameters.adu_means(self.side), (1, -1), ("least", "most")):
            if sign * (present + change) < sign * adus * bound:
                limit = wire_bytes + (adus * bound - present) * growth
                reached = self.load(run) * float(against @ limit / (crossings @ limit)) / ratio
                raise WorkloadError(
                    f"a reverse load of {100 * self.load(run):g} % is out of reach: the {words} that these "
                    f"distributions offer, with handshakes and acknowledgements, is {100 * reached:.1f} %",
                    "reverse_load")
        return replace(parameters, **{name: present + change})


def wire_growth(overhead: Overhead) -> np.ndarray:
    """Wire bytes from each side for a byte more that a side sends in full packets, float64[2 senders, 2]."""
    payload = overhead.mss - overhead.option_bytes
    data, acks = 1 + overhead.header_bytes / payload, overhead.header_bytes / overhead.packets_per_ack / payload
    return np.array([[data, acks], [acks, data]])


def resized(batch: Batch, side: int, factor: float) -> Batch:
    """The same connections with all ADUs of a side longer by a factor."""
    sizes = np.clip(np.rint(batch.size_bytes * factor), 1, MAX_ADU_BYTES).astype(np.int64)
    return replace(batch, size_bytes=np.where((batch.side == side) & (batch.size_bytes > 0), sizes, batch.size_bytes))


def meet(reverse: Reverse, loaded: Sequence[Batch], schedule: Schedule, run: Run) -> tuple[Traffic, Schedule, float]:
    """(traffic, schedule, factor): the reverse links are offered what is wanted; starts are left as they were.

    WorkloadError if the load is not met within 5 %.
    """
    factor, damping, best = 1.0, 1.0, None
    for _ in range(_MOST_ROUNDS):
        traffic = Traffic.of([resized(batch, reverse.side, factor) for batch in loaded], run)
        changed = schedule_of(traffic, run, schedule.trace_starts_us, schedule.scale)
        error = float(reverse.links @ changed.counted_bps) / reverse.bps - 1
        if best is not None and error * best[0] < 0:
            damping /= 2                # a long transfer that the prefill takes or leaves out made it jump
        if best is None or abs(error) < abs(best[0]):
            best = error, traffic, changed, factor
        if abs(error) <= _TOLERANCE:
            break
        factor = best[3] / (1 + best[0]) ** damping
    assert best
    if abs(best[0]) > LOAD_LIMIT:
        raise WorkloadError(f"{100 * (1 + best[0]):.1f} % of the reverse load is offered, the closest there is",
                            "reverse_load")
    return best[1:]
