# SPDX-License-Identifier: GPL-2.0-only
"""Links that a trace in mahimahi's format drives: at each of its instants so many full frames may leave, and no others.

A gate before the queue is shut (topologies/linux/tc.py). At an instant its bucket gets what opportunities are worth,
the queue is woken, and the gate is shut again: what was not used is gone.
"""
import bisect

from testbed.guest.link_changes import AtTimes, Row, Tc, Waker
from topologies.links import varying
from topologies.links.records import Link, Network as Description
from topologies.linux import tc_messages
from topologies.linux.network import Network
from traffic.io.clock import now_ns

#: above all limits
_ANY = 2**32


class TracedLinks(AtTimes[tuple[int, int]]):
    """The traces of all links, from 0 on. rows: those of raw/opportunities.csv.gz; the first column is the clock's
    reading in ns."""

    def __init__(self, network: Network, description: Description, duration_us: int) -> None:
        self._links: list[tuple[Link, Tc, Waker]] = []
        self._duration_us = duration_us
        due: list[tuple[int, int, tuple[int, int]]] = []
        for link in description.links:
            if link.opportunities:
                limits = [(at_us, link.limit if state.limit is None else state.limit)
                          for at_us, state in varying.states(link)]
                due += [(at_us, len(self._links), (count, limits[bisect.bisect_right(limits, (at_us, _ANY)) - 1][1]))
                        for at_us, count in varying.opportunities(link, 0, duration_us)]
                with network.in_namespace(link.from_node):
                    self._links.append((link, Tc(link.device), Waker(link.device)))
        self._before = [device.qdisc.read()[:2] for _, device, _ in self._links]
        for link, device, _ in self._links:
            device.change([tc_messages.gate(device.ifindex, link, False)])
        super().__init__(due)

    def release(self) -> None:
        for link, device, waker in self._links:
            limit_now = varying.state_at(link, self._duration_us).limit
            device.change([tc_messages.gate(device.ifindex, link, True, limit_now)])
            waker.wake()

    def do(self, at_us: int, number: int, what: tuple[int, int]) -> Row:
        (frames, limit_now), (link, device, waker) = what, self._links[number]
        device.change([tc_messages.grant(device.ifindex, link, frames * varying.FRAME_BYTES, limit_now)])
        waker.wake()
        device.change([tc_messages.gate(device.ifindex, link, False, limit_now)])
        sent, before = device.qdisc.read(), self._before[number]
        return [now_ns(), at_us, link.name, frames, sent[0] - before[0], sent[1] - before[1], sent[4]]
