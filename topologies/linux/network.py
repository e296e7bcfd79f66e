# SPDX-License-Identifier: GPL-2.0-only
"""Bring a network up with Mininet, in batches.

The network is what `topologies.resolve` made; nothing of it is questioned here.
Mininet configures every interface with commands of its own, typed into each node's
shell: some 110 of them for a six-host dumbbell. Here its nodes and its bookkeeping are
used as they are, and what it would have typed is said in lines for `ip -batch` and `tc -batch`,
one batch per node, which the kernel is told without these programs where it can be (topologies/linux/netlink_batch.py).
"""
import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from mininet.link import Intf, Link
from mininet.net import Mininet
from mininet.node import Node
from mininet.topo import Topo
from mininet.util import numCores

from testbed.core import ip
from topologies.links import end_hosts, records
from topologies.linux import netlink_batch, tc, tc_messages
from topologies.linux.namespace import Keeper, Namespaces, open_namespace, set_offloads, write_sysctl
from topologies.linux.rtnetlink import ask_for_words, raise_error
from topologies.linux.tc import wire_device as wire_device

if TYPE_CHECKING:
    from topologies.wireless.radios import Radios

Sysctls = dict[str, int | str]
#: the device that joins a switch's others
_BRIDGE = "br0"
#: what every node's namespace has: packets may come back on another way, and nobody is told of a better one
ROUTING = {f"net.ipv4.conf.{key}.{name}": 0 for key in ("all", "default") for name in ("rp_filter", "send_redirects")}


class _Node(Node):                  # type: ignore[misc]
    """A Mininet node that leaves its configuration to the batches."""

    def config(self, **_params: object) -> dict[str, object]:
        return {}


class _QuietNode(_Node):
    """A node that nobody types commands into: a thread that keeps its namespace, and no shell.

    Mininet's shell is four programs, and costs 34 ms in a guest.
    """
    @classmethod
    def setup(cls) -> None:
        """Do not look for the programs of Mininet's shells."""

    def startShell(self, mnopts: object = None) -> None:
        self._keeper = Keeper()
        self.pid = self._keeper.tid

    def cleanup(self) -> None:
        self._keeper.release()


class Interface(Intf):             # type: ignore[misc]
    """A Mininet interface whose address is known and set elsewhere."""

    def config(self, mac: str | None = None, **_params: object) -> dict[str, object]:
        return {}

    @classmethod
    def of_radio(cls, device: str, node: Node, address: str) -> None:
        """Let Mininet know of a device that is in its node's namespace and on no link."""
        made = cls(device, node=node, moveIntfFn=lambda *_args, **_kwargs: None)
        made.ip, _, made.prefixLen = address.partition("/")


class _EmulatedLink(Link):          # type: ignore[misc]
    """A veth pair that is created with all others, in one batch."""

    def __init__(self, node1: Node, node2: Node, ends: tuple[records.Link, records.Link], **params: object) -> None:
        for key in ("addr1", "addr2", "intf"):
            params.pop(key, None)
        super().__init__(node1, node2, addr1=ends[0].mac, addr2=ends[1].mac, intf=Interface, **params)
        for interface, end in zip((self.intf1, self.intf2), ends):
            if end.address:
                interface.ip, _, interface.prefixLen = ip.with_prefix(end.address).partition("/")

    @classmethod
    def makeIntfPair(cls, *_args: object, **_kwargs: object) -> None:
        """The pair is made by `Network._create_links`."""


class _Graph(Topo):                 # type: ignore[misc]
    """The network as Mininet wants to be told of it."""

    def build(self, description: records.Network, pairs: Sequence[tuple[records.Link, records.Link]]) -> None:
        for node in description.nodes:
            self.addHost(node.name)
        for one, other in pairs:
            self.addLink(one.from_node, other.from_node, port1=_port_number(one), port2=_port_number(other),
                         ends=(one, other))


def _port_number(link: records.Link) -> int:
    return int(link.device.rsplit("eth", 1)[1])


def _merged_device(device: str) -> str:
    """Name of the interface on which a host that merges packets (GRO) receives what arrives at a device."""
    return "g" + device


