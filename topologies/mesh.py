# SPDX-License-Identifier: GPL-2.0-only
"""A mesh of stations of 802.11 on a square grid, without wires: who is out of range is reached by way of others.

        n1   n2   n3                range: up to which frames are understood
        n4   n5   n6                coverage: that, and sensing, times so much
        n7   n8   n9

The first half of the stations is paired with the second half: n1 with n6 of ten. Routes are those with the fewest hops
(topologies/base/wireless.py), and no protocol looks for them.
"""
import dataclasses

from testbed.core import fields
from testbed.core.fields import FieldError
from topologies.base.wireless import WirelessTopo, grid
from topologies.wireless.radio import MOST_DISTANCE_MM, MOST_STATIONS, RadioSection


@dataclasses.dataclass(frozen=True)
class MeshSection:
    """nodes: stations; spacing: of the grid; coverage: by which the radio's distances are multiplied."""
    nodes: int = fields.count(least=2, most=MOST_STATIONS)
    spacing_mm: int = fields.distance(default=40_000, least=1, most=MOST_DISTANCE_MM // 100)
    coverage: int = fields.count(default=1, least=1, most=100)
    radio: RadioSection = fields.section(RadioSection, default={})

    def __post_init__(self) -> None:
        if self.nodes % 2:
            raise FieldError("nodes", f"an even number expected, not {self.nodes}: stations come in pairs")


class Mesh(WirelessTopo):
    """Stations that forward what is for others."""

    Section = MeshSection

    def build(self, section: MeshSection) -> None:
        half = section.nodes // 2
        names = [self.relay(f"n{number}", "left" if number <= half else "right")
                 for number in range(1, section.nodes + 1)]
        self.cell(section.radio.describe(section.coverage), grid(names, section.spacing_mm))
        for initiator, acceptor in zip(names[:half], names[half:]):
            self.path(initiator, acceptor)
