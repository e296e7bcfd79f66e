# SPDX-License-Identifier: GPL-2.0-only
"""A chain: routers in a row, each link between them its own, hosts at either end.

        n1 --.                      .-- n3
              r1 ==== r2 ==== r3               r1_to_r2, r2_to_r1, r2_to_r3, ...
        n2 --'                      '-- n4

Every left host is paired with every right host: all paths cross all links. With hosts anywhere it is a parking lot.
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
class ChainSection:
    """links: those between the routers, from left to right, each a link or one per direction; edge: of all hosts;
    the lists of delays: one-way, of each host's edge link."""
    links: tuple[BothWays, ...] = fields.listing(both_ways(), least=1, most=50)
    edge: Access = fields.section(Access)
    left_delays_us: tuple[int, ...] = fields.listing(fields.time(most=MOST_DELAY_US), default=(0,), least=1, most=100)
    right_delays_us: tuple[int, ...] = fields.listing(fields.time(most=MOST_DELAY_US), default=(0,), least=1, most=100)


class Chain(EmulatedTopo):
    """As many routers as wanted, any number of hosts a side."""

    Section = ChainSection

    def build(self, section: ChainSection) -> None:
        routers = [self.router(f"r{number}") for number in range(1, len(section.links) + 2)]
        for left, right, link in zip(routers, routers[1:], section.links):
            self.link(left, right, link.left_to_right, link.right_to_left, bottleneck=True, a_is_left=True)
        hosts: dict[str, list[str]] = {"left": [], "right": []}
        for side, router, delays_us in (("left", routers[0], section.left_delays_us),
                                        ("right", routers[-1], section.right_delays_us)):
            for delay_us in delays_us:
                edge = section.edge.delayed(delay_us)
                hosts[side].append(self.host(f"n{sum(map(len, hosts.values())) + 1}", side))
                self.link(hosts[side][-1], router, edge, edge)
        for initiator in hosts["left"]:
            for acceptor in hosts["right"]:
                self.path(initiator, acceptor)


_BETWEEN = Link(rate_bps=10**8, delay_us=10_000, queue=Pfifo(kind="pfifo", limit=100))
topos, LINKS = mininet_command.offer("chain", Chain, ChainSection(
    links=(BothWays(left_to_right=_BETWEEN, right_to_left=_BETWEEN),) * 3,
    edge=Access(rate_bps=10**9, queue=Pfifo(kind="pfifo", limit=10_000))))
