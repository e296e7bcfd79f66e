# SPDX-License-Identifier: GPL-2.0-only
"""The dumbbell of the Common TCP Evaluation Suite (draft-irtf-iccrg-tcpeval-01, section 3).

        n1 --.              .-- n4
        n2 --- r1 ====== r2 --- n5          central link: r1 == r2
        n3 --'              '-- n6

Every left host is paired with every right host: three nodes a side give nine paths.
Left hosts initiate connections, right hosts accept them, so that the heavier
direction is `right_to_left`.
"""
import dataclasses
import os
import sys

if "__file__" not in globals():         # read by Mininet's `mn --custom`, which finds no module of ours by itself
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(sys._getframe().f_code.co_filename))))

from testbed.core import fields
from topologies.base import EmulatedTopo, mininet_command
from topologies.links.impairments import MOST_DELAY_US
from topologies.links.link import Access, BothWays, Link, both_ways
from topologies.queues.pfifo import Pfifo


@dataclasses.dataclass(frozen=True)
class DumbbellSection:
    """central: a link, or one per direction; the lists: one-way delay of each host's edge link."""
    central: BothWays = both_ways()
    edge: Access = fields.section(Access)
    left_delays_us: tuple[int, ...] = fields.listing(fields.time(most=MOST_DELAY_US), least=1, most=100)
    right_delays_us: tuple[int, ...] = fields.listing(fields.time(most=MOST_DELAY_US), least=1, most=100)


class Dumbbell(EmulatedTopo):
    """As many hosts as wanted a side, each with its own one-way edge delay."""

    Section = DumbbellSection

    def build(self, section: DumbbellSection) -> None:
        r1, r2 = self.router("r1", "left"), self.router("r2", "right")
        self.link(r1, r2, section.central.left_to_right, section.central.right_to_left, bottleneck=True,
                  a_is_left=True, names=("left_to_right", "right_to_left"))
        left: list[str] = []
        right: list[str] = []
        for side, router, delays_us, hosts in (("left", r1, section.left_delays_us, left),
                                               ("right", r2, section.right_delays_us, right)):
            for delay_us in delays_us:
                host = self.host(f"n{len(left) + len(right) + 1}", side)
                edge = section.edge.delayed(delay_us)
                self.link(host, router, edge, edge)
                hosts.append(host)
        for initiator in left:
            for acceptor in right:
                self.path(initiator, acceptor)


_CENTRAL = Link(rate_bps=10**8, delay_us=2000, queue=Pfifo(kind="pfifo", limit=850))
# the suite's access link
topos, LINKS = mininet_command.offer("dumbbell", Dumbbell, DumbbellSection(
    central=BothWays(left_to_right=_CENTRAL, right_to_left=_CENTRAL),
    edge=Access(rate_bps=10**8, queue=Pfifo(kind="pfifo", limit=10_000)),
    left_delays_us=(0, 12_000, 25_000), right_delays_us=(2000, 37_000, 75_000)))
