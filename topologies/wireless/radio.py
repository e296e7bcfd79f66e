# SPDX-License-Identifier: GPL-2.0-only
"""The section by which scenarios describe radios; how their channel is computed is in kernel-modules/air."""
import dataclasses

from testbed.core import fields
from testbed.core.fields import FieldError
from testbed.core.units import show_rate
from topologies import standards
from topologies.links.records import Cell
from topologies.standards._standard import Standard

#: 300 km: positions are whole millimetres in 32 bits
MOST_DISTANCE_MM = 300 * 10**6
#: kernel-modules/air/air.h
MOST_STATIONS = 128


@dataclasses.dataclass(frozen=True)
class RadioSection:
    """range: up to which frames are understood; sensing: up to which a signal keeps others from sending and garbles
    what they receive (default: range); loss: of the frames that are in range and met nobody else's."""
    standard: str = fields.word(choices=standards.names("mac80211"), default="802.11g")
    rate_bps: int | None = fields.rate(default=None)
    range_mm: int = fields.distance(default=100_000, least=1, most=MOST_DISTANCE_MM)
    sensing_mm: int | None = fields.distance(default=None, least=1, most=MOST_DISTANCE_MM)
    loss_percent: float = fields.percent(default=0.0, most=99.0)

    def __post_init__(self) -> None:
        rates = self._standard.RATES_BPS
        if self.rate_bps is not None and self.rate_bps not in rates:
            raise FieldError("rate", f"one of {', '.join(map(show_rate, rates))} expected, which {self.standard} has, "
                                     f"not {show_rate(self.rate_bps)}")
        if self.sensing_mm is not None and self.sensing_mm < self.range_mm:
            raise FieldError("sensing", "no less than range expected: what is understood is heard")

    @property
    def _standard(self) -> type[Standard]:
        return standards.found()[self.standard]

    def describe(self, wider: int = 1) -> Cell:
        """What a cell of network.json has of it; wider: distances times so much. FieldError if that is too far."""
        range_mm, sense_mm = self.range_mm * wider, (self.sensing_mm or self.range_mm) * wider
        if sense_mm > MOST_DISTANCE_MM:
            raise FieldError("radio.range", f"with coverage beyond {MOST_DISTANCE_MM // 10**6} km")
        return Cell({"standard": self.standard, "rate_bps": self.rate_bps or self._standard.RATES_BPS[0],
                     "range_mm": range_mm, "sense_mm": sense_mm, "loss_percent": self.loss_percent,
                     "mtu_bytes": self._standard.MTU_BYTES})


@dataclasses.dataclass(frozen=True)
class LowRateRadioSection(RadioSection):
    """The same of standards below 6LoWPAN, which reach less far."""
    standard: str = fields.word(choices=standards.names("6lowpan"), default="802.15.4")
    range_mm: int = fields.distance(default=30_000, least=1, most=MOST_DISTANCE_MM)
