# SPDX-License-Identifier: GPL-2.0-only
"""802.15.4 at 2.4 GHz, below 6LoWPAN, without beacons: unslotted CSMA/CA.

The arithmetic of kernel-modules/air/csma.c once more. IEEE 802.15.4-2015: clauses 8 (constants and attributes of the
MAC), 6.2.5.1 and 10.1.
"""

from topologies.links.records import Station
from topologies.standards._standard import Devices, Standard

#: header of a data frame in one PAN with addresses of 64 bits, and checksum; an acknowledgement; the largest frame
_DATA_BYTES, _ACK_BYTES, _FRAME_BYTES = 21 + 2, 5, 127
#: RFC 6282: dispatch, ECN and the flow label that Linux chooses, next header and two addresses of which nothing is
#: known; then the hop limit, unless it is 64
_COMPRESSED_BYTES, _HOP_LIMIT_BYTES, _IPV6_BYTES = 2 + 3 + 1 + 16 + 16, 1, 40
#: a symbol, two of which are a byte; preamble, start of frame and length; the long space behind an acknowledgement
_SYMBOL_US, _PREAMBLE_BYTES, _SPACE_SYMBOLS = 16, 6, 40
#: a period of back-off, the most of a first back-off, the look at the channel, turning round
_PERIOD_US, _MOST_PERIODS, _LOOK_US, _TURN_US = 20 * _SYMBOL_US, 7, 8 * _SYMBOL_US, 12 * _SYMBOL_US


class Ieee802154(Standard):
    NAME, STACK, MODULE, DEVICE = "802.15.4", "6lowpan", "air_lowpan", "lowpan0"
    RATES_BPS = (250_000,)
    MTU_BYTES = 1280
    QUEUE_AT_DEVICE = CUTS_PACKETS = True

    @classmethod
    def queue_device(cls, station: Station) -> str:
        """There is another one below 6LoWPAN's."""
        return station.device.replace("-lowpan", "-wpan")

    @staticmethod
    def link_address(station: int) -> str:
        return f"02:00:00:00:a1:54:{station >> 8:02x}:{station & 255:02x}"

    @staticmethod
    def devices() -> Devices:
        from topologies.standards import _lowpan
        return _lowpan.Lowpan(Ieee802154.queue_device)

    def frame_us(self, frame_bytes: int, rate_bps: int | None = None) -> float:
        return (_PREAMBLE_BYTES + frame_bytes) * 2 * _SYMBOL_US

    def data_bytes(self, ip_bytes: int, forwarded: bool = False) -> int:
        return ip_bytes - _IPV6_BYTES + _COMPRESSED_BYTES + _DATA_BYTES + _HOP_LIMIT_BYTES * forwarded

    def ack_us(self) -> float:
        return self.frame_us(_ACK_BYTES)

    def most_bps(self) -> float:
        # back-off, look, turn; frame; turn, acknowledgement, space
        each_us = _PERIOD_US * _MOST_PERIODS / 2 + _LOOK_US + _TURN_US + self.frame_us(_FRAME_BYTES) + _TURN_US \
            + self.ack_us() + _SPACE_SYMBOLS * _SYMBOL_US
        return _FRAME_BYTES * 8e6 / each_us

    def hop_us(self, frame_bytes: int, first: bool, follows: bool) -> tuple[float, float]:
        answer_us = _TURN_US + self.ack_us() if follows else 0.0
        return answer_us + _LOOK_US + _TURN_US + self.frame_us(frame_bytes), _PERIOD_US * _MOST_PERIODS - answer_us

    def _queue(self) -> tuple[float, int]:
        frames = self.cell.queue_packets
        assert frames is not None               # QUEUE_AT_DEVICE
        return self.frame_us(_FRAME_BYTES) + _PERIOD_US * _MOST_PERIODS, frames
