# SPDX-License-Identifier: GPL-2.0-only
"""What is wanted of a workload, and the same as arrays for those who make it."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from testbed.core.ip import MTU_BYTES
from traffic.tmix.load import expected_share_bps
from traffic.tmix.reader import Limits
from traffic.tmix.wire import L2, OVERHEADS, Overhead

MOST_ATTEMPTS = 30


class WorkloadError(ValueError):
    """Traffic that cannot be made from what was given; `field` of the section says where, if one does."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class TooShort(WorkloadError):
    """The traces do not last as long as the run."""


@dataclass(frozen=True)
class SourcePath:
    """Where a source's connections go. there, back: names of the links that the initiator's and the
    acceptor's data cross. queues_us: what full queues of the bottlenecks add to a round trip."""
    rtt_us: int
    there: Sequence[str]
    back: Sequence[str]
    queues_us: int = 0


@dataclass(frozen=True)
class Order:
    """What is wanted of a workload; times are experiment time.

    rates_bps: of all links whose load is to be known. targets, load: the load, as a share of their rates'
    sum, that these links are to be offered together from `from_us` to `to_us`. Connections start from begin_us to
    to_us, in the steady state from begin_us + prefill_us. scale: experiment start / trace start; "search" finds
    the one at which this seed's arrangement offers the load, "mean" takes the one at which the whole trace does.
    balance: "thirds" tries arrangements until the thirds of the load agree. overhead: how the load is counted
    (wire.OVERHEADS). prefill_rule: "uncongested" or "suite" (docs/howto/tmix.md); connections_per_s: of each source
    for the latter, at scale 1; by default as counted. prefill_window_us: if it is not to be computed. reverse,
    reverse_load:
    as targets and load, of the links that run against the targets; None leaves their load to what the connections
    send. on_each: every target is offered the load, not only all together. load_of_all: what others offer there is
    in it; by default nobody does. shares: each source's connections are dealt out to so many plans. windows: the
    sockets' receive windows are those of the vectors.
    """
    rates_bps: Mapping[str, int]
    targets: Sequence[str]
    load: float
    seed: int
    begin_us: int
    prefill_us: int
    from_us: int
    to_us: int
    scale: float | str = "search"
    balance: str = "off"
    overhead: str = "l2"
    prefill_rule: str = "uncongested"
    prefill_window_us: int | None = None
    connections_per_s: float | None = None
    reverse: Sequence[str] = ()
    reverse_load: float | None = None
    on_each: bool = False
    load_of_all: float | None = None
    shares: int = 1
    windows: bool = False
    ip_version: int = 4
    mtu_bytes: int = MTU_BYTES
    most_attempts: int = MOST_ATTEMPTS
    limits: Limits = Limits()

    @property
    def l2(self) -> Overhead:
        """What a qdisc counts."""
        return L2.over(self.ip_version, self.mtu_bytes)

    @property
    def counted(self) -> Overhead:
        """What counts for the load."""
        return OVERHEADS[self.overhead].over(self.ip_version, self.mtu_bytes)


@dataclass(frozen=True)
class Run:
    """The scenario's side of the matter; links in the order of the order's rates_bps, sources in that of the paths."""
    order: Order
    rate_bps: float             # of the slowest target, which decides the length of the bins
    target_bps: float
    rtts_us: Sequence[int]
    most_rtt_us: int            # with full queues
    shares_bps: np.ndarray      # float64[sources]: rate of a long transfer
    crossing: np.ndarray        # float64[links, sources, 2]: 1 where a side's data cross a link
    weights: np.ndarray         # float64[links]: 1 for a target
    prefill_us: int             # these three from the component's beginning
    from_us: int
    to_us: int

    @classmethod
    def of(cls, order: Order, paths: Sequence[SourcePath]) -> "Run":
        for name in order.targets:
            if name not in order.rates_bps:
                raise WorkloadError(f"target link {name!r}; one of {', '.join(order.rates_bps)}", "target")
        if not (order.load > 0 and order.targets and order.begin_us <= order.from_us < order.to_us
                and order.prefill_us >= 0):
            raise WorkloadError("load and measured time must be positive, the other times not negative")
        crossing = np.array([[[name in path.there, name in path.back] for path in paths] for name in order.rates_bps],
                            float)
        slowest: list[int] = []
        for path in paths:
            rates = [order.rates_bps[name] for name in order.targets if name in [*path.there, *path.back]]
            if not rates:
                raise WorkloadError(f"source {len(slowest)} does not cross {' or '.join(order.targets)}", "target")
            slowest.append(min(rates))
        return cls(order, min(order.rates_bps[name] for name in order.targets),
                   sum(order.rates_bps[name] for name in order.targets) * order.load, [path.rtt_us for path in paths],
                   max(path.rtt_us + path.queues_us for path in paths),
                   np.array([expected_share_bps(rate_bps, order.load_of_all or order.load) for rate_bps in slowest]),
                   crossing,
                   np.array([float(name in order.targets) for name in order.rates_bps]), order.prefill_us,
                   order.from_us - order.begin_us, order.to_us - order.begin_us)

    @property
    def fits_each(self) -> bool:
        """Whether sources get factors of their own on the scale, so that every target has the load."""
        return self.order.on_each and self.order.scale == "search"

    @property
    def each_bps(self) -> np.ndarray:
        """What each target is to be offered, in the order of the links."""
        return self.order.load * np.array(list(self.order.rates_bps.values()))[self.weights > 0]

    def crossings(self, links: np.ndarray) -> np.ndarray:
        """How often a byte of each side of each source crosses some links; links: 1 for those; float64[sources, 2]."""
        return np.tensordot(links, self.crossing, axes=1)
