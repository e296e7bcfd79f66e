# SPDX-License-Identifier: GPL-2.0-only
"""Packets that leave a queue with a congestion mark (CE), flow by flow (-> ce_marks.csv.gz).

    ce_marks: {interval: 100 ms}        what packets are summed up over

Every run has it whose queues may mark (topologies/marking.py). A queue's own counter says how many packets it marked,
but not whose; here the kernel copies the headers of every packet that leaves with CE. Which flow a packet is of, its
addresses and ports say: no two flows of a run have the same port at their receivers, or, where a program listens at
the sender and its client takes any port, at their senders.
"""
import collections
import dataclasses
import pathlib
import struct
from collections.abc import Collection, Mapping
from typing import Any

from testbed import fields
from testbed.probes._packets import Ring, RingSampler, noted_ns, outgoing_marked, records
from topologies import marking

Json = dict[str, Any]

#: Ethernet, IPv4 with all of its options, ports (IPv6 has a shorter header)
_SNAP_BYTES = 14 + 60 + 4
#: packets of a queue between two looks: 10 Gbit/s of full packets, all of them marked
_FRAMES, _LOOK_US = 1 << 13, 10_000
_CLOCKS = "ce_marks.ahead"
_IPV6 = 0x86DD


@dataclasses.dataclass(frozen=True)
class Options:
    """interval: what packets are summed up over."""
    interval_us: int = fields.time(default=100_000, least=1000)


class Sampler(RingSampler):
    """A ring at each queue that may mark."""
    interval_us = _LOOK_US

    def __init__(self, settings: Json, network: Any, description: Json, work_dir: str) -> None:
        super().__init__(f"{work_dir}/{_CLOCKS}")
        for link in _links(description):
            with network.in_namespace(link["from"]):
                self.rings.append(Ring(link["device"], outgoing_marked(_SNAP_BYTES), _SNAP_BYTES, _FRAMES,
                                       f"{work_dir}/ce_marks-{link['device']}"))


def _links(network: Mapping[str, Any]) -> list[Json]:
    """Those whose queues may mark."""
    return [link for link in network["links"] if marking.marks(link)]


def collect(work_dir: pathlib.Path, raw_dir: pathlib.Path, context: Json) -> None:
    import pandas as pd

    from testbed import raw_tables
    from testbed.raw_files import write_table
    t0_ns = context["t0_ns"] + noted_ns(work_dir / _CLOCKS)
    interval_us = context["settings"].get("interval_us", 100_000)
    owners = _Owners(context["flows"])
    rows = []
    for number, link in enumerate(_links(context["network"])):
        counted: collections.Counter[tuple[int, int, int]] = collections.Counter()
        sizes: collections.Counter[tuple[int, int, int]] = collections.Counter()
        for time_ns, size, data in records(work_dir / f"ce_marks-{link['device']}"):
            key = ((time_ns - t0_ns) // 1000 // interval_us * interval_us, *owners.of(data))
            counted[key] += 1
            sizes[key] += size
        rows += [(key[0], number, link["name"], *key[1:], packets, sizes[key]) for key, packets in counted.items()]
    table = pd.DataFrame([(row[0], *row[2:]) for row in sorted(rows)], columns=raw_tables.TABLES["ce_marks"].names())
    write_table(table, raw_dir, "ce_marks")


class _Owners:
    """Which flow a packet is of."""

    def __init__(self, flows: Collection[Mapping[str, Any]]) -> None:
        self._receivers = {(_packed(flow["dst"]), flow["dport"]): flow["flow"] for flow in flows}
        self._listening_senders = {(_packed(flow["src"]), flow["dport"]): flow["flow"] for flow in flows}
        self._known: dict[bytes, tuple[int, int]] = {}

    def of(self, frame: bytes) -> tuple[int, int]:
        """(number of the flow, 1 if the packet goes back to its sender); (0, 0) if it is of none."""
        if struct.unpack_from("!H", frame, 12)[0] == _IPV6:
            ends = frame[22:58]
        else:
            ports = 14 + 4 * (frame[14] & 0x0F)
            ends = frame[26:34] + frame[ports:ports + 4]
        if ends not in self._known:
            self._known[ends] = self._find(ends)
        return self._known[ends]

    def _find(self, ends: bytes) -> tuple[int, int]:
        half = (len(ends) - 4) // 2
        sport, dport = struct.unpack("!HH", ends[2 * half:])
        source, destination = (ends[:half], sport), (ends[half:2 * half], dport)
        for flows, forward, back in ((self._receivers, destination, source),
                                     (self._listening_senders, source, destination)):
            if forward in flows or back in flows:
                return (flows[forward], 0) if forward in flows else (flows[back], 1)
        return 0, 0


def _packed(address: str) -> bytes:
    import ipaddress
    return ipaddress.ip_address(address).packed
