# SPDX-License-Identifier: GPL-2.0-only
"""Carrying out the schedules of links at their times, by netlink, and noting when each change took effect.

One message or several for each instant: the kernel takes those that are sent together one after the other, and
nothing happens in between. What a change does to packets that are there is in docs/howto/links.md.
"""
import abc
import socket
import struct
from collections.abc import Iterable
from typing import Generic, TypeVar

from testbed.probes._netlink import INGRESS, Qdisc
from topologies.links import varying, wires
from topologies.links.records import Change, Link, Network as Description
from topologies.linux import tc, tc_messages
from topologies.linux.network import Network, wire_device
from topologies.linux.rtnetlink import raise_error
from traffic.io.clock import now_ns

_What = TypeVar("_What")
#: of a table
Row = list[int | float | str]
_NEVER_US = 10**15


class AtTimes(abc.ABC, Generic[_What]):
    """What is done at given times, in the manner of a probe: `sample` is called when the next one is due.

    due: (time in us, number of the link, what) in any order; rows: what was done, as `do` tells it.
    """

    def __init__(self, due: Iterable[tuple[int, int, _What]]) -> None:
        self.rows: list[Row] = []
        self._due = sorted(due, key=lambda entry: entry[:2], reverse=True)
        self._called_for_us = 0
        #: from the instant for which `sample` is called to the next one
        self.interval_us = 0

    def sample(self, _t_us: int) -> None:
        """Do what is due."""
        while self._due and self._due[-1][0] <= self._called_for_us:
            self.rows.append(self.do(*self._due.pop()))
        self.interval_us = self._due[-1][0] - self._called_for_us if self._due else _NEVER_US
        self._called_for_us += self.interval_us

    @abc.abstractmethod
    def release(self) -> None:
        """When the experiment has ended: what still waits may go."""

    @abc.abstractmethod
    def do(self, at_us: int, number: int, what: _What) -> Row:
        """Do it; a row of a table."""


class LinkChanges(AtTimes[Change]):
    """The changes of all links. rows: those of raw/link_changes.csv.gz, in ns of the clock in the first column."""

    def __init__(self, network: Network, description: Description, timer_period_us: int) -> None:
        self._timer_period_us = timer_period_us
        self._links = [_Changing(network, link) for link in description.links if link.schedule]
        super().__init__((change.at_us, number, change) for number, one in enumerate(self._links)
                         for change in one.link.schedule)

    def release(self) -> None:
        for link in self._links:
            link.release()

    def do(self, at_us: int, number: int, what: Change) -> Row:
        return self._links[number].apply(at_us, what, self._timer_period_us)


class _Changing:
    """A link that changes: its two devices, each in its node's namespace."""

    def __init__(self, network: Network, link: Link) -> None:
        self.link, self._state = link, varying.initial(link)
        with network.in_namespace(link.from_node):
            self._sending = Tc(link.device)
            # the gate of a link with a trace is that of TracedLinks; while it is down it has no opportunities
            self._gate = Waker(link.device) if tc.gated(link) and link.opportunities is None else None
        with network.in_namespace(link.to_node):
            self._wire = Tc(wire_device(link.peer_device))
            self._chosen = Qdisc(socket.if_nametoindex(link.peer_device), INGRESS, shared=self._wire.socket)
        self._before = self._counters()

    def apply(self, due_us: int, change: Change, timer_period_us: int) -> Row:
        """Make a change; a row of the table."""
        link, before = self.link, self._state
        state = self._state = varying.changed(before, change)
        new = {name for name in varying.QUANTITIES if getattr(state, name) != getattr(before, name)}
        egress, wire = [], []
        if "rate_bps" in new:
            egress.append(tc_messages.rate(self._sending.ifindex, state.rate_bps, timer_period_us))
        if "limit" in new and state.limit is not None:
            egress.append(tc_messages.limit(self._sending.ifindex, link.queue, state.limit,
                                            tc.queue_parent(link)))
        if "up" in new and self._gate:
            egress.append(tc_messages.gate(self._sending.ifindex, link, state.up))
        if new & {"rate_bps", "loss_percent"}:
            wire.append(tc_messages.wire(self._wire.ifindex, link, state))
        if "delay_us" in new:
            wire.append(tc_messages.delay(self._wire.ifindex, link, state))
        self._sending.change(egress)
        self._wire.change(wire)
        t_ns, counted = now_ns(), [now - then for now, then in zip(self._counters(), self._before)]
        if "up" in new and state.up and self._gate:
            self._gate.wake()
        limit = link.limit if state.limit is None else state.limit
        return [t_ns, due_us, link.name, state.rate_bps, state.delay_us, state.loss_percent, limit, int(state.up),
                *counted]

    def release(self) -> None:
        """Let everything through."""
        if self._gate:
            self._sending.change([tc_messages.gate(self._sending.ifindex, self.link, True)])
            self._gate.wake()

    def _counters(self) -> list[int]:
        """Bytes and packets that the queue has sent, packets that have reached the wire, and those lost there."""
        sent, lost = self._sending.qdisc.read(), self._wire.qdisc.read()
        chosen = self._chosen.read()[2] if wires.drops_at_ingress(self.link) else 0
        return [sent[0], sent[1], lost[1] + lost[2] + lost[4] + chosen, lost[2] + chosen]


class Waker:
    """Has the root qdisc of a device of the current namespace look at its queue again (topologies/linux/tc.py)."""

    def __init__(self, device: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self._socket.bind((device, 0))

    def wake(self) -> None:
        self._socket.send(bytes(12) + struct.pack("!H", tc.WAKE_TYPE) + bytes(46))


class Tc:
    """The qdiscs of a device of the current namespace: told to change, and read."""

    def __init__(self, device: str) -> None:
        self.ifindex = socket.if_nametoindex(device)
        self.qdisc = Qdisc(self.ifindex)
        self.socket = self.qdisc.socket

    def change(self, messages: list[bytes]) -> None:
        """Send messages at once; OSError of the first that the kernel refuses."""
        if not messages:
            return
        self.socket.send(b"".join(messages))
        for _ in messages:
            raise_error(self.socket.recv(1 << 16))
