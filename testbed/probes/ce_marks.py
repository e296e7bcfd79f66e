# SPDX-License-Identifier: GPL-2.0-only
"""Packets that leave a queue with a congestion mark (CE), flow by flow (-> ce_marks.csv.gz).

    ce_marks: {interval: 100 ms}        what packets are summed up over

Every run has it whose queues may mark (topologies/queues). A queue's own counter says how many packets it
marked, but not whose; here the kernel copies the headers of every packet that leaves with CE.
"""
import collections
import pathlib
import struct
from typing import TYPE_CHECKING

from testbed.probes._owners import Owners
from testbed.probes._packets import FRAMES, Ring, RingSampler, SumOptions, noted_ns, outgoing_marked, records
from topologies import queues
from topologies.links.records import Link, Network as Description

if TYPE_CHECKING:
    from testbed.probes._context import Context
    from topologies.linux.network import Network


#: Ethernet, IPv4 with all of its options, ports (IPv6 has a shorter header)
_SNAP_BYTES = 14 + 60 + 4
_CLOCKS = "ce_marks.ahead"
_IPV6 = 0x86DD


Options = SumOptions


class Sampler(RingSampler):
    """A ring at each queue that may mark."""

    def __init__(self, options: Options, network: "Network", description: Description, work_dir: str) -> None:
        super().__init__(f"{work_dir}/{_CLOCKS}")
        for link in _links(description):
            with network.in_namespace(link.from_node):
                self.rings.append(Ring(link.device, outgoing_marked(_SNAP_BYTES), _SNAP_BYTES, FRAMES,
                                       f"{work_dir}/ce_marks-{link.device}"))


def _links(network: Description) -> list[Link]:
    """Those whose queues may mark."""
    return [link for link in network.links if queues.traits(link).marks]


def collect(work_dir: pathlib.Path, raw_dir: pathlib.Path, context: "Context[Options]") -> None:
    import pandas as pd

    from testbed.core import raw_tables
    from testbed.core.raw_files import write_table
    t0_ns = context.t0_ns + noted_ns(work_dir / _CLOCKS)
    interval_us = context.options.interval_us
    owners = Owners(context.flows)
    rows = []
    for number, link in enumerate(_links(context.network)):
        counted: collections.Counter[tuple[int, int, int]] = collections.Counter()
        sizes: collections.Counter[tuple[int, int, int]] = collections.Counter()
        for time_ns, size, data in records(work_dir / f"ce_marks-{link.device}"):
            key = ((time_ns - t0_ns) // 1000 // interval_us * interval_us, *owners.of(_ends(data)))
            counted[key] += 1
            sizes[key] += size
        rows += [(key[0], number, link.name, *key[1:], packets, sizes[key]) for key, packets in counted.items()]
    table = pd.DataFrame([(row[0], *row[2:]) for row in sorted(rows)], columns=raw_tables.TABLES["ce_marks"].names())
    write_table(table, raw_dir, "ce_marks")


def _ends(frame: bytes) -> bytes:
    """Addresses and ports of a packet."""
    if struct.unpack_from("!H", frame, 12)[0] == _IPV6:
        return frame[22:58]
    ports = 14 + 4 * (frame[14] & 0x0F)
    return frame[26:34] + frame[ports:ports + 4]
