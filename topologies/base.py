# SPDX-License-Identifier: GPL-2.0-only
"""`EmulatedTopo`: what every topology of the testbed starts from.

A topology only says which hosts, routers and links there are; addresses, static
routes, interface names and the numbering that probes rely on follow from that here.
"""
import dataclasses
from collections import deque
from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Any, ClassVar

from mininet.topo import Topo

from testbed import fields
from topologies import impairments
from topologies.link import Link

# Probes tell bottlenecks' queues apart by interface index, which is not unique across
# namespaces: bottleneck interfaces get numbers from here on.
BOTTLENECK_IFINDEX = 1001
#: Linux: 15 characters for the name of an interface, one of them for the wire device's w
_LONGEST_DEVICE = 14
#: directions of a link whose first node is on the left
_DIRECTIONS = ("left_to_right", "right_to_left")
#: what a link has of the hosts at its ends, as long as nobody says otherwise (topologies/end_hosts.py)
PLAIN_ENDS = {"jitter_us": 0, "coalescing_us": 0, "packet_cost_us": 0, "gro": False}


class TopologyError(Exception):
    """A topology that cannot be built: a mistake in its file. The message says which."""


@dataclasses.dataclass
class Port:
    """One end of a link: interface `device` of `node`, sending over the link direction `name`."""
    node: str
    device: str
    address: str
    mac: str
    link: Link
    name: str
    direction: str
    bottleneck: bool
    ifindex: int = 0


@dataclasses.dataclass
class Path:
    """A pair of hosts between which traffic flows; RTT without queues or serialisation."""
    initiator: str
    acceptor: str
    base_rtt_us: int
    hops: list[str]             # names of the link directions there ...
    hops_back: list[str]        # ... and back


