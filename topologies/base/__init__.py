# SPDX-License-Identifier: GPL-2.0-only
"""`EmulatedTopo`: what every topology of the testbed starts from.

A topology only says which hosts, routers, switches and links there are; addresses, static
routes, interface names and the numbering that probes rely on follow from that here.
What switches join is one network (a segment); any other link is a network of its own.
"""
import dataclasses
import itertools
from collections import deque
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import ClassVar

from mininet.topo import Topo

from testbed.core import fields, ip
from testbed.core.fields import FieldError
from topologies.links import impairments, records
from topologies.links.link import Link

# Probes tell bottlenecks' queues apart by interface index, which is not unique across
# namespaces: bottleneck interfaces get numbers from here on.
BOTTLENECK_IFINDEX = 1001
#: Linux: 15 characters for the name of an interface, one of them for the wire device's w
_LONGEST_DEVICE = 14
#: directions of a link whose first node is on the left
_DIRECTIONS = ("left_to_right", "right_to_left")
#: what a link has of the hosts at its ends, as long as nobody says otherwise (topologies/links/end_hosts.py)
PLAIN_ENDS = {"jitter_us": 0, "coalescing_us": 0, "packet_cost_us": 0, "gso": False, "gro": False}


_Network = IPv4Network | IPv6Network


class TopologyError(Exception):
    """A topology that cannot be built: a mistake in its file. The message says which."""


@dataclasses.dataclass
class Port:
    """One end of a link: interface `device` of `node`, sending over the link direction `name`.

    network: that of the link, as in routes; address: "" of a switch's; cell: of a radio, which is no end of a link.
    """
    node: str
    device: str
    network: str
    address: str
    mac: str
    link: Link
    name: str
    direction: str
    bottleneck: bool
    ifindex: int = 0
    cell: str = ""


