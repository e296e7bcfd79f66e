# SPDX-License-Identifier: GPL-2.0-only
"""The idle network of a simulator, measured with simulated packets before any traffic.

A simulator is told which paths to echo over and how to overload which links, by the same rules as a
kernel's guest; raw/checks.json is made of what it measured, and the same check judges it.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from testbed.core.record import Record
from testbed.guest import overload
from testbed.guest.checks import covering, echo_bytes
from topologies.links.records import Link, Network, Path

#: a simulated sender never waits for room: together they offer this much of what the link carries
_OFFERED = 2.0


@dataclasses.dataclass(frozen=True)
class Echo:
    """A path to measure; expected_us: its round trip with the serialisation of an echo."""
    path: Path
    serialisation_us: float

    @property
    def expected_us(self) -> float:
        return self.path.base_rtt_us + self.serialisation_us


@dataclasses.dataclass(frozen=True)
class Overload:
    """A link to overload; interval_ns: between two packets of each of the plan's senders."""
    link: Link
    plan: overload.Plan
    interval_ns: int


class Saturated(Record):
    """What a simulator measured of a link that it overloaded."""
    measured_bps: float
    window_packets: int
    longest_queue_packets: int
    longest_queue_bytes: int
    dropped_packets: int


def echoes(network: Network) -> list[Echo]:
    """The paths to measure: all, or enough to cover every link."""
    rates = {link.name: link.rate_bps for link in network.links}
    return [Echo(path, sum(8e6 * echo_bytes(network) / rates[name] for name in (*path.hops, *path.hops_back)))
            for path in covering(network.paths)]


def overloads(network: Network) -> list[Overload]:
    """How to overload each bottleneck."""
    found = []
    for link in network.links:
        if link.bottleneck:
            plan = overload.plan(link, network)
            interval_s = len(plan.senders) * overload.frame_bits(network) / link.rate_bps / _OFFERED
            found.append(Overload(link, plan, round(interval_s * 1e9)))
    return found


def checks(network: Network, round_trips_us: Iterable[float | None], saturated: Iterable[Saturated]) \
        -> dict[str, object]:
    """raw/checks.json of what was measured, in the order of `echoes` and `overloads`; None: no answer."""
    return {
        "paths": [{"initiator": echo.path.initiator, "acceptor": echo.path.acceptor,
                   "base_rtt_us": echo.path.base_rtt_us, "serialisation_us": echo.serialisation_us,
                   "measured_rtt_us": measured_us}
                  for echo, measured_us in zip(echoes(network), round_trips_us, strict=True)],
        "bottlenecks": [{"link": one.link.name, "rate_bps": one.link.rate_bps,
                         "limit_packets": one.link.limit_packets, "limit_bytes": one.link.limit_bytes,
                         "overloaded": one.plan.overloaded, "filled": one.plan.fills,
                         "measured_bps": measured.measured_bps, "window_packets": measured.window_packets,
                         "longest_queue_packets": measured.longest_queue_packets,
                         "longest_queue_bytes": measured.longest_queue_bytes,
                         "dropped_packets": measured.dropped_packets}
                        for one, measured in zip(overloads(network), saturated, strict=True)],
        "offloads": {},
    }
