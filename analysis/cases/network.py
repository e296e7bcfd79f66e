# SPDX-License-Identifier: GPL-2.0-only
"""Settings of the scenario `bbr-case` that cases have in common."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.cases.evidence import Point

_DATA = "topology.central.right_to_left"
_ACKS = "topology.central.left_to_right"


def path(point: Point, duration_s: float, buffer_bdp: float = 4, phases: Sequence[str] = ("at: 0 s",),
         data: Sequence[str] = (), acks: Sequence[str] = (), **more: str) -> list[tuple[str, str]]:
    """The path of a point; data, acks: entries of the schedule of each direction; more: fields of the data direction.

    A deep buffer (above one BDP) has 40 packets at least, a shallow one 8.
    """
    limit = max(40 if buffer_bdp > 1 else 8, math.ceil(buffer_bdp * point.bdp))
    found = [(f"{_DATA}.rate", f"{point.rate_bps} bit/s"), (f"{_DATA}.delay", f"{point.rtt_us // 2} us"),
             (f"{_ACKS}.delay", f"{point.rtt_us - point.rtt_us // 2} us"), (f"{_DATA}.queue.limit", str(limit)),
             ("timing.test", f"{math.ceil(duration_s)} s"),
             ("probes.tcp_info.interval", f"{probe_us(point)} us"),
             ("traffic.phases", _listing(phases))]
    found += [(f"{_DATA}.schedule", _listing(data))] if data else []
    found += [(f"{_ACKS}.schedule", _listing(acks))] if acks else []
    return found + [(f"{_DATA}.{name}", value) for name, value in more.items()]


def probe_us(point: Point) -> int:
    """A sample each half of a round trip, each millisecond at most."""
    return max(1000, min(10_000, point.rtt_us // 2))


def settled_s(point: Point) -> float:
    """When a flow has left Startup and Drain, with some to spare: it doubles each round trip."""
    return 1 + point.rtt_s * (12 + math.log2(max(2.0, point.bdp)))


def at(time_us: float) -> str:
    return f"at: {max(1, round(time_us))} us"


def at_the_end(duration_s: float) -> list[str]:
    """Losses in the last millisecond: a path that loses has other random numbers than one that does not, from the
    start. So the first run of a case is the second one's until its losses begin."""
    return [f"{at(1e6 * math.ceil(duration_s) - 1000)}, loss: 20 %"]


def _listing(entries: Sequence[str]) -> str:
    return "[" + ", ".join(f"{{{entry}}}" for entry in entries) + "]"
