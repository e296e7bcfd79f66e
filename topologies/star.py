# SPDX-License-Identifier: GPL-2.0-only
"""A star: hosts around one router, all of which send to the one behind the bottleneck (incast).

        n2 --.
        n3 --- r1 ====== n1             paths: n2-n1, n3-n1, ...
        n4 --'

The data of initiators go `left_to_right`, to n1; what n1 answers goes `right_to_left`.
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
class StarSection:
    """receiver: the link of n1, one section or one per direction; delays: one-way delay of each sender's link."""
    receiver: BothWays = both_ways()
    edge: Access = fields.section(Access)
    delays_us: tuple[int, ...] = fields.listing(fields.time(most=MOST_DELAY_US), least=1, most=200)


class Star(EmulatedTopo):
    """As many senders as wanted, each with its own one-way delay."""

    Section = StarSection

    def build(self, section: StarSection) -> None:
        router, receiver = self.router("r1"), self.host("n1", "right")
        self.link(router, receiver, section.receiver.left_to_right, section.receiver.right_to_left, bottleneck=True,
                  a_is_left=True, names=("left_to_right", "right_to_left"))
        for number, delay_us in enumerate(section.delays_us, start=2):
            edge = section.edge.delayed(delay_us)
            sender = self.host(f"n{number}", "left")
            self.link(sender, router, edge, edge)
            self.path(sender, receiver)


_RECEIVER = Link(rate_bps=10**9, delay_us=10, queue=Pfifo(kind="pfifo", limit=100))
topos, LINKS = mininet_command.offer("star", Star, StarSection(
    receiver=BothWays(left_to_right=_RECEIVER, right_to_left=_RECEIVER),
    edge=Access(rate_bps=10**10, queue=Pfifo(kind="pfifo", limit=10_000)), delays_us=(10,) * 8))
