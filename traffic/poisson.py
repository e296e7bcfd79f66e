# SPDX-License-Identifier: GPL-2.0-only
"""Packets of a Poisson process over UDP as a component of the traffic (docs/howto/on-off.md).

    kind: poisson
    rate: 2 Mbit/s              of each flow in the mean, as a link counts it: Ethernet header included
    packet: 1000 B              size of an IP packet; the gaps between packets are exponential
    paths: [n4->n1]             sender->receiver (default: the first path, in the direction of the acceptor's data)
    flows: 1                    flows on each of them
    start_within: 0 s           every start is later by a random time below this one, from the run's seed
    stagger: 0 s                between the starts of one flow and the next
"""
from traffic.datagrams import orders
from traffic.datagrams.departures import EXPONENTIAL
from traffic.datagrams.orders import FIRST_PORT, RateSection as Section, collect, flows, uses_ccas, validate
from traffic.workload.components import Component, Context, Flow, Prepared

__all__ = ["FIRST_PORT", "Section", "collect", "flows", "prepare", "uses_ccas", "validate"]

#: simulators can send it, too (testbed/engines/_simulators/workload.py)
SIMULATED = True


def prepare(section: Section, component: Component, flows: list[Flow], context: Context) -> Prepared:
    """One job file per host that sends or receives."""
    return orders.at_rate(section, component, flows, context, EXPONENTIAL)
