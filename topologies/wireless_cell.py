# SPDX-License-Identifier: GPL-2.0-only
"""Wired hosts, and stations on one radio channel around the router that joins both.

        n1 --.                ) s1 --- n4
        n2 --- r1 ====== r2 ((  s2 --- n5         central link: r1 == r2
        n3 --'                ) s3 --- n6

Every left host is paired with every right host, whose station is a router with a wire behind it. With `stations` in
place of `right_delays` the stations are the hosts themselves. All are in an IBSS, r2 in the corner of a square grid.
"""
import dataclasses

from testbed.core import fields
from testbed.core.fields import FieldError
from topologies.base.wireless import WirelessTopo, grid
from topologies.links.impairments import MOST_DELAY_US
from topologies.links.link import Access, BothWays, both_ways
from topologies.wireless.radio import MOST_DISTANCE_MM, MOST_STATIONS, RadioSection


@dataclasses.dataclass(frozen=True)
class WirelessCellSection:
    """central: a link, or one per direction; the lists: one-way delay of each host's edge link; stations: how many,
    without wires behind them; spacing: of the grid on which stations are."""
    central: BothWays = both_ways()
    edge: Access = fields.section(Access)
    left_delays_us: tuple[int, ...] = fields.listing(fields.time(most=MOST_DELAY_US), least=1, most=100)
    right_delays_us: tuple[int, ...] = fields.listing(fields.time(most=MOST_DELAY_US), default=(),
                                                      most=MOST_STATIONS - 1)
    stations: int = fields.count(default=0, most=MOST_STATIONS - 1)
    spacing_mm: int = fields.distance(default=5000, most=MOST_DISTANCE_MM // 100)
    radio: RadioSection = fields.section(RadioSection, default={})

    def __post_init__(self) -> None:
        if bool(self.right_delays_us) == bool(self.stations):
            raise FieldError("stations", "either stations or right_delays expected: hosts on the air, or behind it")


class WirelessCell(WirelessTopo):
    """Left hosts, the two routers, the stations and what is behind them."""

    Section = WirelessCellSection

    def build(self, section: WirelessCellSection) -> None:
        r1, r2 = self.router("r1", "left"), self.router("r2", "right")
        self.link(r1, r2, section.central.left_to_right, section.central.right_to_left, bottleneck=True,
                  a_is_left=True, names=("left_to_right", "right_to_left"))
        left: list[str] = []
        for delay_us in section.left_delays_us:
            edge = section.edge.delayed(delay_us)
            left.append(self.host(f"n{len(left) + 1}", "left"))
            self.link(left[-1], r1, edge, edge)
        right, stations = [], []
        for number, delay_us in enumerate(section.right_delays_us, start=1):
            edge = section.edge.delayed(delay_us)
            stations.append(self.router(f"s{number}", "right"))
            right.append(self.host(f"n{len(left) + number}", "right"))
            self.link(stations[-1], right[-1], edge, edge)
        for number in range(1, section.stations + 1):
            right.append(self.host(f"n{len(left) + number}", "right"))
            stations.append(right[-1])
        self.cell(section.radio.describe(), grid([r2, *stations], section.spacing_mm))
        for initiator in left:
            for acceptor in right:
                self.path(initiator, acceptor)
