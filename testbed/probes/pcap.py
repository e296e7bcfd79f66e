# SPDX-License-Identifier: GPL-2.0-only
"""Packets as they leave a node and arrive at it, for tcpdump, tcptrace and wireshark (-> capture-*.gz).

    pcap: {nodes: [n1, n4], snap: 96 B, format: pcapng}     default: all hosts, pcap

No process is started (testbed/probes/_packets.py). What leaves is seen behind the queue of its device, what arrives
behind the wire (docs/howto/captures.md). `tool: tcpdump` starts a tcpdump for each device instead, as studies do.
"""
import dataclasses
import pathlib
import re
import signal
import struct
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from testbed.core import fields, ip, pcap_files
from testbed.probes._packets import Ring, RingSampler, note_clocks, noted_ns, outgoing, records, slot_bytes
from topologies.links.records import Network as Description

if TYPE_CHECKING:
    from testbed.probes._context import Context
    from topologies.linux.network import Network


#: packets of a device between two looks at most, and memory for them: of whole jumbo frames there are fewer
_FRAMES, _ROOM_BYTES = 1 << 14, 1 << 25
_CLOCKS = "capture.ahead"
_OURS, _TCPDUMP = "ring", "tcpdump"
#: as tcpdump writes them in our byte order, with nanoseconds
_FILE, _RECORD, _NANOSECONDS = struct.Struct("<I20x"), struct.Struct("<IIII"), 0xA1B23C4D
_NANOSECONDS_OF_SECOND = 1_000_000_000


@dataclasses.dataclass(frozen=True)
class Options:
    """nodes: whose devices; snap: how much of a packet; interval: between two looks at what has come; format: of
    the files; tool: what captures."""
    nodes: tuple[str, ...] = fields.listing(fields.word(pattern="[A-Za-z0-9_-]+", example="n1"), default=(),
                                            single=True, distinct=True)
    snap_bytes: int = fields.size(default=96, least=54, most=ip.MOST_MTU_BYTES + ip.ETHERNET_BYTES)
    interval_us: int = fields.time(default=10_000, least=1000)
    format: str = fields.word(choices=pcap_files.FORMATS, default=pcap_files.FORMATS[0])
    tool: str = fields.word(choices=(_OURS, _TCPDUMP), default=_OURS)


class _Captures(Protocol):
    """What Sampler() makes."""
    @property
    def interval_us(self) -> int: ...
    def open(self) -> None: ...
    def sample(self, t_us: int) -> None: ...
    def close(self) -> dict[str, object]: ...


def Sampler(options: Options, network: "Network", description: Description, work_dir: str) -> _Captures:
    """Of the tool that was asked for."""
    if options.tool == _TCPDUMP:
        return _Tcpdumps(options, network, description, work_dir)
    return _Rings(options, network, description, work_dir)


class _Rings(RingSampler):
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


class _Process(NamedTuple):
    """A tcpdump, and the device that it is on."""
    device: str
    program: "subprocess.Popen[bytes]"


class _Tcpdumps:
    """A tcpdump for each device of the nodes. It writes by itself."""

    def __init__(self, options: Options, network: "Network", description: Description, work_dir: str) -> None:
        self.interval_us = options.interval_us
        self._clocks = f"{work_dir}/{_CLOCKS}"
        self._running: list[_Process] = []
        wanted = _nodes(options, description)
        for link in description.links:
            if link.from_node in wanted:
                with network.in_namespace(link.from_node):
                    self._running.append(_Process(link.device, _tcpdump(link.device, options.snap_bytes, work_dir)))

    def open(self) -> None:
        """They capture from their start on."""

    def sample(self, t_us: int) -> None:
        for device, program in self._running:
            if program.poll() is not None:
                raise OSError(f"probe pcap: tcpdump on {device} ended with status {program.returncode}")

    def close(self) -> dict[str, object]:
        lost = 0
        for device, program in self._running:
            program.send_signal(signal.SIGINT)
            said = program.communicate()[1].decode("utf-8", "replace")
            dropped = re.search(r"(\d+) packets? dropped by kernel", said)
            if program.returncode or not dropped:
                raise OSError(f"probe pcap: tcpdump on {device} ended with status {program.returncode}: {said.strip()}")
            lost += int(dropped[1])
        note_clocks(self._clocks)
        return {"lost_packets": lost}


def _tcpdump(device: str, snap_bytes: int, work_dir: str) -> "subprocess.Popen[bytes]":
    """A tcpdump that captures already."""
    # as root: Debian's gives its rights up before it makes the file
    command = ["tcpdump", "-Z", "root", "-n", "--time-stamp-precision=nano", "-s", str(snap_bytes), "-i", device,
               "-w", f"{work_dir}/tcpdump-{device}.pcap"]
    try:
        program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except FileNotFoundError:
        raise OSError("probe pcap: tool: tcpdump: tcpdump is not installed (apt-get install tcpdump)") from None
    assert program.stderr is not None
    said = b""
    while b"listening on" not in said:
        line = program.stderr.readline()
        if not line:
            raise OSError(f"probe pcap: tcpdump on {device} does not start: {said.decode('utf-8', 'replace').strip()}")
        said += line
    return program


def _of_tcpdump(path: pathlib.Path) -> Iterator[tuple[int, int, bytes]]:
    """As records(), of a file of tcpdump's. ValueError if it is none."""
    content = path.read_bytes()
    if len(content) < _FILE.size or _FILE.unpack_from(content)[0] != _NANOSECONDS:
        raise ValueError(f"{path.name}: no pcap file with nanoseconds")
    at = _FILE.size
    while at + _RECORD.size <= len(content):
        seconds, nanoseconds, kept, size = _RECORD.unpack_from(content, at)
        at += _RECORD.size + kept
        yield seconds * _NANOSECONDS_OF_SECOND + nanoseconds, size, content[at - kept:at]


def validate(options: Options, network: Description) -> None:
    """FieldError if the network has no such node."""
    known = [node.name for node in network.nodes]
    if options.tool == _TCPDUMP and options.format != pcap_files.FORMATS[0]:
        raise fields.FieldError("format", f"tcpdump does not say which way a packet went, as {options.format} does: "
                                          f"format: {pcap_files.FORMATS[0]} expected")
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
        of_tcpdump = work_dir / f"tcpdump-{device}.pcap"
        if of_tcpdump.exists():
            with packed(raw_dir / f"capture-{device}.{kind}.gz") as file:
                pcap_files.write(file, kind, (pcap_files.Packet(time_ns - t0_ns, size, data)
                                              for time_ns, size, data in _of_tcpdump(of_tcpdump) if time_ns >= t0_ns),
                                 snap, device)
            continue
        # of one instant what arrives is the first
        paths = [work_dir / f"capture-{one}" for one in (wire_device(device), device)]
        if not paths[0].exists():
            continue
        packets = sorted((pcap_files.Packet(time_ns - t0_ns, size, data, bool(leaves))
                          for leaves, path in enumerate(paths) for time_ns, size, data in records(path)
                          if time_ns >= t0_ns), key=lambda one: one.time_ns)
        with packed(raw_dir / f"capture-{device}.{kind}.gz") as file:
            pcap_files.write(file, kind, packets, snap, device)
