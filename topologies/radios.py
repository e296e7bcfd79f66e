# SPDX-License-Identifier: GPL-2.0-only
"""Radios of a network that is brought up: each goes into its node's namespace and joins the cell.

The modules of kernel-modules/air_* have made them before, number n for the station of that number. Told by netlink:
`iw` and `iwpan` would do the same in some hundred processes.
"""
import fcntl
import socket
import struct
import time
from typing import Any

from topologies import ip
from topologies.airtime import LOW_RATE, radio_device
from topologies.genetlink import FLAG, Family, u8, u16, u32
from topologies.network import Interface, Network, batch, interface, single_segments

Json = dict[str, Any]

# include/uapi/linux/nl80211.h; channel 6, the only one that kernel-modules/air_wlan has
_NEW_INTERFACE, _JOIN_IBSS, _SET_NETNS = 7, 43, 49
_WIPHY, _IFINDEX, _IFNAME, _IFTYPE, _MAC, _FREQUENCY, _SSID, _FREQUENCY_FIXED, _PID = 1, 3, 4, 5, 6, 38, 52, 60, 82
_ADHOC, _MHZ = 1, 2437
_NETWORK, _CELL = b"testbed", bytes.fromhex("02caffeebabe")
# include/net/nl802154.h
_LOW_SET_PAN, _LOW_SET_ACKREQ, _LOW_SET_NETNS = 10, 19, 20
_LOW_PHY, _LOW_IFINDEX, _LOW_PAN, _LOW_ACKREQ, _LOW_PID = 1, 3, 9, 26, 28
_PAN = 0xBEEF

_SIOCGIFFLAGS, _IFF_RUNNING = 0x8913, 0x40
#: until a station has joined, and until those in range have heard of each other: 1 ms in the module
_LONGEST_S, _STEP_S, _HEARD_S = 5.0, 0.01, 0.1


class Radios:
    """The stations of a network's cell."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._cell, = network.description["cells"]
        self._stations = {station["node"]: station for station in self._cell["stations"]}
        self._low_rate = self._cell["standard"] == LOW_RATE

    def create(self) -> None:
        """Put radios and their interfaces, which are down, into their namespaces."""
        with Family("nl802154" if self._low_rate else "nl80211") as family:
            for number, name in enumerate(self._stations):
                pid = u32(self._network.pid(name))
                if self._low_rate:
                    family.tell(_LOW_SET_NETNS, {_LOW_PHY: u32(number), _LOW_PID: pid})
                else:
                    family.tell(_SET_NETNS, {_WIPHY: u32(number), _PID: pid})
        for number, (name, station) in enumerate(self._stations.items()):
            with self._network.in_namespace(name):
                if self._low_rate:
                    self._create_low_rate(number, station)
                else:
                    with Family("nl80211") as family:
                        family.tell(_NEW_INTERFACE, {
                            _WIPHY: u32(number), _IFNAME: station["device"].encode() + b"\0", _IFTYPE: u32(_ADHOC),
                            _MAC: bytes.fromhex(station["mac"].replace(":", ""))})
                if ip.version_of(station["address"]) == 6:
                    # before it is told to forward, or it would tell the neighbourhood of the routers' group
                    batch("ip", [f"link set {station['device']} arp off multicast off"])
            Interface.of_radio(station["device"], self._network.net[name], ip.with_prefix(station["address"]))

    def _create_low_rate(self, number: int, station: Json) -> None:
        device = radio_device(station)
        batch("ip", [f"link set wpan{number} name {device}",
                     f"link add link {device} name {station['device']} type lowpan"])
        batch("tc", [f"qdisc replace dev {device} root pfifo limit {self._cell['queue_packets']}"])
        index = u32(socket.if_nametoindex(device))
        with Family("nl802154") as family:
            family.tell(_LOW_SET_PAN, {_LOW_IFINDEX: index, _LOW_PAN: u16(_PAN)})
            family.tell(_LOW_SET_ACKREQ, {_LOW_IFINDEX: index, _LOW_ACKREQ: u8(1)})

    def devices(self, node: str) -> list[str]:
        """A node's devices with addresses on the air."""
        return [self._stations[node]["device"]] if node in self._stations else []

    def lines(self, node: Json) -> list[str]:
        """What `ip -batch` is told of a node's radio."""
        station = self._stations.get(node["name"])
        if station is None:
            return []
        lines = [f"link set {radio_device(station)} up"] if self._low_rate else []
        if not node.get("gso", True):
            lines.append(single_segments(station["device"]))
        return lines + interface(station["address"], station["device"])

    def join(self) -> None:
        """All join the cell and hear of each other. RuntimeError if one does not."""
        if not self._low_rate:
            for name, station in self._stations.items():
                with self._network.in_namespace(name), Family("nl80211") as family:
                    family.tell(_JOIN_IBSS, {
                        _IFINDEX: u32(socket.if_nametoindex(station["device"])), _SSID: _NETWORK, _MAC: _CELL,
                        _FREQUENCY: u32(_MHZ), _FREQUENCY_FIXED: FLAG})
        for name, station in self._stations.items():
            with self._network.in_namespace(name):
                _wait_for(station["device"])
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
