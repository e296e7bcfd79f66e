# SPDX-License-Identifier: GPL-2.0-only
"""What raw/network.json says: nodes, links, paths, cells (docs/reference/run-folder.md).

`topologies.resolve` makes it, hosts put in what is theirs (topologies/links/end_hosts.py), the guest builds from it,
and probes, traffic, checks and analysis read it.
"""
from collections.abc import Mapping, Sequence

from testbed.core import ip
from testbed.core.record import Record


class Node(Record):
    """A host, a router or a switch."""
    name: str
    role: str
    side: str = ""
    addresses: Sequence[str] = ()
    #: (network, address of the next hop, device)
    routes: Sequence[Sequence[str]] = ()
    #: behind a switch or on the air: (address, MAC, device)
    neighbours: Sequence[Sequence[str]] = ()
    #: of a switch: (MAC, device)
    forwarding: Sequence[Sequence[str]] = ()
    #: of hosts; None of other nodes
    initcwnd: int | None = None
    initial_ssthresh: int | None = None
    gso: bool = True
    wakeup_cost_us: int = 0


class Opportunities(Record):
    """When a link with a trace may send: (time in us, how many full frames), again after each period."""
    times: Sequence[Sequence[int]]
    period_us: int | None


class Link(Record):
    """One direction of a link. Rates are layer 2 (Ethernet header, no FCS)."""
    name: str
    direction: str
    device: str
    peer_device: str
    address: str = ""
    mac: str = ""
    rate_bps: int
    delay_us: int = 0
    loss_percent: float = 0.0
    lose_segments: Sequence[int] = ()
    lose_copies: int = 1
    mtu_bytes: int = ip.MTU_BYTES
    #: the kind
    queue: str
    queue_options: Mapping[str, int | float | bool | str]
    queue_traits: Sequence[str] = ()
    limit_packets: int | None = None
    limit_bytes: int | None = None
    capacity_packets: int | None = None
    capacity_bytes: int | None = None
    capacity_us: int | None = None
    bottleneck: bool = False
    ifindex: int = 0
    # of the hosts at its ends
    jitter_us: int = 0
    coalescing_us: int = 0
    packet_cost_us: int = 0
    gso: bool = False
    gro: bool = False
    #: of a link with a trace: its mean rate over the run
    trace_bps: int | None = None

    @property
    def from_node(self) -> str:
        """The node that sends."""
        return str(vars(self)["from"])

    @property
    def to_node(self) -> str:
        """The node that receives."""
        return str(vars(self)["to"])


class Path(Record):
    """Two hosts between which traffic flows."""
    source: int
    initiator: str
    acceptor: str
    initiator_address: str
    acceptor_address: str
    #: without queues or serialisation
    base_rtt_us: int
    #: names of the link directions there, and back
    hops: Sequence[str]
    hops_back: Sequence[str]


class Network(Record):
    """All of it."""
    ip_version: int = 4
    #: the least of all links
    mtu_bytes: int = ip.MTU_BYTES
    nodes: Sequence[Node]
    links: Sequence[Link]
    paths: Sequence[Path]

    def __init__(self, content: Mapping[str, object], file: str = "") -> None:
        super().__init__(content, file)
        self._make(nodes=Node, links=Link, paths=Path)
