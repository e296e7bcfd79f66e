# SPDX-License-Identifier: GPL-2.0-only
"""The parking lot: routers in a row, every link between them a bottleneck.

        n1  n2      n3  n4      n5  n6      n7  n8
          \\ |        | /         \\ |        | /
           r1 ====== r2 ======== r3 ======== r4          paths: n1-n8, n2-n3, n4-n5, n6-n7

Long paths cross several bottlenecks and share each with cross traffic of its own: the multi-bottleneck
topology of the Common TCP Evaluation Suite (draft-irtf-iccrg-tcpeval-01) and of studies of max-min
fairness. A path is an initiator and an acceptor; where the initiator is left of the acceptor, the
direction of the acceptor's data is `right_to_left`. Links are called r1_to_r2, r2_to_r1, ...
"""
import dataclasses
import os
import sys

if "__file__" not in globals():         # read by Mininet's `mn --custom`, which finds no module of ours by itself
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(sys._getframe().f_code.co_filename))))

from testbed.core import fields
from testbed.core.fields import FieldError
from topologies.base import EmulatedTopo, mininet_command
from topologies.links.impairments import MOST_DELAY_US
from topologies.links.link import Access, BothWays, Link, both_ways
from topologies.queues.pfifo import Pfifo


@dataclasses.dataclass(frozen=True)
class Host:
    """A host: at which router it is, counted from the left, and the one-way delay of its access link."""
    router: int = fields.count(least=1)
    delay_us: int = fields.time(default=0, most=MOST_DELAY_US)


@dataclasses.dataclass(frozen=True)
class ParkingLotSection:
    """links: those between the routers, from left to right, each a link or one per direction; hosts are
    called n1, n2, ... in the order of the list; paths: initiator-acceptor."""
    links: tuple[BothWays, ...] = fields.listing(both_ways(), least=1, most=50)
    access: Access = fields.section(Access)
    hosts: tuple[Host, ...] = fields.listing(fields.section(Host), least=2, most=200)
    paths: tuple[str, ...] = fields.listing(fields.word(pattern=r"n[1-9][0-9]*-n[1-9][0-9]*", example="n1-n8"),
                                            least=1, most=1000, distinct=True)

    def __post_init__(self) -> None:
        for number, host in enumerate(self.hosts, start=1):
            if host.router > len(self.links) + 1:
                raise FieldError(f"hosts.{number}.router", f"there is no router {host.router}: {len(self.links)} links "
                                                           f"join {len(self.links) + 1}")
        for path in self.paths:
            ends = path.split("-")
            for end in ends:
                if int(end[1:]) > len(self.hosts):
                    raise FieldError("paths", f"{path}: there is no host {end}, the last is n{len(self.hosts)}")
            if ends[0] == ends[1]:
                raise FieldError("paths", f"{path}: two different hosts expected")


class ParkingLot(EmulatedTopo):
    """As many routers as wanted in a row, any hosts at them, any paths between these."""

    Section = ParkingLotSection

    def build(self, section: ParkingLotSection) -> None:
        routers = [self.router(f"r{number}") for number in range(1, len(section.links) + 2)]
        for left, right, link in zip(routers, routers[1:], section.links):
            self.link(left, right, link.left_to_right, link.right_to_left, bottleneck=True, a_is_left=True)
        for number, host in enumerate(section.hosts, start=1):
            access = section.access.delayed(host.delay_us)
            self.link(self.host(f"n{number}"), routers[host.router - 1], access, access)
        for path in section.paths:
            initiator, acceptor = path.split("-")
            self.path(initiator, acceptor)


_BETWEEN = Link(rate_bps=10**8, delay_us=10_000, queue=Pfifo(kind="pfifo", limit_us=50_000))
# the suite's multiple bottlenecks: all round trips take 60 ms
topos, LINKS = mininet_command.offer("parking-lot", ParkingLot, ParkingLotSection(
    links=(BothWays(left_to_right=_BETWEEN, right_to_left=_BETWEEN),) * 3,
    access=Access(rate_bps=10**9, queue=Pfifo(kind="pfifo", limit=10_000)),
    hosts=tuple(Host(router=router, delay_us=10_000 * (host not in (1, 8)))
                for host, router in enumerate((1, 1, 2, 2, 3, 3, 4, 4), start=1)),
    paths=("n1-n8", "n2-n3", "n4-n5", "n6-n7")))
