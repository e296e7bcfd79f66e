# SPDX-License-Identifier: GPL-2.0-only
"""Devices of mac80211's radios, told by nl80211: all in one IBSS, whose BSSID is known. Only imported in the guest."""
import socket

from topologies.links.records import Cell, Station
from topologies.linux.genetlink import FLAG, Family, u32

# include/uapi/linux/nl80211.h; channel 6, the only one that kernel-modules/air_wlan has
_NEW_INTERFACE, _JOIN_IBSS, _SET_NETNS = 7, 43, 49
_WIPHY, _IFINDEX, _IFNAME, _IFTYPE, _MAC, _FREQUENCY, _SSID, _FREQUENCY_FIXED, _PID = 1, 3, 4, 5, 6, 38, 52, 60, 82
_ADHOC, _MHZ = 1, 2437
_NETWORK, _CELL = b"testbed", bytes.fromhex("02caffeebabe")


class Mac80211:
    """See Devices in _standard.py."""

    FAMILY, JOINS = "nl80211", True

    def move(self, family: Family, number: int, pid: int) -> None:
        family.tell(_SET_NETNS, {_WIPHY: u32(number), _PID: u32(pid)})

    def create(self, number: int, station: Station, _cell: Cell) -> None:
        with Family(self.FAMILY) as family:
            family.tell(_NEW_INTERFACE, {
                _WIPHY: u32(number), _IFNAME: station.device.encode() + b"\0", _IFTYPE: u32(_ADHOC),
                _MAC: bytes.fromhex(station.mac.replace(":", ""))})

    def lines(self, _station: Station) -> list[str]:
        return []

    def join(self, station: Station) -> None:
        with Family(self.FAMILY) as family:
            family.tell(_JOIN_IBSS, {_IFINDEX: u32(socket.if_nametoindex(station.device)), _SSID: _NETWORK,
                                     _MAC: _CELL, _FREQUENCY: u32(_MHZ), _FREQUENCY_FIXED: FLAG})
