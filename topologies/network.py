# SPDX-License-Identifier: GPL-2.0-only
"""Bring an `EmulatedTopo` up with Mininet, in batches.

Mininet configures every interface with commands of its own, typed into each node's
shell: some 110 of them for a six-host dumbbell. Here its nodes and its bookkeeping are
used as they are, and what it would have typed goes to `ip -batch` and `tc -batch`, one
call per node.
"""
import subprocess

from mininet.link import Intf, Link
from mininet.net import Mininet
from mininet.node import Node

from topologies.base import TopologyError
from topologies.namespace import disable_offloads, netns_of, write_sysctl


class _Node(Node):
    """A Mininet node that leaves its configuration to the batches."""

    def config(self, **_params):
        return {}


class _Interface(Intf):
    """A Mininet interface whose address is known and set elsewhere."""

    def config(self, mac=None, **_params):
        return {}


class _EmulatedLink(Link):
    """A veth pair that is created with all others, in one batch."""

    def __init__(self, node1, node2, ends, **params):
        self._ends = ends
        for key in ("addr1", "addr2", "intf"):
            params.pop(key, None)
        super().__init__(node1, node2, addr1=ends[0].mac, addr2=ends[1].mac,
                         intf=_Interface, **params)
        for interface, port in zip((self.intf1, self.intf2), ends):
            interface.ip, interface.prefixLen = port.address, "24"

    @classmethod
    def makeIntfPair(cls, *_args, **_kwargs):
        """The pair is made by `Network._create_links`."""


class Network:
    """A running emulated network.

    sysctls: {node: {name: value}} of every node's namespace.
    timer_period_us: 0 where timers are exact (virtual time), else how late the
    kernel's timers may be: the token buckets are made that deep.
    """

    def __init__(self, topo, sysctls, timer_period_us=0):
        self.topo = topo
        self.timer_period_us = timer_period_us
        self.sysctls = sysctls
        self.observed_sysctls = {}
        self.offloads = {}
        # Mininet would now raise limits of the whole machine with a dozen sysctl
        # commands; the ones that matter here are set per namespace below.
        Mininet.inited = True
        self.net = Mininet(topo=topo, host=_Node, link=_EmulatedLink, controller=None, build=False)

    def __enter__(self):
        try:
            self.net.build()
            self._create_links()
            for node in self.net.hosts:
                self._configure(node)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_exc):
        self.stop()

    def pid(self, name):
        """Process id whose network namespace is the node's."""
        return self.net[name].pid

    def in_namespace(self, name):
        """Context manager: run the block in a node's network namespace."""
        return netns_of(self.pid(name))

    def stop(self):
        """Take the network down: the interfaces go with their namespaces."""
        for node in self.net.hosts:
            node.terminate()

    def _create_links(self):
        lines = []
        for a, b in self.topo.port_pairs:
            def end(port):
                index = f"index {port.ifindex} " if port.ifindex else ""
                return (f"name {port.device} {index}address {port.mac} "
                        f"numtxqueues 1 numrxqueues 1 netns {self.pid(port.node)}")
            lines.append(f"link add {end(a)} type veth peer {end(b)}")
        _batch("ip", lines)

    def _configure(self, node):
        name = node.name
        ip_lines, tc_lines = ["link set lo up"], []
        for port, peer in self.topo.ports_of(name):
            ip_lines += [
                f"link add {port.wire_device} numtxqueues 1 numrxqueues 1 type ifb",
                f"link set {port.wire_device} up",
                f"addr add {port.address}/24 dev {port.device}",
                f"link set {port.device} up",
                f"neigh add {peer.address} lladdr {peer.mac} nud permanent dev {port.device}",
            ]
            tc_lines += port.egress.egress_tc(port.device, self.timer_period_us)
            tc_lines += peer.egress.ingress_tc(port.device, port.wire_device)
        ip_lines += [f"route add {network} via {gateway} dev {device}"
                     for network, gateway, device in self.topo.routes_of(name)]
        with netns_of(node.pid):
            sysctls = dict(self.sysctls[name])
            if self.topo.role(name) == "router":
                sysctls["net.ipv4.ip_forward"] = 1
            for key in ("all", "default"):
                sysctls[f"net.ipv4.conf.{key}.rp_filter"] = 0
                sysctls[f"net.ipv4.conf.{key}.send_redirects"] = 0
            self.observed_sysctls[name] = {k: write_sysctl(k, v) for k, v in sysctls.items()}
            _batch("ip", ip_lines)
            _batch("tc", tc_lines)
            for port, _ in self.topo.ports_of(name):
                for device in (port.device, port.wire_device):
                    self.offloads[f"{name}/{device}"] = disable_offloads(device)


def _batch(program, lines):
    """Feed lines to `ip -batch` or `tc -batch`; TopologyError with the failing line."""
    done = subprocess.run([program, "-batch", "-"], input="\n".join(lines) + "\n",
                          capture_output=True, text=True)
    if done.returncode:
        raise TopologyError(f"{program} -batch: {done.stderr.strip()}; the lines were:\n  "
                            + "\n  ".join(f"{i}: {l}" for i, l in enumerate(lines, 1)))
