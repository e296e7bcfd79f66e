# SPDX-License-Identifier: GPL-2.0-only
"""What raw/network.json says: nodes, links, paths, cells (docs/reference/run-folder.md).

`topologies.resolve` makes it, hosts put in what is theirs (topologies/links/end_hosts.py), the guest builds from it,
and probes, traffic, checks and analysis read it.
"""
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from testbed.core import ip
from testbed.core.record import Direction, ListOf, Perhaps, Record

#: of IP with what it carries; and headers of IPv6 and TCP with all options
_LARGEST_BYTES, _MOST_HEADERS_BYTES = 1 << 16, 40 + 60


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
    #: a host that passes on what is for others
    forwards: bool = False
    #: of hosts; None of other nodes
    initcwnd: int | None = None
    initial_ssthresh: int | None = None
    #: whether it acknowledges every segment at once
    quickack: bool = False
    gso: bool = True
    wakeup_cost_us: int = 0


class Opportunities(Record):
    """When a link with a trace may send: (time in us, how many full frames), again after each period."""
    times: Sequence[Sequence[int]]
    #: None: not before the end of the run
    period_us: int | None


class Change(Record):
    """An entry of a schedule: what is so from an instant on. What is None stays as it was."""
    at_us: int
    rate_bps: int | None = None
    delay_us: int | None = None
    loss_percent: float | None = None
    #: as the queue counts
    limit: int | None = None
    #: whether the link carries anything
    up: bool | None = None


class LossModel(Record):
    """Of kind gilbert-elliott: the shares; of kind periodic: every so many-th packet is lost."""
    kind: str
    to_bad_percent: float
    to_good_percent: float
    bad_loss_percent: float
    good_loss_percent: float
    every: int


class Jitter(Record):
    """A delay that differs by up to `spread_us` from packet to packet."""
    spread_us: int
    reordering: bool


class Reorder(Record):
    """A share of the packets arrives early; displacement: where that was given in packets."""
    share_percent: float
    early_us: int
    displacement: int | None = None


class Policer(Record):
    """A token bucket at the beginning of the wire."""
    rate_bps: int
    burst_bytes: int


class Retransmission(Record):
    """A data link that sends a lost frame again: a delay for each attempt."""
    loss_percent: float
    delay_us: int
    attempts: int


class Link(Direction):
    """One direction of a link. Rates are layer 2 (Ethernet header, no FCS)."""
    name: str
    direction: str
    device: str
    peer_device: str
    #: of the end that sends; empty at a switch
    address: str = ""
    mac: str = ""
    rate_bps: Annotated[int, (1, 10**15)]
    delay_us: int = 0
    loss_percent: Annotated[float, (0, 100)] = 0.0
    lose_segments: Sequence[int] = ()
    lose_copies: int = 1
    mtu_bytes: int = ip.MTU_BYTES
    #: the kind
    queue: str
    #: option: value, as tc spells the options; times in us, rates in bit/s
    queue_options: Mapping[str, int | float | bool | str]
    queue_traits: Sequence[str] = ()
    #: one of them is the limit as the queue counts it
    limit_packets: int | None = None
    limit_bytes: int | None = None
    capacity_packets: int
    capacity_bytes: int
    capacity_us: int
    bottleneck: bool = False
    #: of a bottleneck's device; 0 of others
    ifindex: int = 0
    # what its wire does beside its constant delay (topologies/links/impairments.py)
    loss_model = Perhaps(LossModel)
    duplicate_percent: float = 0.0
    jitter = Perhaps(Jitter)
    reorder = Perhaps(Reorder)
    policer = Perhaps(Policer)
    retransmission = Perhaps(Retransmission)
    shaper: bool = False
    # how it changes (topologies/links/varying.py)
    schedule = ListOf(Change, ())
    opportunities = Perhaps(Opportunities)
    #: of a link with a trace: its mean rate over the run
    trace_bps: int | None = None
    # of the hosts at its ends
    jitter_us: int
    coalescing_us: int
    packet_cost_us: int
    gso: bool = False
    gro: bool = False
    #: nobody cuts packets of many segments, all the way to the receiver
    uncut: bool = False

    @property
    def most_segments(self) -> int:
        """Of which a packet can be that nobody cut; 1 where packets are cut."""
        return _LARGEST_BYTES // (self.mtu_bytes - _MOST_HEADERS_BYTES) + 1 if self.uncut else 1

    @property
    def limit(self) -> int:
        """As the queue counts it."""
        found = self.limit_packets if self.limit_packets is not None else self.limit_bytes
        return int(self.queue_options["limit"]) if found is None else found


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
    #: (cell, sender, receiver) of each hop over the air there, and back
    air: Sequence[Sequence[str]] = ()
    air_back: Sequence[Sequence[str]] = ()


class Station(Record):
    """A radio of a node."""
    node: str
    device: str
    address: str
    mac: str
    x_mm: int
    y_mm: int


class Cell(Record):
    """A channel with its stations (topologies/wireless/radio.py)."""
    name: str
    standard: str
    rate_bps: int
    #: up to which frames are understood, and heard
    range_mm: int
    sense_mm: int
    #: of frames that are in range and met nobody else's
    loss_percent: float
    mtu_bytes: int
    #: that wait at the device of a station, where that has a queue
    queue_packets: int | None
    stations = ListOf(Station)


class Network(Record):
    """All of it."""
    ip_version: int = 4
    #: the least of all links
    mtu_bytes: int = ip.MTU_BYTES
    nodes = ListOf(Node)
    links = ListOf(Link)
    paths = ListOf(Path)
    cells = ListOf(Cell, ())

    def packet_bytes(self, crossed: Iterable[str] | None = None) -> int:
        """The largest packet that all links and radios carry, or the links of these names and all radios."""
        if crossed is None:
            return self.mtu_bytes
        names = set(crossed)
        return min([*(link.mtu_bytes for link in self.links if link.name in names),
                    *(cell.mtu_bytes for cell in self.cells)], default=ip.MTU_BYTES)

    def frame_bytes(self, crossed: Iterable[str] | None = None) -> int:
        """The same as a link counts it."""
        return self.packet_bytes(crossed) + ip.ETHERNET_BYTES

    def header_bytes(self) -> int:
        """Of IP."""
        return ip.header_bytes(self.ip_version)

    def more_bytes(self) -> int:
        """By how much the header is larger than that of IPv4."""
        return self.header_bytes() - ip.header_bytes()

    def segment_bytes(self, crossed: Iterable[str] | None = None) -> int:
        """Payload of a full TCP segment with time stamps."""
        return ip.segment_bytes(self.ip_version, self.packet_bytes(crossed))

    def datagram_bytes(self) -> int:
        """Payload of a full packet of UDP."""
        return ip.datagram_bytes(self.ip_version, self.packet_bytes())
