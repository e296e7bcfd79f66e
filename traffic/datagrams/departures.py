# SPDX-License-Identifier: GPL-2.0-only
"""When the packets of a UDP flow leave.

An order says: "gap_ns" from packet to packet; "bursts_us" [[from, to], ...] in which the flow sends (default: from
"start_us" to "stop_us"), in their order and apart; "gaps" how gaps differ (default: not at all) and "seed" of their
draws.
"""
from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import NotRequired, TypedDict

    class Instants(TypedDict):
        """What an order says of when packets leave; spread: of uniform gaps, a share of the mean."""
        gap_ns: int
        bursts_us: NotRequired[list[tuple[int, int]]]
        gaps: NotRequired[str]
        seed: NotRequired[str]
        spread: NotRequired[float]

    class Order(Instants):
        """What a program is told of a flow that it sends."""
        flow: int
        address: str
        port: int
        payload_bytes: int
        start_us: int
        stop_us: int
        ecn: NotRequired[int]

#: an order's "gaps"
EXPONENTIAL, UNIFORM = "exponential", "uniform"


def departures_ns(order: Order) -> Iterator[int]:
    """Instants in ns of experiment time, in their order.

    Equal gaps are counted from the beginning of each burst, of which the first packet leaves at once. In a Poisson
    process (exponential gaps) the first one has a gap before it, too.
    """
    gap_ns = order["gap_ns"]
    draw = _draw(order)
    for begin_us, end_us in order.get("bursts_us") or [(order["start_us"], order["stop_us"])]:
        begin_ns, end_ns = begin_us * 1000, end_us * 1000
        if draw is None:
            yield from range(begin_ns, end_ns, gap_ns)
            continue
        at_ns = float(begin_ns) + (draw() * gap_ns if order["gaps"] == EXPONENTIAL else 0)
        while at_ns < end_ns:
            yield int(at_ns)
            at_ns += draw() * gap_ns


def equal(order: Order) -> bool:
    """Whether all packets are the same time apart: from `start_us` on, `gap_ns` each."""
    return order.get("gaps") is None and order.get("bursts_us") is None


def _draw(order: Order) -> Callable[[], float] | None:
    """Draws gaps with mean 1; None: all are equal."""
    kind = order.get("gaps")
    if kind is None:
        return None
    chance = random.Random(order["seed"]).random
    if kind == EXPONENTIAL:
        return lambda: -math.log(1 - chance())
    if kind != UNIFORM:
        raise ValueError(f"no gaps {kind!r}")
    spread = float(order["spread"])
    return lambda: 1 + spread * (2 * chance() - 1)
