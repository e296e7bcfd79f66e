# SPDX-License-Identifier: GPL-2.0-only
"""Which flow a packet is of, by its addresses and ports.

No two flows of a run have the same port at their receivers, or, where a program listens at the sender and its client
takes any port, at their senders.
"""
import ipaddress
import struct
from collections.abc import Collection

from traffic.workload.records import Flow


class Owners:
    """The flows of a run, to be found by their packets."""

    def __init__(self, flows: Collection[Flow]) -> None:
        self._receivers = {(_packed(flow.dst), flow.dport): flow.flow for flow in flows}
        self._listening_senders = {(_packed(flow.src), flow.dport): flow.flow for flow in flows}
        self._known: dict[bytes, tuple[int, int]] = {}

    def of(self, ends: bytes) -> tuple[int, int]:
        """(number of the flow, 1 if the packet goes back to its sender); (0, 0) if it is of none.

        ends: addresses of source and destination, their ports.
        """
        if ends not in self._known:
            self._known[ends] = self._find(ends)
        return self._known[ends]

    def _find(self, ends: bytes) -> tuple[int, int]:
        half = (len(ends) - 4) // 2
        sport, dport = struct.unpack("!HH", ends[2 * half:])
        source, destination = (ends[:half], sport), (ends[half:2 * half], dport)
        for flows, forward, back in ((self._receivers, destination, source),
                                     (self._listening_senders, source, destination)):
            if forward in flows or back in flows:
                return (flows[forward], 0) if forward in flows else (flows[back], 1)
        return 0, 0


def _packed(address: str) -> bytes:
    return ipaddress.ip_address(address).packed
