# SPDX-License-Identifier: GPL-2.0-only
"""Bytes that connections put on a link, with the headers that somebody counts."""
from dataclasses import dataclass, replace

import numpy as np

from testbed.core.ip import MTU_BYTES
from traffic.tmix.batch import Batch
from traffic.tmix.vectors import ACCEPTOR, INITIATOR

DEFAULT_MSS = 1460
#: by which an IPv6 header is larger than one of IPv4
_IPV6_BYTES = 20


@dataclass(frozen=True)
class Overhead:
    """What is counted beside payload.

    header_bytes: of each packet. option_bytes: the part of them that takes room from the payload. packets_per_ack:
    data packets that one acknowledgement, a packet without payload, is for. syn_bytes: of a SYN; 0: neither opening nor
    closing of connections counts. mss: payload and options of a full packet.
    """
    header_bytes: int
    option_bytes: int
    packets_per_ack: int
    syn_bytes: int
    mss: int = DEFAULT_MSS

    def over(self, ip_version: int, mtu_bytes: int = MTU_BYTES) -> "Overhead":
        """The same over a version of IP, in packets of at most mtu_bytes."""
        more = _IPV6_BYTES if ip_version == 6 else 0
        return replace(self, header_bytes=self.header_bytes + more, mss=self.mss + mtu_bytes - MTU_BYTES - more,
                       syn_bytes=self.syn_bytes + more if self.syn_bytes else 0)


#: IPv4 20 + TCP 20 + timestamp option 12; a SYN also has MSS, SACK permitted and window scale, 8 bytes more. Linux
#: acknowledges every second packet (RFC 1122, 4.2.3.2).
IP = Overhead(52, 12, 2, 60)
#: Ethernet header 14: what a qdisc counts
L2 = Overhead(66, 12, 2, 74)
#: preamble 8, frame check sequence 4, gap between frames 12
WIRE = Overhead(90, 12, 2, 98)
#: IPv4 20 + TCP 20, and an acknowledgement for each packet, as the evaluation suite counts
SUITE = Overhead(40, 0, 1, 0)
OVERHEADS = {"ip": IP, "l2": L2, "wire": WIRE, "suite": SUITE}


def packet_payload_bytes(mss: np.ndarray, overhead: Overhead = L2) -> np.ndarray:
    """Payload of a full packet of each side, like `mss`: the side's `m` value (-1: none) without options."""
    return np.where(mss > 0, np.minimum(mss, overhead.mss), overhead.mss) - overhead.option_bytes


def packets(batch: Batch, overhead: Overhead = L2) -> np.ndarray:
    """Number of packets of each ADU, int64[adus]; 0 for a FIN."""
    payload = packet_payload_bytes(batch.mss, overhead)[batch.owner, batch.side]
    return -(-batch.size_bytes // payload)


def wire_bytes(batch: Batch, overhead: Overhead = L2) -> np.ndarray:
    """Bytes of every ADU or FIN of a batch in each direction (from the initiator, from the acceptor), float64[2, adus]:
    data, its acknowledgements, opening and closing. FINs are explicit."""
    count = packets(batch, overhead)
    wire = np.zeros((2, len(count)))
    data = batch.size_bytes + overhead.header_bytes * count
    acks = overhead.header_bytes * -(-count // overhead.packets_per_ack)
    for side in (INITIATOR, ACCEPTOR):
        rows = batch.side == side
        wire[side, rows] += data[rows]
        wire[1 - side, rows] += acks[rows]
    if overhead.syn_bytes:
        opening = batch.first[:-1]
        wire[INITIATOR, opening] += overhead.syn_bytes + overhead.header_bytes      # SYN, ACK
        wire[ACCEPTOR, opening] += overhead.syn_bytes                               # SYN-ACK
        # who closes first sends FIN and the last ACK, the other side's FIN acknowledges the first
        fins = np.flatnonzero(batch.size_bytes == 0)
        owners = np.searchsorted(batch.first, fins, "right") - 1
        closing = fins[np.unique(owners, return_index=True)[1]]
        wire[batch.side[closing], closing] += 2 * overhead.header_bytes
        wire[1 - batch.side[closing], closing] += overhead.header_bytes
    return wire
