# SPDX-License-Identifier: GPL-2.0-only
"""The jitter that hosts have by default: of TCP flows that send all they can, a packet time at their bottleneck.

Without any the seeds of such traffic would be one run (docs/howto/hosts.md).
"""
from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import traffic
from topologies.links import end_hosts
from topologies.links.records import Network

if TYPE_CHECKING:
    from testbed.scenario.scenario import Scenario

#: what switches it off
OFF = "hosts.jitter=0 us"
NOTE = "Without the usual jitter of hosts, which this engine has not."


def apply(hosts: end_hosts.HostsSection, components: Sequence[Mapping[str, object]], network: Network) \
        -> tuple[end_hosts.HostsSection, Network]:
    """Hosts whose jitter is decided, and the network (what topologies.resolve gave) with them."""
    if hosts.jitter_us is None:
        hosts = dataclasses.replace(hosts, jitter_us=packet_time_us(components, network))
    return hosts, end_hosts.apply(hosts, network)


def packet_time_us(components: Sequence[Mapping[str, object]], network: Network) -> int:
    """That of TCP flows that send all they can, on the slowest link that their data cross; 0 if there are none."""
    return end_hosts.packet_time_us(network, [way.hops for way in traffic.bulk_routes(components, network)])


def without(scenario: Scenario) -> Scenario:
    """For an engine that has no jitter: a scenario without it, unless it asks for it. Its description says so."""
    if not scenario.usual_jitter:
        return scenario
    return dataclasses.replace(
        scenario, usual_jitter=False, hosts={**scenario.hosts, "jitter_us": 0},
        network=end_hosts.without_jitter(scenario.network),
        description=f"{scenario.description} {NOTE}".strip())
