# SPDX-License-Identifier: GPL-2.0-only
"""Links that a trace in mahimahi's format drives: at each of its instants so many full frames may leave, and no others.

A gate before the queue is shut (topologies/tc.py). At an instant its bucket gets what the opportunities are worth, the
queue is woken, and the gate is shut again: what was not used is gone.
"""
from typing import Any

from testbed.guest.link_changes import AtTimes, Tc, Waker
from topologies import tc_messages, varying
from topologies.network import Network
from traffic.clock import now_ns

Json = dict[str, Any]


class TracedLinks(AtTimes):
    """The traces of all links, from 0 on. rows: those of raw/opportunities.csv.gz; the first column is the clock's
    reading in ns."""

    def __init__(self, network: Network, description: Json, duration_us: int) -> None:
        self._links: list[tuple[Json, Tc, Waker]] = []
        due: list[tuple[int, int, int]] = []
        for link in description["links"]:
            if link.get("opportunities"):
                due += [(at_us, len(self._links), count) for at_us, count in varying.opportunities(
                    link, 0, duration_us)]
                with network.in_namespace(link["from"]):
                    self._links.append((link, Tc(link["device"]), Waker(link["device"])))
        self._before = [device.qdisc.read()[:2] for _, device, _ in self._links]
        for link, device, _ in self._links:
            device.change([tc_messages.gate(device.ifindex, link, False)])
        super().__init__(due)

    def release(self) -> None:
        for link, device, waker in self._links:
            device.change([tc_messages.gate(device.ifindex, link, True)])
            waker.wake()

    def do(self, at_us: int, number: int, what: int) -> list[Any]:
        link, device, waker = self._links[number]
        device.change([tc_messages.grant(device.ifindex, link, what * varying.FRAME_BYTES)])
        waker.wake()
        device.change([tc_messages.gate(device.ifindex, link, False)])
        sent, before = device.qdisc.read(), self._before[number]
        return [now_ns(), at_us, link["name"], what, sent[0] - before[0], sent[1] - before[1], sent[4]]
