# SPDX-License-Identifier: GPL-2.0-only
"""What becomes of each data segment of TCP flows between its hosts: whether it arrives, and after which time
(-> journeys.csv.gz).

    journeys: {interval: 100 ms}        what segments are summed up over, by when they were sent

A segment is sent when its host hands it to the device by which it leaves (behind the queue of a wired link, before the
queues of a radio), and has arrived when the last host's stack gets it. Copies of headers tell segments apart: by
addresses, ports, sequence number, length, and the number of the IP packet, so that one that is sent again is another.
IPv6 has no such number: there it is TCP's time stamp, in ms, and the first of equal ones arrives first.
"""
import collections
import ipaddress
import pathlib
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from testbed.probes._owners import Owners
from testbed.probes._packets import FRAMES, Ring, RingSampler, SumOptions, noted_ns, records, tcp
from topologies.links.records import Network as Description

if TYPE_CHECKING:
    from testbed.probes._context import Context
    from topologies.linux.network import Network


#: headers of IPv6 or IPv4 and TCP with their options
_SNAP_BYTES = 100
#: a radio has fewer segments between two looks
_RADIO_FRAMES = 1 << 9
_CLOCKS = "journeys.ahead"


Options = SumOptions


class Sampler(RingSampler):
    """Rings at what leaves each host and what arrives there."""

    def __init__(self, options: Options, network: "Network", description: Description, work_dir: str) -> None:
        super().__init__(f"{work_dir}/{_CLOCKS}")
        for node, device, leaving in _devices(description):
            with network.in_namespace(node):
                self.rings.append(Ring(device, tcp(_SNAP_BYTES, leaving), _SNAP_BYTES,
                                       FRAMES if leaving else _RADIO_FRAMES, f"{work_dir}/journeys-{device}-{node}",
                                       ip_only=True))


def _devices(description: Description) -> Iterator[tuple[str, str, bool]]:
    """(host, device, whether only what leaves it is looked at) of all hosts' devices."""
    from topologies.linux.network import wire_device
    hosts = {node.name for node in description.nodes if node.role == "host"}
    for link in description.links:
        if link.from_node in hosts:
            yield from ((link.from_node, device, True) for device in (link.device, wire_device(link.device)))
    for cell in description.cells:
        yield from ((station.node, station.device, False) for station in cell.stations
                    if station.node in hosts)


class _Segment(NamedTuple):
    ends: bytes         # addresses, ports
    what: bytes         # what tells it from others of these ends
    ip_bytes: int


def _segment(packet: bytes) -> _Segment | None:
    """A TCP segment with data; None if it has none."""
    if packet[0] >> 4 == 6:
        addresses, at, total, number = packet[8:40], 40, 40 + int.from_bytes(packet[4:6], "big"), b""
    else:
        at, total, number = 4 * (packet[0] & 15), int.from_bytes(packet[2:4], "big"), packet[4:6]
        addresses = packet[12:20]
    header = 4 * (packet[at + 12] >> 4)
    data = total - at - header
    if data <= 0:
        return None
    stamp = number or _time_stamp(packet[at + 20:at + header])
    return _Segment(addresses + packet[at:at + 4], packet[at + 4:at + 8] + struct.pack("!I", data) + stamp, total)


def _time_stamp(options: bytes) -> bytes:
    """TCP's own time stamp; nothing if there is none."""
    at = 0
    while at < len(options) and options[at]:
        if options[at] == 8:
            return options[at + 2:at + 6]
        at += 1 if options[at] == 1 else max(options[at + 1] if at + 1 < len(options) else 2, 2)
    return b""


def collect(work_dir: pathlib.Path, raw_dir: pathlib.Path, context: "Context[Options]") -> None:
    import pandas as pd

    from testbed.core.raw_files import write_table
    interval_us = context.options.interval_us
    rows = [{"t_us": sent_ns // 1000 // interval_us * interval_us, "flow": flow, "backward": backward, "bytes": size,
             "delay_us": None if delay_ns is None else delay_ns / 1000}
            for sent_ns, flow, backward, size, delay_ns in _journeys(work_dir, context)]
    each = pd.DataFrame(rows, columns=["t_us", "flow", "backward", "bytes", "delay_us"])
    each["delay_us"] = each["delay_us"].astype("float64")
    each["arrived_bytes"] = each["bytes"].where(each["delay_us"].notna(), 0)
    summed = each.groupby(["t_us", "flow", "backward"], as_index=False).agg(
        sent_packets=("bytes", "size"), sent_bytes=("bytes", "sum"), arrived_packets=("delay_us", "count"),
        arrived_bytes=("arrived_bytes", "sum"), mean_us=("delay_us", "mean"), min_us=("delay_us", "min"),
        max_us=("delay_us", "max"))
    write_table(summed.round({"mean_us": 3, "min_us": 3, "max_us": 3}), raw_dir, "journeys")


def _journeys(work_dir: pathlib.Path, context: "Context[Options]") -> Iterator[tuple[int, int, int, int, int | None]]:
    """(when it was sent, ns; flow; whether it is the receiver's; bytes of its IP packet; ns until it arrived, None if
    it did not) of each segment with data that is of a flow and was sent before the end."""
    network, t0_ns = context.network, context.t0_ns + noted_ns(work_dir / _CLOCKS)
    owners = Owners([flow for flow in context.flows if flow.transport == "tcp"])
    sent: list[tuple[int, _Segment]] = []
    arrived: dict[tuple[bytes, bytes], collections.deque[int]] = collections.defaultdict(collections.deque)
    for node, device, _ in _devices(network):
        own = _packed_addresses(network, node)
        for time_ns, _, packet in records(work_dir / f"journeys-{device}-{node}"):
            segment = _segment(packet)
            if segment is None or time_ns < t0_ns:
                continue
            half = (len(segment.ends) - 4) // 2
            if segment.ends[:half] in own:
                sent.append((time_ns, segment))
            elif segment.ends[half:2 * half] in own:
                arrived[segment.ends, segment.what].append(time_ns)
    for times in arrived.values():
        if len(times) > 1:
            times.extend(sorted(times.popleft() for _ in range(len(times))))
    end_ns = t0_ns + context.timing.duration_us * 1000
    for time_ns, segment in sorted(sent, key=lambda one: one[0]):
        flow, backward = owners.of(segment.ends)
        if not flow or time_ns >= end_ns:
            continue
        times = arrived.get((segment.ends, segment.what), collections.deque())
        yield (time_ns - t0_ns, flow, backward, segment.ip_bytes, times.popleft() - time_ns if times else None)


def _packed_addresses(network: Description, node: str) -> set[bytes]:
    return {ipaddress.ip_address(address).packed for one in network.nodes if one.name == node
            for address in one.addresses}
