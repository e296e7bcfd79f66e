# SPDX-License-Identifier: GPL-2.0-only
"""A wired network with a narrow last hop to each of its right hosts, as a radio link would be.

        n1 --.              .== n3
        n2 --- r1 ====== r2 === n4          last hops: r2_to_n3, n3_to_r2, ...

Every left host is paired with every right host. The last hops are the bottlenecks; the central link is to be faster.
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
class HybridSection:
    """central: between the routers; last: of each right host, left_to_right is towards it; left_delays: one-way delays
    of the left hosts' links, which are like `edge`."""
    central: BothWays = both_ways()
    last: BothWays = both_ways()
    edge: Access = fields.section(Access)
    left_delays_us: tuple[int, ...] = fields.listing(fields.time(most=MOST_DELAY_US), least=1, most=100)
    right: int = fields.count(default=1, least=1, most=100)


class Hybrid(EmulatedTopo):
    """As many hosts as wanted on either side."""

    Section = HybridSection

    def build(self, section: HybridSection) -> None:
        r1, r2 = self.router("r1", "left"), self.router("r2", "right")
        self.link(r1, r2, section.central.left_to_right, section.central.right_to_left, a_is_left=True)
        left = []
        for number, delay_us in enumerate(section.left_delays_us, start=1):
            edge = section.edge.delayed(delay_us)
            left.append(self.host(f"n{number}", "left"))
            self.link(left[-1], r1, edge, edge)
        for number in range(len(left) + 1, len(left) + section.right + 1):
            host = self.host(f"n{number}", "right")
            self.link(r2, host, section.last.left_to_right, section.last.right_to_left, bottleneck=True)
            for initiator in left:
                self.path(initiator, host)


_CENTRAL = Link(rate_bps=10**8, delay_us=10_000, queue=Pfifo(kind="pfifo", limit=1000))
_LAST = Link(rate_bps=1_500_000, delay_us=20_000, queue=Pfifo(kind="pfifo", limit=50))
topos, LINKS = mininet_command.offer("hybrid", Hybrid, HybridSection(
    central=BothWays(left_to_right=_CENTRAL, right_to_left=_CENTRAL),
    last=BothWays(left_to_right=_LAST, right_to_left=_LAST),
    edge=Access(rate_bps=10**9, queue=Pfifo(kind="pfifo", limit=10_000)), left_delays_us=(0,), right=2))
