# SPDX-License-Identifier: GPL-2.0-only
"""802.11g, of OFDM stations only, with short slots. IEEE 802.11-2016, table 18-5 and clause 17.4.3."""
import math

from topologies.standards._wlan import Wlan

#: preamble and SIGNAL, and the silence behind the frame; a symbol
_AROUND_US, _SYMBOL_US = 16 + 4 + 6, 4
#: SERVICE and tail
_SERVICE_BITS, _TAIL_BITS = 16, 6


class Ieee80211g(Wlan):
    NAME = "802.11g"
    RATES_BPS = tuple(rate * 10**6 for rate in (6, 9, 12, 18, 24, 36, 48, 54))
    BASIC_MBPS = (6, 12, 24)
    SLOT_US, SIFS_US, DIFS_US, SLOTS, DSSS = 9, 10, 28, 15, False

    @staticmethod
    def phy_us(frame_bytes: int, rate_mbps: float) -> float:
        return _AROUND_US + _SYMBOL_US * math.ceil(
            (_SERVICE_BITS + 8 * frame_bytes + _TAIL_BITS) / (_SYMBOL_US * rate_mbps))
