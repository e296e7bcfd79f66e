# SPDX-License-Identifier: GPL-2.0-only
"""Topologies for Mininet's own command: `mn --custom topologies/dumbbell.py --topo dumbbell --link emulated`.

There Mininet builds the network, interface by interface. Addresses and routes are the same as in a run; without
`--link emulated` the links are whatever Mininet makes of them.
"""
from collections.abc import Callable, Iterable, Sequence

from mininet.link import Intf, Link, OVSLink, TCLink, TCULink
from mininet.node import Node

from topologies.base import EmulatedTopo, TopologyError
from topologies.links import records
from topologies.linux import network
from topologies.linux.namespace import netns_of, write_sysctl
from topologies.linux.network import ROUTING, batch, bridge, emulate_end

#: where nobody has measured how late timers are: the period of a kernel with 250 ticks per second
_TIMER_PERIOD_US = 4000


class RoutedNode(Node):             # type: ignore[misc]
    """A Mininet node with static routes: (network, gateway, device) each; neighbours: those behind a switch."""

    def config(self, routes: Iterable[tuple[str, str, str]] = (), forwards: bool = False,
               neighbours: Iterable[Sequence[str]] = (), **params: object) -> dict[str, object]:
        result: dict[str, object] = super().config(**params)
        with netns_of(self.pid):
            for name, value in {**ROUTING, "net.ipv4.ip_forward": int(forwards)}.items():
                write_sysctl(name, value)
            batch("ip", [*network.neighbours(neighbours),
                         *(f"route replace {target} via {gateway} dev {device}" for target, gateway, device in routes)])
        return result


class BridgeNode(Node):             # type: ignore[misc]
    """A Mininet node that joins its links, as topologies/linux/network.py does."""

    def config(self, forwarding: Iterable[Sequence[str]], **params: object) -> dict[str, object]:
        result: dict[str, object] = super().config(**params)
        with netns_of(self.pid):
            bridge([interface.name for interface in self.intfList()], forwarding)
        return result


class EmulatedInterface(Intf):      # type: ignore[misc]
    """An interface with the queue of its link, behind which what arrives is delayed (topologies/linux/tc.py)."""

    def config(self, out: records.Link | None = None, back: records.Link | None = None,
               timer_period_us: int = _TIMER_PERIOD_US, **params: object) -> dict[str, object]:
        if out is None or back is None:
            raise TopologyError("--link emulated: only for topologies of the testbed, which say what a link is like")
        result: dict[str, object] = super().config(**params)
        with netns_of(self.node.pid):
            emulate_end(out, back, timer_period_us)
        return result


class EmulatedLink(Link):           # type: ignore[misc]
    """The link that the topology describes."""

    def __init__(self, *nodes: Node, **params: object) -> None:
        params["intf"] = EmulatedInterface
        super().__init__(*nodes, **params)


#: `mn` (2.3.0) means to add a custom file's `links` to its own, but for lack of a comma replaces them: so all are here
LINKS = {"default": Link, "tc": TCLink, "tcu": TCULink, "ovs": OVSLink, "emulated": EmulatedLink}


def offer(name: str, topology: type[EmulatedTopo], section: object) \
        -> tuple[dict[str, Callable[..., EmulatedTopo]], dict[str, type[Link]]]:
    """`topos` and `LINKS` of a topology's file: with `--topo name` the network that `section` describes."""
    def make(*words: object, **values: object) -> EmulatedTopo:
        if words or values:
            raise TopologyError(f"--topo {name}: takes no values; `bin/testbed shell` has --set for them")
        return topology(section)
    return {name: make}, LINKS
