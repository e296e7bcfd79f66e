# SPDX-License-Identifier: GPL-2.0-only
"""End hosts: what a scenario's section `hosts` says of them, put into the network that the guest builds.

Each field is one property of real hosts that virtual time or the emulation leaves out (docs/howto/hosts.md). What is
a matter of the kernel's settings alone (`ecn`, `sack`, ...) is in testbed/guest/tuning.py.
"""
import dataclasses
from collections.abc import Collection, Iterable

from testbed.core import fields
from testbed.core.fields import FieldError
from topologies import queues
from topologies.links import varying
from topologies.links.records import Link, Network, Node
from topologies.queues.fq import Fq

#: a first receive window of 65535 bytes holds no more full segments
_MOST_INITCWND = 44
#: beyond it lies what the kernel takes for no threshold
_MOST_SSTHRESH = 2**31 - 2
_SECOND_US = 10**6
_DEFAULT_CCA, _BUFFERS = "net.ipv4.tcp_congestion_control", ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")
#: what all devices have where nobody cuts packets of many segments
UNCUT_FEATURES = ("tso", "gso")
#: fields that are settings of the kernel of the same name
FIELDS_OF_SYSCTLS = ("ecn", "sack", "slow_start_after_idle")


@dataclasses.dataclass(frozen=True)
class HostsSection:
    """Settings of all hosts; sysctls: whatever else the kernel has below net.ipv4, per host."""
    ecn: int = fields.count(default=0, most=3)
    sack: int = fields.count(default=1, most=1)
    slow_start_after_idle: int = fields.count(default=1, most=1)
    initcwnd: int = fields.count(default=10, least=1, most=_MOST_INITCWND)
    #: no: every segment is acknowledged at once
    delayed_acks: bool = fields.flag(default=True)
    #: {host: segments} of those whose connections do not begin in slow start
    initial_ssthresh: dict[str, int] | None = fields.mapping(
        fields.count(least=2, most=_MOST_SSTHRESH), keys=r"n[0-9]{1,6}", example="n4", default=None)
    #: link: as the topology says of the host's link
    qdisc: str = fields.word(choices=("link", "fq"), default="link")
    offloads: str = fields.word(choices=("none", "gso", "gso+gro", "uncut"), default="none")
    #: the least and the most that a packet waits before it leaves a host differ by this much; by default it depends on
    #: the traffic (testbed/scenario/scenario.py)
    jitter_us: int | None = fields.time(default=None, most=_SECOND_US)
    #: from a packet's arrival to the interrupt that announces it and all that come meanwhile
    coalescing_us: int = fields.time(default=0, most=1000)
    packet_cost_us: int = fields.time(default=0, most=10_000)
    wakeup_cost_us: int = fields.time(default=0, most=_SECOND_US)
    sysctls: dict[str, int | str] = fields.mapping(
        fields.either(fields.count(least=-2**31), fields.word()), keys=r"net\.ipv4(\.[a-z0-9_]+)+",
        example="net.ipv4.tcp_fack", default={}, most=200)

    def __post_init__(self) -> None:
        if _DEFAULT_CCA in self.sysctls:
            raise FieldError(f"sysctls.{_DEFAULT_CCA}", "--cca, or cca of a component, says it")
        for name in _BUFFERS:
            if name in self.sysctls and not _are_sizes(str(self.sysctls[name])):
                raise FieldError(f"sysctls.{name}", "three numbers of bytes in order expected: the least, the usual "
                                                    "and the largest size of a buffer")
        for name in FIELDS_OF_SYSCTLS:
            if f"net.ipv4.tcp_{name}" in self.sysctls:
                raise FieldError(f"sysctls.net.ipv4.tcp_{name}", f"hosts.{name} says it: two values would contradict "
                                                                 "each other")
        if self.offloads == "gso+gro" and not self.coalescing_us:
            raise FieldError("offloads", "gso+gro needs coalescing such as '50 us': without it packets arrive one by "
                                         "one, and there is nothing to merge")


