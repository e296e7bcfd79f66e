# SPDX-License-Identifier: GPL-2.0-only
"""The H: two routers, two hosts on either side, and one at each router that only sends across its crossbar.

        n1 --.              .-- n4
              n2 ======= n3                         paths: n1-n4, n5-n6, n7-n8
        n5 --'  |          | '-- n6
               n7          n8

Studies of Tahoe, Reno, NewReno, Vegas and SACK in ns-2 have flows n1-n4 and n5-n6 and let the routers n2 and n3
themselves exchange a constant bit rate. Here the hosts n7 and n8 do that, over links without delay that are
never the bottleneck: programs run in hosts.
"""
import dataclasses
import os
import sys

if "__file__" not in globals():         # read by Mininet's `mn --custom`, which finds no module of ours by itself
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(sys._getframe().f_code.co_filename))))

from testbed.core import fields
from topologies.base import EmulatedTopo, mininet_command
from topologies.links.link import Access, BothWays, Link, both_ways
from topologies.queues.pfifo import Pfifo


@dataclasses.dataclass(frozen=True)
class HShapeSection:
    """central: from n2 to n3, a link, or one per direction; edge: links of n1, n5, n4 and n6; cross: of n7 and n8."""
    central: BothWays = both_ways()
    edge: Link = fields.section(Link)
    cross: Access = fields.section(Access)


class HShape(EmulatedTopo):
    """Named as the studies name their nodes."""

    Section = HShapeSection

    def build(self, section: HShapeSection) -> None:
        n2, n3 = self.router("n2", "left"), self.router("n3", "right")
        self.link(n2, n3, section.central.left_to_right, section.central.right_to_left, bottleneck=True,
                  a_is_left=True, names=("left_to_right", "right_to_left"))
        cross = section.cross.delayed(0)
        for side, router, names in (("left", n2, ("n1", "n5", "n7")), ("right", n3, ("n4", "n6", "n8"))):
            for name in names:
                edge = cross if name in ("n7", "n8") else section.edge
                self.link(self.host(name, side), router, edge, edge)
        for initiator, acceptor in (("n1", "n4"), ("n5", "n6"), ("n7", "n8")):
            self.path(initiator, acceptor)


_EVERY = Link(rate_bps=10**7, delay_us=10_000, queue=Pfifo(kind="pfifo", limit=20))
topos, LINKS = mininet_command.offer("h-shape", HShape, HShapeSection(
    central=BothWays(left_to_right=_EVERY, right_to_left=_EVERY), edge=_EVERY,
    cross=Access(rate_bps=10**9, queue=Pfifo(kind="pfifo", limit=1000))))