@dataclasses.dataclass
class _Hop:
    """The way from a node to another: over how many links, by which port of its own to which next one, and
    the first port on it that has an address (None to a switch of one's own segment)."""
    links: int
    port: Port
    peer: Port
    gateway: Port | None


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
    `build(section)`, in which they use `host`, `router`, `switch`, `link` and `path`."""

    Section: ClassVar[type]
    #: versions of IP that it can have, the usual one first
    IP_VERSIONS: ClassVar[tuple[int, ...]] = ip.VERSIONS

    def __init__(self, section: object = None, ip_version: int = 4, until_us: int | None = None) -> None:
        """until_us: when runs end, for what links have of it."""
        self.ip_version = ip_version
        self._until_us = until_us
        self.port_pairs: list[tuple[Port, Port]] = []
        self.paths: list[Path] = []
        self._roles: dict[str, tuple[str, str]] = {}
        self._ports: dict[str, list[tuple[Port, Port]]] = {}
        self._networks: dict[str, list[Port]] = {}
        self._routing: dict[str, dict[str, _Hop]] = {}        # _first_hops of each node
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

    def switch(self, name: str, side: str = "") -> str:
        """Add a switch: a bridge, without an address, that joins its links to one network."""
        self._roles[name] = ("switch", side)
        return str(self.addHost(name))

    def link(self, a: str, b: str, a_to_b: Link, b_to_a: Link, *, bottleneck: bool = False,
             a_is_left: bool = False, names: tuple[str, str] | None = None) -> None:
        """Connect nodes `a` and `b`.

        bottleneck: its queues are measured and sampled; a_is_left: the link has a direction, and `a`
        is its left end; names of the two directions: by default `a_to_b` and `b_to_a`.
        """
        index = len(self.port_pairs)
        network, addresses = self._network_for(a, b)
        measured = sum(port.bottleneck for pair in self.port_pairs for port in pair)
        ends = []
        for number, (node, egress) in enumerate(((a, a_to_b), (b, b_to_a))):
            device = f"{node}-eth{sum(not port.cell for port, _ in self.ports_of(node))}"
            if len(device) > _LONGEST_DEVICE:
                raise TopologyError(f"{device} is too long for the name of an interface")
            address = "" if self.role(node) == "switch" else str(next(addresses))
            ends.append(Port(node, device, str(network), address,
                             f"02:00:00:{index >> 8:02x}:{index & 255:02x}:{number + 1:02x}", egress,
                             name=names[number] if names else f"{node}_to_{(b, a)[number]}",
                             direction=_DIRECTIONS[number] if a_is_left else "", bottleneck=bottleneck,
                             ifindex=BOTTLENECK_IFINDEX + measured + number if bottleneck else 0))
        known = {port.name for pair in self.port_pairs for port in pair}
        if known & {port.name for port in ends} or ends[0].name == ends[1].name:
            raise TopologyError(f"two link directions are called {ends[0].name} or {ends[1].name}")
        self.port_pairs.append((ends[0], ends[1]))
        self._networks.setdefault(str(network), []).extend(ends)
        for one, other in ((ends[0], ends[1]), (ends[1], ends[0])):
            self._ports.setdefault(one.node, []).append((one, other))
        self._routing.clear()
        known_to_mininet: dict[str, object] = {}
        for number, (port, peer) in enumerate(((ends[0], ends[1]), (ends[1], ends[0])), start=1):
            known_to_mininet |= {
                f"port{number}": int(port.device.rsplit("eth", 1)[1]), f"addr{number}": port.mac,
                f"params{number}": {"ip": ip.with_prefix(port.address) if port.address else None,
                                    "out": describe_link(port, peer, self._until_us),
                                    "back": describe_link(peer, port, self._until_us)}}
        self.addLink(a, b, **known_to_mininet)

    def _network_for(self, a: str, b: str) -> tuple[_Network, Iterator[IPv4Address | IPv6Address]]:
        """The network of a link to be made between two nodes: their switches', or its own; its free addresses."""
        joined = {port.network for node in (a, b) if self.role(node) == "switch" for port, _ in self.ports_of(node)}
        if len(joined) > 1:
            raise TopologyError(f"{a} and {b} have hosts already: join switches first")
        number = len(self.port_pairs) + 1
        name = joined.pop() if joined else ip.link_network(self.ip_version, number)
        network = ip_network(name)
        used = sum(bool(port.address) for port in self._networks.get(name, ()))
        most = network.num_addresses - 2
        if used + sum(self.role(node) != "switch" for node in (a, b)) > most:
            raise TopologyError(f"{a}-{b}: more than {most} hosts and routers at one switch")
        return network, itertools.islice(network.hosts(), used, None)

    def path(self, initiator: str, acceptor: str) -> None:
        """Declare that traffic runs between two hosts; its base RTT follows from the links."""
        there = [port for port in self._hops(initiator, acceptor) if not port.cell]
        back = [port for port in self._hops(acceptor, initiator) if not port.cell]
        rtt_us = sum(port.link.delay_us for port in there + back)
        self.paths.append(Path(initiator, acceptor, rtt_us, [p.name for p in there], [p.name for p in back]))

    # -- what follows from it --------------------------------------------------

    def role(self, node: str) -> str:
        """'host', 'router' or 'switch'."""
        return self._roles[node][0]

    def forwards(self, node: str) -> bool:
        """Whether a node passes on what is for others."""
        return self.role(node) != "host"

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

        Hosts have a default route, and behind a switch one to each other host there; routers have one route to every
        network they are not on, switches none.
        """
        role = self.role(node)
        if role == "switch":
            return []
        own = list(self.ports_of(node))
        if role == "host":
            return self._routes_of_host(own[0]) if own else []
        return self._routes_of_router(node)

    def _routes_of_router(self, node: str) -> list[tuple[str, str, str]]:
        """One route to every network that a node is not on."""
        first_hop, on = self._first_hops(node), {port.network for port, _ in self.ports_of(node)}
        routes = []
        for network, ports in self._networks.items():
            if network in on:
                continue
            reachable = [first_hop[port.node] for port in ports if port.node in first_hop]
            if not reachable:
                raise TopologyError(f"{node} cannot reach the link {ports[0].node}-{ports[1].node}")
            nearest = min(reachable, key=lambda hop: hop.links)
            assert nearest.gateway is not None          # only on its own networks there is none
            routes.append((network, nearest.gateway.address, nearest.port.device))
        return routes

    def _routes_of_host(self, own: tuple[Port, Port]) -> list[tuple[str, str, str]]:
        """By the first port of a host."""
        port, peer = own
        if peer.address:
            return [("default", peer.address, port.device)]
        others = [other for other in self._networks[port.network] if other.address and other is not port]
        routers = [other for other in others if self.role(other.node) == "router"]
        return [*((ip.alone(other.address), other.address, port.device) for other in others if other not in routers),
                *(("default", other.address, port.device) for other in routers[:1])]

    def _behind_switches(self, node: str) -> dict[str, list[list[str]]]:
        """What a node has to know of the network that switches make, so that nobody has to ask or to learn."""
        if self.role(node) == "switch":
            first_hop = self._first_hops(node)
            return {"forwarding": [[other.mac, first_hop[other.node].port.device]
                                   for network in {port.network for port, _ in self.ports_of(node)}
                                   for other in self._networks[network] if other.address]}
        found = [[other.address, other.mac, port.device] for port, peer in self.ports_of(node) if not peer.address
                 for other in self._networks[port.network] if other.address and other is not port]
        found += [[peer.address, peer.mac, port.device] for port, peer in self.ports_of(node) if port.cell]
        return {"neighbours": found} if found else {}

    def describe(self) -> records.Network:
        """The network as `raw/network.json` holds it."""
        self._check_mtus()
        least = min((port.link.mtu for pair in self.port_pairs for port in pair), default=ip.MTU_BYTES)
        return records.Network({
            **({"ip_version": self.ip_version} if self.ip_version != 4 else {}),
            **({"mtu_bytes": least} if least != ip.MTU_BYTES else {}),
            "nodes": [{"name": name, "role": role, "side": side,
                       "addresses": list(dict.fromkeys(
                           port.address for port, _ in self.ports_of(name) if port.address)),
                       "routes": [list(route) for route in self.routes_of(name)], **self._behind_switches(name)}
                      for name, (role, side) in self._roles.items()],
            "links": [describe_link(port, peer, self._until_us).content()
                      for pair in self.port_pairs for port, peer in (pair, pair[::-1])],
            "paths": [{"source": number, "initiator": path.initiator, "acceptor": path.acceptor,
                       "initiator_address": self.address_of(path.initiator),
                       "acceptor_address": self.address_of(path.acceptor),
                       "base_rtt_us": path.base_rtt_us, "hops": path.hops, "hops_back": path.hops_back}
                      for number, path in enumerate(self.paths)],
        })

    def _check_mtus(self) -> None:
        """FieldError if packets of a link could not be had over it, or not passed on and nobody told."""
        least = ip.LEAST_MTU_BYTES[self.ip_version]
        for pair in self.port_pairs:
            if pair[0].link.mtu < least:
                raise FieldError("mtu", f"{pair[0].name}: at least {least} B over IPv{self.ip_version} expected, not "
                                        f"{pair[0].link.mtu} B")
            if pair[0].link.mtu != pair[1].link.mtu:
                raise TopologyError(f"{pair[0].name} and {pair[1].name}: both ends of a link have one MTU")
        links = {port.name: port.link for pair in self.port_pairs for port in pair}
        for path in self.paths:
            smallest = min((links[name].mtu for name in (*path.hops, *path.hops_back)), default=ip.MTU_BYTES)
            for name in (*path.hops, *path.hops_back):
                if links[name].lose_segments and links[name].mtu > smallest:
                    raise FieldError("lose_segments", f"{name}: full segments from {path.initiator} to {path.acceptor} "
                                                      f"have {smallest} B, not the {links[name].mtu} B of this link")
        for node, (role, _) in self._roles.items():
            if role == "switch" and len(mtus := {port.link.mtu for port, _ in self.ports_of(node)}) > 1:
                raise FieldError("mtu", f"{node}: links of {' and '.join(map(str, sorted(mtus)))} B meet at a switch, "
                                        "which tells nobody of packets that are too large; one MTU expected")

    def nodeInfo(self, name: str) -> dict[str, object]:
        """What Mininet makes a node of when it builds the network itself (topologies/base/mininet_command.py)."""
        from topologies.base import mininet_command
        if self.role(name) == "switch":
            return {"cls": mininet_command.BridgeNode, "ip": None, **self._behind_switches(name)}
        return {"cls": mininet_command.RoutedNode, "ip": ip.with_prefix(self.address_of(name)),
                "routes": self.routes_of(name),
                "forwards": self.role(name) == "router", **self._behind_switches(name)}

    # -- routing -------------------------------------------------------------------

    def _first_hops(self, node: str) -> dict[str, _Hop]:
        """{other node: the way there} along shortest paths."""
        if node in self._routing:
            return self._routing[node]
        reached: dict[str, _Hop] = {}
        queue = deque((peer, _Hop(1, port, peer, None)) for port, peer in self.ports_of(node))
        while queue:
            at, hop = queue.popleft()
            if at.node == node or at.node in reached:
                continue
            hop = dataclasses.replace(hop, gateway=hop.gateway or (at if at.address else None))
            reached[at.node] = hop
            if self.forwards(at.node):
                further = dataclasses.replace(hop, links=hop.links + 1)
                queue.extend((peer, further) for _, peer in self.ports_of(at.node))
        self._routing[node] = reached
        return reached

    def _hops(self, source: str, target: str) -> list[Port]:
        """Sending ports along the shortest path."""
        return [port for port, _ in self._hop_pairs(source, target)]

    def _hop_pairs(self, source: str, target: str) -> list[tuple[Port, Port]]:
        """Sending and receiving ports along the shortest path."""
        hops, at = [], source
        while at != target:
            first = self._first_hops(at)
            if target not in first:
                raise TopologyError(f"no path from {source} to {target}")
            hops.append((first[target].port, first[target].peer))
            at = first[target].peer.node
        return hops


def describe_link(port: Port, peer: Port, until_us: int | None = None) -> records.Link:
    """A direction of a link as network.json has it."""
    link: dict[str, object] = {
        name: value for name, value in fields.encode(port.link).items()
        if name not in ("queue", "schedule", "trace", "mtu_bytes")}
    if port.link.mtu != ip.MTU_BYTES:
        link["mtu_bytes"] = port.link.mtu
    link |= impairments.record(port.link)
    return records.Link({
        "name": port.name, "from": port.node, "to": peer.node, "direction": port.direction,
        "device": port.device, "peer_device": peer.device, "address": port.address, "mac": port.mac,
        **link, **port.link.during(until_us),
        "bottleneck": port.bottleneck, "ifindex": port.ifindex, **PLAIN_ENDS})
