# SPDX-License-Identifier: GPL-2.0-only
"""802.11b with long preambles. IEEE 802.11-2016, clause 16, table 16-4."""
import math
from typing import ClassVar

from topologies.standards._wlan import Wlan

_PREAMBLE_US = 192


class Ieee80211b(Wlan):
    NAME = "802.11b"
    RATES_BPS: ClassVar[tuple[int, ...]] = (1_000_000, 2_000_000, 5_500_000, 11_000_000)
    BASIC_MBPS = (1, 2)
    SLOT_US, SIFS_US, DIFS_US, SLOTS, DSSS = 20, 10, 50, 31, True

    @staticmethod
    def phy_us(frame_bytes: int, rate_mbps: float) -> float:
        return _PREAMBLE_US + math.ceil(frame_bytes * 8 / rate_mbps)
