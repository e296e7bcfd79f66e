# SPDX-License-Identifier: GPL-2.0-only
"""`WirelessTopo`: what topologies with radios start from.

A cell is one channel: stations at positions, each with a radio, in one network. Who is in range of whom is known, so
are routes, and neighbours: over several stations, packets go the way with the fewest hops, of several such the one by
the station that was named first. Nothing is left to a routing protocol, to ARP or to neighbour discovery.
"""
import dataclasses
import itertools
import math
from ipaddress import ip_network

from testbed.core import ip
from testbed.core.fields import FieldError
from topologies import standards
from topologies.base import EmulatedTopo, Port, TopologyError
from topologies.links.link import Link
from topologies.links.records import Cell, Network
from topologies.queues.pfifo import Pfifo
from topologies.wireless.radio import MOST_STATIONS, RadioSection

#: of a station: (node, x in mm, y in mm)
Place = tuple[str, int, int]
#: stands for the link that a radio has not
_NO_LINK = Link(rate_bps=10**9, queue=Pfifo(kind="pfifo", limit=1))


def grid(names: list[str], spacing_mm: int, first: int = 0) -> list[Place]:
    """Places on a square grid, row by row; first: so many places are taken."""
    side = math.ceil(math.sqrt(len(names) + first))
    return [(name, number % side * spacing_mm, number // side * spacing_mm)
            for number, name in enumerate(names, start=first)]


class WirelessTopo(EmulatedTopo):
    """Base of topologies with radios: `cell` beside what EmulatedTopo has. All wired links are made before."""

    def __init__(self, section: object = None, ip_version: int = 4, until_us: int | None = None) -> None:
        self.cells: list[Cell] = []
        self._relays: set[str] = set()
        self._section = section
        super().__init__(section, ip_version, until_us)

    def relay(self, name: str, side: str = "") -> str:
        """Add an end host that forwards what is for others."""
        self._relays.add(name)
        return self.host(name, side)

    def forwards(self, node: str) -> bool:
        return node in self._relays or super().forwards(node)

    def cell(self, radio: Cell, places: list[Place], queue_packets: int | None = None) -> None:
        """Add the channel with its stations; radio: RadioSection.describe(); queue_packets: that wait at the device of
        a radio which has a queue. FieldError if there cannot be so many."""
        if self.cells:
            raise TopologyError("one cell only: there is one channel")
        if len(places) > MOST_STATIONS:
            raise FieldError("nodes", f"at most {MOST_STATIONS} stations on a channel")
        standard = standards.found()[radio.standard]
        network = ip_network(ip.link_network(self.ip_version, len(self.port_pairs) + 1))
        addresses = network.hosts()
        ports = [Port(node, f"{node}-{standard.DEVICE}", str(network), str(next(addresses)),
                      standard.link_address(number), _NO_LINK, name="", direction="", bottleneck=False, cell="air")
                 for number, (node, _, _) in enumerate(places)]
        at = {port.node: (x, y) for port, (_, x, y) in zip(ports, places)}
        if len(at) < len(ports):
            raise TopologyError("a node has one radio")
        for one in ports:
            for other in ports:
                if one is not other and math.dist(at[one.node], at[other.node]) <= radio.range_mm:
                    self._ports.setdefault(one.node, []).append((one, other))
            self._ports.setdefault(one.node, [])
        self._networks[str(network)] = ports
        self._routing.clear()
        queued = queue_packets if standard.QUEUE_AT_DEVICE else None
        self.cells.append(Cell({"name": "air", **radio.content(), "queue_packets": queued, "stations": [
            {"node": port.node, "device": port.device, "address": port.address, "mac": port.mac,
             "x_mm": at[port.node][0], "y_mm": at[port.node][1]} for port in ports]}))

    def path(self, initiator: str, acceptor: str) -> None:
        try:
            super().path(initiator, acceptor)
        except TopologyError as problem:
            raise FieldError(self._out_of_range(), f"{problem}: {self._distances()}") from None

    def _out_of_range(self) -> str:
        """The field to blame: of spacing and range the one that was given."""
        radio: RadioSection = getattr(self._section, "radio")
        usual = next(one.default for one in dataclasses.fields(radio) if one.name == "range_mm")
        return "spacing" if radio.range_mm == usual and hasattr(self._section, "spacing_mm") else "radio.range"

    def _distances(self) -> str:
        cell, = self.cells
        places = [(one.x_mm, one.y_mm) for one in cell.stations]
        apart = [math.dist(*pair) for pair in itertools.combinations(places, 2)]
        return f"radios reach {cell.range_mm / 1000:g} m, and stations are {min(apart) / 1000:g} to " \
               f"{max(apart) / 1000:g} m apart"

    def routes_of(self, node: str) -> list[tuple[str, str, str]]:
        own = self._radio_of(node)
        if own is None:
            return super().routes_of(node)
        first_hop = self._first_hops(node)
        # a host has a route to each of its neighbours, too: routes carry what hosts begin connections with
        least = 1 if self.role(node) == "host" else 2
        hops = [(port.address, first_hop[port.node]) for port in self._networks[own.network] if port.node in first_hop]
        # IPv6 takes no gateway that has a route with a gateway: neighbours come last
        return [*self._routes_of_router(node),
                *((ip.alone(address), hop.gateway.address, hop.port.device)
                  for address, hop in sorted(hops, key=lambda hop: hop[1].links == 1)
                  if hop.gateway is not None and hop.links >= least)]

    def _radio_of(self, node: str) -> Port | None:
        """A node's end of the air, None if it has no radio."""
        return next((port for port, _ in self.ports_of(node) if port.cell), None)

    def describe(self) -> Network:
        described = super().describe()
        paths = [path.changed(air=self._air_on(path.initiator, path.acceptor),
                              air_back=self._air_on(path.acceptor, path.initiator)) for path in described.paths]
        nodes = [node.changed(forwards=True) if node.name in self._relays else node for node in described.nodes]
        content = described.changed(nodes=nodes, paths=paths).content()
        mtu_bytes = min([described.mtu_bytes, *(cell.mtu_bytes for cell in self.cells)])
        content.pop("mtu_bytes", None)
        return Network({**content, **({"mtu_bytes": mtu_bytes} if mtu_bytes != ip.MTU_BYTES else {}),
                        "cells": [cell.content() for cell in self.cells]})

    def _air_on(self, source: str, target: str) -> list[list[str]]:
        """[cell, sender, receiver] of each hop over the air."""
        return [[port.cell, port.node, peer.node] for port, peer in self._hop_pairs(source, target) if port.cell]