class Network:
    """A running emulated network.

    description: what `topologies.resolve` gave; sysctls: {node: {name: value}} of every node's namespace;
    timer_period_us: 0 where timers are exact (virtual time), else how late the
    kernel's timers may be: shapers make that good; shells: whether commands can be typed into nodes.
    """
    _radios: "Radios | None" = None         # where there are any

    def __init__(self, description: records.Network, sysctls: Mapping[str, Mapping[str, int | str]],
                 timer_period_us: int = 0, shells: bool = False) -> None:
        self.description = description
        self.timer_period_us = timer_period_us
        self.sysctls = sysctls
        self.observed_sysctls: dict[str, dict[str, str]] = {}
        self.offloads: dict[str, dict[str, bool]] = {}
        links = description.links
        self.pairs = list(zip(links[::2], links[1::2]))
        # Mininet would now raise limits of the whole machine with a dozen sysctl
        # commands; the ones that matter here are set per namespace below.
        Mininet.inited = True
        if not hasattr(numCores, "ncores") and not shells:
            numCores.ncores = os.cpu_count() or 1       # Mininet would start a program to count them
        topo = _Graph(description, self.pairs)
        self._namespaces = Namespaces()
        self.net = Mininet(topo=topo, host=_Node if shells else _QuietNode, link=_EmulatedLink, controller=None,
                           build=False)

    def __enter__(self) -> "Network":
        if any(link.coalescing_us for link in self.description.links):
            # a kernel in virtual time may still be at 0 ns, which netem takes for the absence of slots
            time.sleep(0.001)
        try:
            self.net.build()
            self._create_links()
            if self.description.cells:
                from topologies.wireless import radios
                self._radios = radios.Radios(self)
                self._radios.create()
            nodes = {node.name: node for node in self.description.nodes}
            for name in self.node_names():
                try:
                    self._configure(nodes[name])
                except RuntimeError as problem:
                    raise RuntimeError(f"node {name}: {problem}") from problem
            if self._radios:
                self._radios.join()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stop()

    def pid(self, name: str) -> int:
        """Process id whose network namespace is the node's."""
        return int(self.net[name].pid)

    def in_namespace(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Context manager: run the block in a node's network namespace."""
        return self._namespaces.inside(self.pid(name))

    def open_namespace(self, name: str) -> int:
        """A descriptor of a node's network namespace, for who enters it by itself."""
        return open_namespace(self.pid(name))

    def node_names(self) -> list[str]:
        """All nodes, in Mininet's order."""
        return [node.name for node in self.net.hosts]

    def _finish_links(self, node: str) -> None:
        """What tc cannot be told; in a node's namespace. RuntimeError with what the kernel refuses."""
        for out, back in self.ends_at(node):
            index, of_wire = socket.if_nametoindex(out.device), socket.if_nametoindex(wire_device(out.device))
            _tell(out, [*tc_messages.shaper(index, out, self.timer_period_us), *tc_messages.queue(index, out),
                        *tc_messages.setup(of_wire, back)])

    def make_queue_anew(self, link: records.Link) -> None:
        """In place of a queue that has seen packets, one that knows nothing of them."""
        with self.in_namespace(link.from_node):
            batch("tc", tc.anew(link))
            _tell(link, tc_messages.queue(socket.if_nametoindex(link.device), link))

    def ends_at(self, node: str) -> Iterator[tuple[records.Link, records.Link]]:
        """(link out, link in) of each of a node's interfaces."""
        for one, other in self.pairs:
            if one.from_node == node:
                yield one, other
            elif other.from_node == node:
                yield other, one

    def stop(self) -> None:
        """Take the network down: the interfaces go with their namespaces."""
        try:
            for node in self.net.hosts:
                node.terminate()
        finally:
            self._namespaces.close()

    def _create_links(self) -> None:
        def end(link: records.Link) -> str:
            index = f"index {link.ifindex} " if link.ifindex else ""
            return (f"name {link.device} {index}address {link.mac} {_mtu(link)}"
                    f"numtxqueues 1 numrxqueues 1 netns {self.pid(link.from_node)}")
        batch("ip", [f"link add {end(a)} type veth peer {end(b)}" for a, b in self.pairs])

    def ip_lines(self, node: records.Node) -> list[str]:
        """What `ip -batch` is told in a node's namespace."""
        lines = ["link set lo up"]
        for out, back in self.ends_at(node.name):
            device = out.device
            lines += [*_wire(back, device, out.mac), *interface(out.address, device),
                      *neighbours([(back.address, back.mac, device)])]
            if not node.gso:
                lines.append(single_segments(device))
        if self._radios:
            lines += self._radios.lines(node)
        lines += neighbours(node.neighbours)
        window = f" initcwnd {node.initcwnd}" if node.initcwnd is not None else ""
        window += " quickack 1" if node.quickack else ""
        # locked: no connection changes it (testbed/guest/thresholds.py makes TCP look at it)
        window += f" ssthresh lock {node.initial_ssthresh}" if node.initial_ssthresh is not None else ""
        return lines + [f"route add {network} via {gateway} dev {device}{window}"
                        for network, gateway, device in node.routes]

    def _ipv6(self, node: records.Node) -> Sysctls:
        """Settings by which devices have IPv6, those that are made later, too, and no addresses but ours."""
        devices = ["default", *(out.device for out, _ in self.ends_at(node.name)),
                   *(self._radios.devices(node.name) if self._radios else ())]
        settings: Sysctls = {f"net.ipv6.conf.{key}.disable_ipv6": 0 for key in ("all", "lo")}
        settings |= {f"net.ipv6.conf.{device}.{name}": value for device in devices
                     for name, value in (("disable_ipv6", 0), ("addr_gen_mode", 1), ("accept_ra", 0))}
        if _forwards(node):
            settings["net.ipv6.conf.all.forwarding"] = 1
        return settings

    def _configure(self, node: records.Node) -> None:
        name = node.name
        tc_lines = []
        for out, back in self.ends_at(name):
            tc_lines += _tc_lines(out, back, self.timer_period_us, self.description.ip_version)
        with self.in_namespace(name):
            sysctls = dict(self.sysctls[name])
            if _forwards(node):
                sysctls["net.ipv4.ip_forward"] = 1
            if node.role == "router":
                sysctls["net.ipv4.ip_early_demux"] = 0      # it has no sockets to be looked for; hosts that forward do
            sysctls.update(ROUTING)
            if self.description.ip_version == 6 and node.role != "switch":
                # before it forwards: a router joins groups, and reports them once its devices are up (see interface)
                batch("ip", [f"link set {out.device} arp off multicast off" for out, _ in self.ends_at(name)])
                sysctls.update(self._ipv6(node))
            elif os.path.isdir("/proc/sys/net/ipv6"):
                # interfaces that come up would look for neighbours and routers: packets that nobody sent
                sysctls.update({f"net.ipv6.conf.{key}.disable_ipv6": 1 for key in ("all", "default")})
            self.observed_sysctls[name] = {k: write_sysctl(k, v) for k, v in sysctls.items()}
            batch("ip", self.ip_lines(node))
            if node.role == "switch":
                bridge([out.device for out, _ in self.ends_at(name)], node.forwarding)
            batch("tc", tc_lines)
            self._finish_links(name)
            for out, back in self.ends_at(name):
                for device, found in _offloads(out, back).items():
                    self.offloads[f"{name}/{device}"] = found
            if self._radios:
                for device in self._radios.devices(name):
                    self.offloads[f"{name}/{device}"] = set_offloads(device, may_lack=True)


def _tell(link: records.Link, messages: Iterable[bytes]) -> None:
    """Tell the kernel about the qdiscs of a link. RuntimeError with what it refuses."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as telling:
        ask_for_words(telling)
        for message in messages:
            telling.send(message)
            try:
                raise_error(telling.recv(1 << 16))
            except OSError as problem:
                raise RuntimeError(f"qdiscs at {link.device}: {problem.strerror}") from None


def _forwards(node: records.Node) -> bool:
    return node.role == "router" or node.forwards


def interface(address: str, device: str) -> list[str]:
    """ip batch lines that give a device its address, if it has one.

    IPv6 would tell the neighbourhood of each group that it listens to, at random instants and again: packets that
    nobody sent. It does not on a device without ARP (no groups for neighbour discovery) and without multicast
    (no groups of routers); neighbours are known (_neighbour).
    """
    if not address:
        return [f"link set {device} up"]
    add, up = f"addr add {ip.with_prefix(address)} dev {device}", f"link set {device} up"
    if ip.version_of(address) == 4:
        return [add, up]
    return [f"link set {device} arp off multicast off", up, f"{add} nodad"]


def emulate_end(out: records.Link, back: records.Link, timer_period_us: int) -> None:
    """Make one end of a link that others have set up, addresses and all, an end of the emulated link.

    In the node's namespace; out, back: the directions of the link from there and to there.
    """
    device = out.device
    mtu = [f"link set {device} {_mtu(out)}"] if out.has("mtu_bytes") else []
    batch("ip", [*mtu, *_wire(back, device, out.mac), *neighbours([(back.address, back.mac, device)]),
                 single_segments(device)])
    batch("tc", _tc_lines(out, back, timer_period_us))
    _offloads(out, back)


def _tc_lines(out: records.Link, back: records.Link, timer_period_us: int, ip_version: int = 4) -> list[str]:
    return [*tc.egress(out, timer_period_us), *tc.ingress(back, wire_device(out.device), ip_version)]


def neighbours(known: Iterable[Sequence[str]]) -> list[str]:
    """The ip batch lines by which a node need not ask: (address, link-layer address, device) each; a switch's port
    has no address."""
    return [f"neigh replace {address} lladdr {mac} nud permanent dev {device}" for address, mac, device in known
            if address]


def bridge(devices: list[str], forwarding: Iterable[Sequence[str]]) -> None:
    """Join devices of a switch; in its namespace. forwarding: [link-layer address, device by which it is reached].

    All is known: nothing is learnt, and no frame goes anywhere but there. No spanning tree, so no wait for one.
    """
    batch("ip", [f"link add {_BRIDGE} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
                 *(f"link set {device} master {_BRIDGE}" for device in devices),
                 *(f"link set {device} type bridge_slave learning off flood off mcast_flood off" for device in devices),
                 f"link set {_BRIDGE} up"])
    batch("bridge", [f"fdb replace {mac} dev {device} master static" for mac, device in forwarding])


def single_segments(device: str) -> str:
    """TCP makes packets of many segments whatever the device's features are."""
    return f"link set {device} gso_max_segs 1"


def _offloads(out: records.Link, back: records.Link) -> dict[str, dict[str, bool]]:
    """Turn off what the devices at one end of a link offload, and on what is wanted; {device: {feature: on?}}."""
    merged = {_merged_device(out.device)} if back.gro else set()
    kept = end_hosts.UNCUT_FEATURES if out.uncut else ()
    return {device: set_offloads(device, {"gro"} if device in merged else kept)
            for device in (out.device, wire_device(out.device), *merged)}


def _wire(link: records.Link, device: str, mac: str) -> list[str]:
    """ip batch lines for the device that carries what arrives at `device` over `link`.

    An IFB hands packets back as they are. Where they are to be merged it is a veth, whose other end has
    NAPI and thus GRO: that is where the host then receives them, under the same address.
    """
    wire = f"link add {wire_device(device)} {_mtu(link)}numtxqueues 1 numrxqueues 1 type"
    up = f"link set {wire_device(device)} up"
    if not link.gro:
        return [f"{wire} ifb", up]
    merged = _merged_device(device)
    return [f"{wire} veth peer name {merged} address {mac} {_mtu(link)}numtxqueues 1 numrxqueues 1",
            f"link set {merged} up", up]


def _mtu(link: records.Link) -> str:
    """The words for a device's MTU, where it is not the usual one. It comes before qdiscs, which take sizes from it."""
    return f"mtu {link.mtu_bytes} " if link.has("mtu_bytes") else ""


def batch(program: str, lines: list[str]) -> None:
    """Do what `ip -batch`, `tc -batch` or `bridge -batch` does with these lines; RuntimeError with the failing line."""
    if orders := netlink_batch.orders(program, lines):
        netlink_batch.tell(program, lines, orders)
        return
    done = subprocess.run([program, "-batch", "-"], input="\n".join(lines) + "\n", capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{program} -batch: {done.stderr.strip()}; the lines were:\n  "
                           + "\n  ".join(f"{i}: {line}" for i, line in enumerate(lines, 1)))
