# SPDX-License-Identifier: GPL-2.0-only
"""Pairs of hosts that share one link: as many as a number says, each with the one opposite.

        n1 --.              .-- n4
        n2 --- r1 ====== r2 --- n5          paths: n1-n4, n2-n5, n3-n6
        n3 --'              '-- n6

A dumbbell whose hosts do not all meet: with 100 hosts it has 50 paths, not 2500.
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
class PairsSection:
    """central: between the routers; edge: links of the hosts, without delay; nodes: hosts of both sides together."""
    central: BothWays = both_ways()
    edge: Access = fields.section(Access)
    nodes: int = fields.count(least=2, most=200)

    def __post_init__(self) -> None:
        if self.nodes % 2:
            raise fields.FieldError("nodes", f"an even number expected, not {self.nodes}: hosts come in pairs")


class Pairs(EmulatedTopo):
    """Left hosts first, then right ones."""

    Section = PairsSection

    def build(self, section: PairsSection) -> None:
        r1, r2 = self.router("r1", "left"), self.router("r2", "right")
        self.link(r1, r2, section.central.left_to_right, section.central.right_to_left, bottleneck=True,
                  a_is_left=True, names=("left_to_right", "right_to_left"))
        edge, half = section.edge.delayed(0), section.nodes // 2
        for number in range(1, section.nodes + 1):
            side, router = ("left", r1) if number <= half else ("right", r2)
            self.link(self.host(f"n{number}", side), router, edge, edge)
        for number in range(1, half + 1):
            self.path(f"n{number}", f"n{number + half}")


_CENTRAL = Link(rate_bps=10**8, delay_us=10_000, queue=Pfifo(kind="pfifo", limit=1000))
topos, LINKS = mininet_command.offer("pairs", Pairs, PairsSection(
    central=BothWays(left_to_right=_CENTRAL, right_to_left=_CENTRAL),
    edge=Access(rate_bps=10**9, queue=Pfifo(kind="pfifo", limit=10_000)), nodes=6))
