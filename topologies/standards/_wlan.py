# SPDX-License-Identifier: GPL-2.0-only
"""802.11 with the distributed coordination function, below mac80211: what its standards share.

The arithmetic of kernel-modules/air/dcf.c once more. IEEE 802.11-2016, clause 10.3.
"""
import abc
from typing import ClassVar

from topologies.standards._standard import Devices, Standard

#: header of a data frame of an IBSS, LLC and SNAP, checksum; checksum and headers of an acknowledgement
_DATA_BYTES, _ACK_BYTES = 24 + 8 + 4, 14
#: a large IP packet
_LARGE_BYTES = 1500
#: of full size that the queues of a radio of mac80211 have room for: 4 MiB (net/mac80211/tx.c), 2304 bytes each
_QUEUED_FRAMES = 1820


class Wlan(Standard):
    """Times of the PHY in us; SLOTS: the most of a first back-off; BASIC_MBPS: rates of acknowledgements."""

    STACK, MODULE, DEVICE, MTU_BYTES = "mac80211", "air_wlan", "wlan0", 1500
    QUEUE_AT_DEVICE = CUTS_PACKETS = False
    SLOT_US: ClassVar[int]
    SIFS_US: ClassVar[int]
    DIFS_US: ClassVar[int]
    SLOTS: ClassVar[int]
    BASIC_MBPS: ClassVar[tuple[int, ...]]
    #: that the module computes the PHY of 802.11b, with long preambles
    DSSS: ClassVar[bool]

    @staticmethod
    def link_address(station: int) -> str:
        return f"02:00:00:a1:{station >> 8:02x}:{station & 255:02x}"

    @staticmethod
    def devices() -> Devices:
        from topologies.standards import _mac80211
        return _mac80211.Mac80211()

    def module_settings(self) -> dict[str, int]:
        return {"rate": self.cell.rate_bps // 100_000, "dsss": int(self.DSSS)}

    def frame_us(self, frame_bytes: int, rate_bps: int | None = None) -> float:
        return self.phy_us(frame_bytes, (rate_bps or self.cell.rate_bps) / 1e6)

    @staticmethod
    @abc.abstractmethod
    def phy_us(frame_bytes: int, rate_mbps: float) -> float:
        """Airtime of a frame at a rate."""

    def data_bytes(self, ip_bytes: int, forwarded: bool = False) -> int:
        return ip_bytes + _DATA_BYTES

    def ack_us(self) -> float:
        """At the highest of the basic rates that is not above the frame's."""
        return self.frame_us(_ACK_BYTES, max(rate for rate in self.BASIC_MBPS if rate * 10**6 <= self.cell.rate_bps)
                             * 10**6)

    def saturated_bps(self, ip_bytes: int) -> float:
        """Bits of IP packets per second of one station that always has one to send, alone on the channel."""
        frame_us = self.frame_us(self.data_bytes(ip_bytes))
        each_us = self.DIFS_US + self.SLOTS / 2 * self.SLOT_US + frame_us + self.SIFS_US + self.ack_us()
        return ip_bytes * 8e6 / each_us

    def most_bps(self) -> float:
        return self.saturated_bps(_LARGE_BYTES)

    def hop_us(self, frame_bytes: int, first: bool, follows: bool) -> tuple[float, float]:
        airtime_us = self.frame_us(frame_bytes)
        wait_us = self.SIFS_US + self.ack_us() + self.DIFS_US
        if first:
            return airtime_us, 0.0
        return airtime_us + wait_us * follows, self.SLOTS * self.SLOT_US + wait_us * (not follows)

    def _queue(self) -> tuple[float, int]:
        return _LARGE_BYTES * 8e6 / self.saturated_bps(_LARGE_BYTES), _QUEUED_FRAMES
