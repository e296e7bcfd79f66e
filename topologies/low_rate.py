# SPDX-License-Identifier: GPL-2.0-only
"""Stations of IEEE 802.15.4 at 250 kbit/s on a square grid, which carry IPv6 by 6LoWPAN (RFC 4944, RFC 6282).

As topology mesh: n1 is paired with the first one of the second half, and who is out of range is reached by way of
others, which put packets together and take them apart again (route-over, RFC 6606).
"""
import dataclasses

from testbed.core import fields
from testbed.core.fields import FieldError
from topologies.base.wireless import WirelessTopo, grid
from topologies.wireless.radio import MOST_DISTANCE_MM, MOST_STATIONS, LowRateRadioSection


@dataclasses.dataclass(frozen=True)
class LowRateSection:
    """nodes: stations; spacing: of the grid; coverage: by which the radio's distances are multiplied; queue: frames
    that wait at a radio, of which a large packet needs several."""
    nodes: int = fields.count(least=2, most=MOST_STATIONS)
    spacing_mm: int = fields.distance(default=20_000, least=1, most=MOST_DISTANCE_MM // 100)
    coverage: int = fields.count(default=1, least=1, most=100)
    queue: int = fields.count(default=300, least=1, most=10_000)
    radio: LowRateRadioSection = fields.section(LowRateRadioSection, default={})

    def __post_init__(self) -> None:
        if self.nodes % 2:
            raise FieldError("nodes", f"an even number expected, not {self.nodes}: stations come in pairs")


class LowRate(WirelessTopo):
    """Stations that forward what is for others."""

    Section = LowRateSection
    IP_VERSIONS = (6,)

    def __init__(self, section: LowRateSection | None = None, ip_version: int = 6, until_us: int | None = None) -> None:
        super().__init__(section, ip_version, until_us)

    def build(self, section: LowRateSection) -> None:
        half = section.nodes // 2
        names = [self.relay(f"n{number}", "left" if number <= half else "right")
                 for number in range(1, section.nodes + 1)]
        self.cell(section.radio.describe(section.coverage), grid(names, section.spacing_mm), section.queue)
        for initiator, acceptor in zip(names[:half], names[half:]):
            self.path(initiator, acceptor)
