# SPDX-License-Identifier: GPL-2.0-only
"""Devices of mac802154's radios, told by nl802154, and 6LoWPAN's above them. Only imported in the guest."""
import socket
from collections.abc import Callable

from topologies.links.records import Cell, Station
from topologies.linux.genetlink import Family, u8, u16, u32
from topologies.linux.network import batch

# include/net/nl802154.h
_SET_PAN, _SET_ACKREQ, _SET_NETNS = 10, 19, 20
_PHY, _IFINDEX, _PAN, _ACKREQ, _PID = 1, 3, 9, 26, 28
_NUMBER_OF_PAN = 0xBEEF


class Lowpan:
    """See Devices in _standard.py."""

    FAMILY, JOINS = "nl802154", False

    def __init__(self, below: Callable[[Station], str]) -> None:
        """below: name of the device below that of a station."""
        self._below = below

    def move(self, family: Family, number: int, pid: int) -> None:
        family.tell(_SET_NETNS, {_PHY: u32(number), _PID: u32(pid)})

    def create(self, number: int, station: Station, cell: Cell) -> None:
        device = self._below(station)
        batch("ip", [f"link set wpan{number} name {device}",
                     f"link add link {device} name {station.device} type lowpan"])
        batch("tc", [f"qdisc replace dev {device} root pfifo limit {cell.queue_packets}"])
        index = u32(socket.if_nametoindex(device))
        with Family(self.FAMILY) as family:
            family.tell(_SET_PAN, {_IFINDEX: index, _PAN: u16(_NUMBER_OF_PAN)})
            family.tell(_SET_ACKREQ, {_IFINDEX: index, _ACKREQ: u8(1)})

    def lines(self, station: Station) -> list[str]:
        return [f"link set {self._below(station)} up"]

    def join(self, station: Station) -> None:
        """They are in their PAN when they are up."""
