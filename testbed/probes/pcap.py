# SPDX-License-Identifier: GPL-2.0-only
"""Packets as they leave a node and arrive at it, for tcpdump, tcptrace and wireshark (-> capture-*.gz).

    pcap: {nodes: [n1, n4], snap: 96 B, format: pcapng}     default: all hosts, pcap

No process is started (testbed/probes/_packets.py). What leaves is seen behind the queue of its device, what arrives
behind the wire (docs/howto/captures.md).
"""
import dataclasses
import pathlib
from typing import TYPE_CHECKING

from testbed.core import fields, ip, pcap_files
from testbed.probes._packets import Ring, RingSampler, noted_ns, outgoing, records, slot_bytes
from topologies.links.records import Network as Description

if TYPE_CHECKING:
    from testbed.probes._context import Context
    from topologies.linux.network import Network


#: packets of a device between two looks at most, and memory for them: of whole jumbo frames there are fewer
_FRAMES, _ROOM_BYTES = 1 << 14, 1 << 25
_CLOCKS = "capture.ahead"


@dataclasses.dataclass(frozen=True)
class Options:
    """nodes: whose devices; snap: how much of a packet; interval: between two looks at what has come; format: of
    the files."""
    nodes: tuple[str, ...] = fields.listing(fields.word(pattern="[A-Za-z0-9_-]+", example="n1"), default=(),
                                            single=True, distinct=True)
    snap_bytes: int = fields.size(default=96, least=54, most=ip.MOST_MTU_BYTES + ip.ETHERNET_BYTES)
    interval_us: int = fields.time(default=10_000, least=1000)
    format: str = fields.word(choices=pcap_files.FORMATS, default=pcap_files.FORMATS[0])


class Sampler(RingSampler):
    """Two rings for each device of the nodes: what leaves it, and what its wire brings."""

    def __init__(self, options: Options, network: "Network", description: Description, work_dir: str) -> None:
        from topologies.linux.network import wire_device
        self.interval_us = options.interval_us
        super().__init__(f"{work_dir}/{_CLOCKS}")
        wanted, snap = _nodes(options, description), options.snap_bytes
        frames = min(_FRAMES, _ROOM_BYTES // slot_bytes(snap))
        for link in description.links:
            if link.from_node in wanted:
                with network.in_namespace(link.from_node):
                    self.rings += [Ring(device, outgoing(snap), snap, frames, f"{work_dir}/capture-{device}")
                                   for device in (link.device, wire_device(link.device))]


def validate(options: Options, network: Description) -> None:
    """FieldError if the network has no such node."""
    known = [node.name for node in network.nodes]
    for name in options.nodes:
        if name not in known:
            raise fields.FieldError("nodes", f"no node {name}; there are: {', '.join(known)}")
    headers = ip.ETHERNET_BYTES + network.header_bytes() + ip.TCP_BYTES
    if options.snap_bytes < headers:
        raise fields.FieldError("snap", f"at least {headers} B expected, which Ethernet, IPv{network.ip_version} and "
                                        "TCP take")
    largest = ip.ETHERNET_BYTES + max((link.mtu_bytes for link in network.links), default=ip.MTU_BYTES)
    if options.snap_bytes > largest:
        raise fields.FieldError("snap", f"at most {largest} B expected, the largest frame of the network's links")


def _nodes(options: Options, description: Description) -> set[str]:
    """The nodes whose devices are captured."""
    return set(options.nodes or [node.name for node in description.nodes if node.role == "host"])


def collect(work_dir: pathlib.Path, raw_dir: pathlib.Path, context: "Context[Options]") -> None:
    """One file for each device, of both its ways, in experiment time; packets from before traffic are left out."""
    from testbed.core.raw_files import packed
    from topologies.linux.network import wire_device
    t0_ns = context.t0_ns + noted_ns(work_dir / _CLOCKS)
    snap, kind = context.options.snap_bytes, context.options.format
    for link in context.network.links:
        device = link.device
        # of one instant what arrives is the first
        paths = [work_dir / f"capture-{one}" for one in (wire_device(device), device)]
        if not paths[0].exists():
            continue
        packets = sorted((pcap_files.Packet(time_ns - t0_ns, size, data, bool(leaves))
                          for leaves, path in enumerate(paths) for time_ns, size, data in records(path)
                          if time_ns >= t0_ns), key=lambda one: one.time_ns)
        with packed(raw_dir / f"capture-{device}.{kind}.gz") as file:
            pcap_files.write(file, kind, packets, snap, device)
