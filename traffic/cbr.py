# SPDX-License-Identifier: GPL-2.0-only
"""Constant bit rate over UDP as a component of the traffic (docs/howto/cbr.md).

    kind: cbr
    rate: 2 Mbit/s              of each flow, as a link counts it: Ethernet header included
    packet: 1000 B              size of an IP packet
    gap_spread: 0 %             each gap is drawn evenly from so much below to so much above their mean
    ecn: not_ect                codepoint in the IP header; ect0 and ect1 let queues mark packets, which nobody answers
    paths: [n4->n1]             sender->receiver (default: the first path, in the direction of the acceptor's data)
    flows: 1                    flows on each of them
    start_within: 0 s           every start is later by a random time below this one, from the run's seed
    stagger: 0 s                between the starts of one flow and the next
"""
import dataclasses

from testbed.core import fields
from traffic.datagrams import orders
from traffic.datagrams.departures import UNIFORM
from traffic.datagrams.orders import FIRST_PORT, RateSection, collect, flows, uses_ccas, validate
from traffic.workload.components import Component, Context, Flow, Prepared

__all__ = ["FIRST_PORT", "Section", "collect", "flows", "prepare", "uses_ccas", "validate"]

#: simulators can send it, too (testbed/engines/_simulators/workload.py)
SIMULATED = True


@dataclasses.dataclass(frozen=True)
class Section(RateSection):
    """The fields of a cbr component."""
    gap_spread_percent: float = fields.percent(default=0)
    ecn: str = fields.word(default="not_ect", choices=tuple(orders.CODEPOINTS))


def prepare(section: Section, component: Component, flows: list[Flow], context: Context) -> Prepared:
    """One job file per host that sends or receives."""
    return orders.at_rate(section, component, flows, context, UNIFORM if section.gap_spread_percent else "",
                          section.gap_spread_percent / 100, orders.CODEPOINTS[section.ecn])
