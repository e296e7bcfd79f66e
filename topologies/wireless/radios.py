# SPDX-License-Identifier: GPL-2.0-only
"""Radios of a network that is brought up: each goes into its node's namespace and joins the cell.

The modules of kernel-modules/air_* have made them before, number n for the station of that number. Told by netlink:
`iw` and `iwpan` would do the same in some hundred processes.
"""
import fcntl
import socket
import struct
import time

from testbed.core import ip
from topologies import standards
from topologies.links.records import Node
from topologies.linux.genetlink import Family
from topologies.linux.network import Interface, Network, batch, interface, single_segments

_SIOCGIFFLAGS, _IFF_RUNNING = 0x8913, 0x40
#: until a station has joined, and until those in range have heard of each other: 1 ms in the module
_LONGEST_S, _STEP_S, _HEARD_S = 5.0, 0.01, 0.1


class Radios:
    """The stations of a network's cell."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._cell, = network.description.cells
        self._stations = {station.node: station for station in self._cell.stations}
        self._devices = standards.of(self._cell).devices()

    def create(self) -> None:
        """Put radios and their interfaces, which are down, into their namespaces."""
        with Family(self._devices.FAMILY) as family:
            for number, name in enumerate(self._stations):
                self._devices.move(family, number, self._network.pid(name))
        for number, (name, station) in enumerate(self._stations.items()):
            with self._network.in_namespace(name):
                self._devices.create(number, station, self._cell)
                if ip.version_of(station.address) == 6:
                    # before it is told to forward, or it would tell the neighbourhood of the routers' group
                    batch("ip", [f"link set {station.device} arp off multicast off"])
            Interface.of_radio(station.device, self._network.net[name], ip.with_prefix(station.address))

    def devices(self, node: str) -> list[str]:
        """A node's devices with addresses on the air."""
        return [self._stations[node].device] if node in self._stations else []

    def lines(self, node: Node) -> list[str]:
        """What `ip -batch` is told of a node's radio."""
        station = self._stations.get(node.name)
        if station is None:
            return []
        lines = self._devices.lines(station)
        if not node.gso:
            lines.append(single_segments(station.device))
        return lines + interface(station.address, station.device)

    def join(self) -> None:
        """All join the cell and hear of each other. RuntimeError if one does not."""
        if self._devices.JOINS:
            for name, station in self._stations.items():
                with self._network.in_namespace(name):
                    self._devices.join(station)
        for name, station in self._stations.items():
            with self._network.in_namespace(name):
                _wait_for(station.device)
        time.sleep(_HEARD_S)


def _wait_for(device: str) -> None:
    """Until a device of the current namespace can send."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _ in range(int(_LONGEST_S / _STEP_S)):
            answer = fcntl.ioctl(asking, _SIOCGIFFLAGS, struct.pack("16sH14x", device.encode(), 0))
            if struct.unpack_from("H", answer, 16)[0] & _IFF_RUNNING:
                return
            time.sleep(_STEP_S)
    raise RuntimeError(f"{device}: has not joined its cell within {_LONGEST_S:g} s")