class EmulatedTopo(Topo):           # type: ignore[misc]
    """Base of all topologies. Subclasses name the dataclass of their `Section` and override
    `build(section)`, in which they use `host`, `router`, `link` and `path`."""

    Section: ClassVar[Any]

    def __init__(self, section: Any = None) -> None:
        self.port_pairs: list[tuple[Port, Port]] = []
        self.paths: list[Path] = []
        self._roles: dict[str, tuple[str, str]] = {}
        self._ports: dict[str, list[tuple[Port, Port]]] = {}
        self._routing: dict[str, dict[str, tuple[int, Port, Port]]] = {}        # _first_hops of each node
        super().__init__(section)

    # -- what subclasses call ------------------------------------------------

    def host(self, name: str, side: str = "") -> str:
        """Add an end host."""
        self._roles[name] = ("host", side)
        return str(self.addHost(name))

    def router(self, name: str, side: str = "") -> str:
        """Add a router: a node that forwards."""
        self._roles[name] = ("router", side)
        return str(self.addHost(name))

    def link(self, a: str, b: str, a_to_b: Link, b_to_a: Link, *, bottleneck: bool = False,
             a_is_left: bool = False, names: tuple[str, str] | None = None) -> None:
        """Connect nodes `a` and `b`.

        bottleneck: its queues are measured and sampled; a_is_left: the link has a direction, and `a`
        is its left end; names of the two directions: by default `a_to_b` and `b_to_a`.
        """
        index = len(self.port_pairs)
        network = IPv4Network("10.0.0.0/8").network_address + (index + 1) * 256
        measured = sum(port.bottleneck for pair in self.port_pairs for port in pair)
        ends = []
        for number, (node, egress) in enumerate(((a, a_to_b), (b, b_to_a))):
            device = f"{node}-eth{len(self._ports.get(node, ()))}"
            if len(device) > _LONGEST_DEVICE:
                raise TopologyError(f"{device} is too long for the name of an interface")
            ends.append(Port(node, device, str(network + number + 1),
                             f"02:00:00:{index >> 8:02x}:{index & 255:02x}:{number + 1:02x}", egress,
                             name=names[number] if names else f"{node}_to_{(b, a)[number]}",
                             direction=_DIRECTIONS[number] if a_is_left else "", bottleneck=bottleneck,
                             ifindex=BOTTLENECK_IFINDEX + measured + number if bottleneck else 0))
        known = {port.name for pair in self.port_pairs for port in pair}
        if known & {port.name for port in ends} or ends[0].name == ends[1].name:
            raise TopologyError(f"two link directions are called {ends[0].name} or {ends[1].name}")
        self.port_pairs.append((ends[0], ends[1]))
        for one, other in ((ends[0], ends[1]), (ends[1], ends[0])):
            self._ports.setdefault(one.node, []).append((one, other))
        self._routing.clear()
        known_to_mininet: dict[str, Any] = {}
        for number, (port, peer) in enumerate(((ends[0], ends[1]), (ends[1], ends[0])), start=1):
            known_to_mininet |= {
                f"port{number}": int(port.device.rsplit("eth", 1)[1]), f"addr{number}": port.mac,
                f"params{number}": {"ip": f"{port.address}/24", "out": describe_link(port, peer),
                                    "back": describe_link(peer, port)}}
        self.addLink(a, b, **known_to_mininet)

    def path(self, initiator: str, acceptor: str) -> None:
        """Declare that traffic runs between two hosts; its base RTT follows from the links."""
        there = self._hops(initiator, acceptor)
        back = self._hops(acceptor, initiator)
        rtt_us = sum(port.link.delay_us for port in there + back)
        self.paths.append(Path(initiator, acceptor, rtt_us, [p.name for p in there], [p.name for p in back]))

    # -- what follows from it --------------------------------------------------

    def role(self, node: str) -> str:
        """'host' or 'router'."""
        return self._roles[node][0]

    def address_of(self, node: str) -> str:
        """The address by which a node is known: that of its first interface."""
        for port, _ in self.ports_of(node):
            return port.address
        raise TopologyError(f"{node} has no link")

    def ports_of(self, node: str) -> Iterator[tuple[Port, Port]]:
        """Pairs (own Port, peer Port) of a node, in the order the links were added."""
        yield from self._ports.get(node, ())

    def routes_of(self, node: str) -> list[tuple[str, str, str]]:
        """Static routes of a node: list of (network, next hop address, device).

        Hosts have a default route; routers one route to every network they are not on.
        """
        own = list(self.ports_of(node))
        if self.role(node) == "host":
            return [("default", peer.address, port.device) for port, peer in own[:1]]
        first_hop = self._first_hops(node)
        routes = []
        for pair in self.port_pairs:
            if node in (pair[0].node, pair[1].node):
                continue
            reachable = [first_hop[p.node] for p in pair if p.node in first_hop]
            if not reachable:
                raise TopologyError(f"{node} cannot reach the link {pair[0].node}-{pair[1].node}")
            _, port, peer = min(reachable, key=lambda hop: hop[0])
            network = pair[0].address.rsplit(".", 1)[0] + ".0/24"
            routes.append((network, peer.address, port.device))
        return routes

    def describe(self) -> dict[str, Any]:
        """The network as a dictionary, as `raw/network.json` holds it."""
        return {
            "nodes": [{"name": name, "role": role, "side": side,
                       "addresses": [port.address for port, _ in self.ports_of(name)],
                       "routes": [list(route) for route in self.routes_of(name)]}
                      for name, (role, side) in self._roles.items()],
            "links": [describe_link(port, peer) for pair in self.port_pairs for port, peer in (pair, pair[::-1])],
            "paths": [{"source": number, "initiator": path.initiator, "acceptor": path.acceptor,
                       "initiator_address": self.address_of(path.initiator),
                       "acceptor_address": self.address_of(path.acceptor),
                       "base_rtt_us": path.base_rtt_us, "hops": path.hops, "hops_back": path.hops_back}
                      for number, path in enumerate(self.paths)],
        }

    def nodeInfo(self, name: str) -> dict[str, Any]:
        """What Mininet makes a node of when it builds the network itself (topologies/mn.py)."""
        from topologies import mn
        return {"cls": mn.RoutedNode, "ip": f"{self.address_of(name)}/24", "routes": self.routes_of(name),
                "forwards": self.role(name) == "router"}

    # -- routing -------------------------------------------------------------------

    def _first_hops(self, node: str) -> dict[str, tuple[int, Port, Port]]:
        """{other node: (number of hops, own Port, next Port)} along shortest paths."""
        if node in self._routing:
            return self._routing[node]
        reached: dict[str, tuple[int, Port, Port]] = {}
        queue = deque((peer.node, 1, port, peer) for port, peer in self.ports_of(node))
        while queue:
            at, hops, port, peer = queue.popleft()
            if at == node or at in reached:
                continue
            reached[at] = (hops, port, peer)
            if self.role(at) == "router":
                queue.extend((p.node, hops + 1, port, peer) for _, p in self.ports_of(at))
        self._routing[node] = reached
        return reached

    def _hops(self, source: str, target: str) -> list[Port]:
        """Sending ports along the shortest path."""
        hops, at = [], source
        while at != target:
            first = self._first_hops(at)
            if target not in first:
                raise TopologyError(f"no path from {source} to {target}")
            _, port, peer = first[target]
            hops.append(port)
            at = peer.node
        return hops


def describe_link(port: Port, peer: Port) -> dict[str, Any]:
    link = {name: value for name, value in fields.encode(port.link).items()
            if name not in ("queue", "schedule", "trace")}
    link |= impairments.record(port.link)
    if changes := port.link.changes():
        link["schedule"] = changes
    if opportunities := port.link.opportunities():
        link["opportunities"] = opportunities
    return {"name": port.name, "from": port.node, "to": peer.node, "direction": port.direction,
            "device": port.device, "peer_device": peer.device, "address": port.address, "mac": port.mac,
            **link, **port.link.queue.describe(port.link.rate_bps),
            "bottleneck": port.bottleneck, "ifindex": port.ifindex, **PLAIN_ENDS}
