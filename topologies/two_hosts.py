# SPDX-License-Identifier: GPL-2.0-only
"""Two hosts and a switch, as in Mininet's own `--topo single,2`.

        n1 ====== s1 ====== n2          n1_to_s1, s1_to_n1, s1_to_n2, n2_to_s1

The switch is a bridge of the kernel: both hosts are in one network. Where both links are alike, what n1 sends waits in
its own queue, and not at the switch.
"""
import dataclasses
import os
import sys

if "__file__" not in globals():         # read by Mininet's `mn --custom`, which finds no module of ours by itself
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(sys._getframe().f_code.co_filename))))

from topologies.base import EmulatedTopo, mininet_command
from topologies.links.link import BothWays, Link, both_ways
from topologies.queues.pfifo import Pfifo


@dataclasses.dataclass(frozen=True)
class TwoHostsSection:
    """left: the link of n1; right: of n2, by default like the left one. left_to_right is from n1 towards n2."""
    left: BothWays = both_ways()
    right: BothWays | None = both_ways(default=None)


class TwoHosts(EmulatedTopo):
    """The smallest network with a switch."""

    Section = TwoHostsSection

    def build(self, section: TwoHostsSection) -> None:
        left, switch, right = self.host("n1", "left"), self.switch("s1"), self.host("n2", "right")
        for one, other, link in ((left, switch, section.left), (switch, right, section.right or section.left)):
            self.link(one, other, link.left_to_right, link.right_to_left, bottleneck=True, a_is_left=True)
        self.path("n1", "n2")


_EITHER = Link(rate_bps=10**7, queue=Pfifo(kind="pfifo", limit=1000))
topos, LINKS = mininet_command.offer("two-hosts", TwoHosts, TwoHostsSection(
    left=BothWays(left_to_right=_EITHER, right_to_left=_EITHER)))