def _are_sizes(text: str) -> bool:
    """Whether a setting is the least, the usual and the largest size of a socket's buffer, in bytes."""
    words = text.split()
    if not all(word.isascii() and word.isdigit() and len(word) < 11 for word in words):
        return False
    sizes = [int(word) for word in words]
    return len(sizes) == 3 and sizes == sorted(sizes) and 0 < sizes[0] and sizes[2] < 2**31


def apply(hosts: HostsSection, network: Network) -> Network:
    """The network with its end hosts as they are to be: nodes and links get the keys of docs/reference/run-folder.md.

    network: what topologies.resolve gave; it is left as it is. FieldError if a host is named that it does not have.
    """
    of_hosts = {node.name for node in network.nodes if node.role == "host"}
    for name in hosts.initial_ssthresh or {}:
        if name not in of_hosts:
            raise FieldError(f"initial_ssthresh.{name}", f"no host {name}; there are: {_some(of_hosts)}")
    merges, uncut = hosts.offloads == "gso+gro", hosts.offloads == "uncut"
    segments = merges or hosts.offloads == "gso"
    if uncut:
        _can_be_uncut(network)
    links = []
    for link in network.links:
        sends, receives = link.from_node in of_hosts, link.to_node in of_hosts
        queue = _fair_queue(link) if sends and hosts.qdisc == "fq" else {}
        queue |= {"uncut": True} if uncut else {}
        links.append(link.changed(
            **queue, gso=sends and segments, jitter_us=hosts.jitter_us or 0 if sends else 0,
            coalescing_us=hosts.coalescing_us if receives else 0,
            packet_cost_us=hosts.packet_cost_us if receives else 0, gro=receives and merges))
    return network.changed(
        nodes=[_of_host(hosts, node) if node.name in of_hosts else node for node in network.nodes], links=links)


def _can_be_uncut(network: Network) -> None:
    """FieldError where packets of many segments would meet what looks at frames one by one."""
    if network.cells:
        raise FieldError("offloads", "uncut: what goes over the air is cut into frames before; gso is possible")
    for link in network.links:
        what = "a schedule with outages" if varying.varies(link, "up") else "a trace" if link.opportunities \
            else "lose_segments" if link.lose_segments else "duplicates" if link.duplicate_percent else ""
        if what:
            raise FieldError("offloads", f"uncut: {link.name} has {what}, which needs single segments; gso is possible")
        if queues.kind(link.queue).CUTS:
            raise FieldError("offloads", f"uncut: {link.name} has {link.queue}, which cuts packets; gso is possible")


def _of_host(hosts: HostsSection, node: Node) -> Node:
    changed = node.changed(initcwnd=hosts.initcwnd, quickack=not hosts.delayed_acks, gso=hosts.offloads != "none",
                           wakeup_cost_us=hosts.wakeup_cost_us)
    threshold = (hosts.initial_ssthresh or {}).get(node.name)
    return changed if threshold is None else changed.changed(initial_ssthresh=threshold)


def without_jitter(network: Network) -> Network:
    """The same network with hosts that have none."""
    return network.changed(links=[link.changed(jitter_us=0) for link in network.links])


def packet_time_us(network: Network, ways: Iterable[Collection[str]]) -> int:
    """The time of a full frame on the slowest link of these ways (names of link directions); 0 where they have none.

    As much jitter keeps flows from locking into phases (docs/howto/hosts.md); no more than jitter can be.
    """
    rates_bps = {link.name: varying.nominal_bps(link) for link in network.links}
    times_us = [network.frame_bytes(way) * 8e6 / min(rates_bps[name] for name in way) for way in ways if way]
    return min(round(max(times_us, default=0)), _SECOND_US)


def _some(hosts: Collection[str]) -> str:
    names = sorted(hosts, key=lambda name: (len(name), name))
    return ", ".join(names[:12]) + (f" ... ({len(names)})" if len(names) > 12 else "")


def _fair_queue(link: Link) -> dict[str, object]:
    """A queue of the same length that paces; no flow has less of it, so that it drops no more than the one before."""
    limit = link.capacity_packets
    return Fq(kind="fq", limit=limit, flow_limit=limit).describe(link.rate_bps, link.mtu_bytes)
