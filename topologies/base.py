# SPDX-License-Identifier: GPL-2.0-only
"""`EmulatedTopo`: what every topology of the testbed starts from.

A topology only says which hosts, routers and links there are; addresses, static
routes, interface names and the numbering that probes rely on follow from that here.
"""
from collections import deque
from dataclasses import dataclass, replace
from ipaddress import IPv4Network

from mininet.topo import Topo

# Probes tell the central link's two queues apart by interface index, which is not
# unique across namespaces: bottleneck interfaces get numbers from here on.
BOTTLENECK_IFINDEX = 1001


class TopologyError(Exception):
    """A topology that does not exist or cannot be built; the message says why."""


@dataclass
class Port:
    """One end of a link: interface `device` of `node`, sending as `egress` says."""
    node: str
    device: str
    address: str
    mac: str
    egress: object
    ifindex: int = 0

    @property
    def wire_device(self):
        """Name of the IFB that carries what arrives at this port."""
        return "w" + self.device


@dataclass
class Path:
    """A pair of hosts between which traffic flows; RTT without queues or serialisation."""
    initiator: str
    acceptor: str
    base_rtt_us: int
    hops: list                  # names of the link directions there ...
    hops_back: list             # ... and back


class EmulatedTopo(Topo):
    """Base of all topologies. Subclasses override `build(**parameters)` and use
    `host`, `router`, `link` and `path`."""

    def __init__(self, **params):
        self.port_pairs = []          # pairs (Port, Port), one per link
        self.paths = []
        self._roles = {}
        super().__init__(**params)

    # -- what subclasses call ------------------------------------------------

    def host(self, name, side=""):
        """Add an end host."""
        self._roles[name] = ("host", side)
        return self.addHost(name)

    def router(self, name, side=""):
        """Add a router: a node that forwards."""
        self._roles[name] = ("router", side)
        return self.addHost(name)

    def link(self, a, b, a_to_b, b_to_a):
        """Connect nodes `a` and `b`; each direction is a `LinkDirection`."""
        index = len(self.port_pairs)
        network = IPv4Network("10.0.0.0/8").network_address + (index + 1) * 256
        ends = []
        for number, (node, egress) in enumerate(((a, a_to_b), (b, b_to_a)), start=1):
            device = f"{node}-eth{sum(node in (p.node for p in pair) for pair in self.port_pairs)}"
            if not egress.name:
                egress = replace(egress, name=f"{node}_to_{(b, a)[number - 1]}")
            ends.append(Port(node, device, str(network + number),
                             f"02:00:00:{index >> 8:02x}:{index & 255:02x}:{number:02x}", egress))
        for port in ends:
            if port.egress.bottleneck:
                port.ifindex = BOTTLENECK_IFINDEX + sum(
                    p.egress.bottleneck and p.ifindex > 0 for pair in self.port_pairs + [ends] for p in pair)
        self.port_pairs.append(tuple(ends))
        self.addLink(a, b, port1=int(ends[0].device.rsplit("eth", 1)[1]),
                     port2=int(ends[1].device.rsplit("eth", 1)[1]), ends=tuple(ends))

    def path(self, initiator, acceptor):
        """Declare that traffic runs between two hosts; its base RTT follows from the links."""
        there = self._hops(initiator, acceptor)
        back = self._hops(acceptor, initiator)
        rtt_us = sum(p.egress.delay_us for p in there + back)
        self.paths.append(Path(initiator, acceptor, rtt_us, [p.egress.name for p in there],
                               [p.egress.name for p in back]))

    # -- what the builder asks -------------------------------------------------

    def role(self, node):
        """'host' or 'router'."""
        return self._roles[node][0]

    def address_of(self, node):
        """The address by which a node is known: that of its first interface."""
        for pair in self.port_pairs:
            for port in pair:
                if port.node == node:
                    return port.address
        raise TopologyError(f"{node} has no link")

    def ports_of(self, node):
        """Pairs (own Port, peer Port) of a node, in the order the links were added."""
        for one, other in self.port_pairs:
            if one.node == node:
                yield one, other
            elif other.node == node:
                yield other, one

    def routes_of(self, node):
        """Static routes of a node: list of (network, next hop address, device).

        Hosts have a default route; routers one route to every network they are not on.
        """
        own = list(self.ports_of(node))
        if self.role(node) == "host":
            port, peer = own[0]
            return [("default", peer.address, port.device)]
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

    def describe(self):
        """The network as a dict, as `raw/network.json` holds it."""
        return {
            "nodes": [{"name": n, "role": r, "side": s,
                       "addresses": [p.address for p, _ in self.ports_of(n)]}
                      for n, (r, s) in self._roles.items()],
            "links": [{"name": port.egress.name, "from": port.node, "to": peer.node,
                       "device": port.device, "peer_device": peer.device,
                       "rate_bps": port.egress.rate_bps, "delay_us": port.egress.delay_us,
                       "loss_percent": port.egress.loss_percent,
                       "lose_segments": list(port.egress.lose_segments), "lose_copies": port.egress.lose_copies,
                       "queue": port.egress.queue.kind, "queue_options": port.egress.queue.options,
                       "limit_packets": port.egress.queue.limit_packets,
                       "bottleneck": port.egress.bottleneck, "ifindex": port.ifindex}
                      for pair in self.port_pairs for port, peer in (pair, pair[::-1])],
            "paths": [{"source": i, "initiator": p.initiator, "acceptor": p.acceptor,
                       "initiator_address": self.address_of(p.initiator),
                       "acceptor_address": self.address_of(p.acceptor),
                       "base_rtt_us": p.base_rtt_us, "hops": p.hops, "hops_back": p.hops_back} for i, p in enumerate(self.paths)],
        }

    # -- routing -------------------------------------------------------------------

    def _first_hops(self, node):
        """{other node: (number of hops, own Port, next Port)} along shortest paths."""
        reached = {}
        queue = deque((peer.node, 1, port, peer) for port, peer in self.ports_of(node))
        while queue:
            at, hops, port, peer = queue.popleft()
            if at == node or at in reached:
                continue
            reached[at] = (hops, port, peer)
            if self.role(at) == "router":
                queue.extend((p.node, hops + 1, port, peer) for _, p in self.ports_of(at))
        return reached

    def _hops(self, source, target):
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
