# SPDX-License-Identifier: GPL-2.0-only
"""Loss of chosen segments: for experiments in which it matters which packet is lost.

The k-th segment, counted from 1, is the full-sized one (1448 bytes of payload, over IPv6 1428: 1500 bytes with IP
and TCP headers and time stamps; of a link with another MTU so much more or less) with sequence number (k - 1) * 1448 or
1428. That is the k-th of a bulk
transfer whose first byte has sequence number 0; a transfer whose connection got a random initial
sequence number loses nothing, but for a coincidence (one segment in three million), and two
transfers that both start at 0 share the losses: whichever passes first loses its segment.
"""
from collections.abc import Sequence

from testbed.core import ip

#: over IPv4
SEGMENT_BYTES = 1448
#: sequence numbers have 32 bits
LAST_SEGMENT = (2**32 - 1) // SEGMENT_BYTES + 1
#: tc's list of filters is searched for every packet
MOST_LOSSES = 500
#: how many copies of a segment a filter counts before it would begin anew: 2 to the power of this
_HALVINGS = 8


def filters(device: str, lose_segments: Sequence[int], lose_copies: int, ip_version: int = 4,
            mtu_bytes: int = ip.MTU_BYTES) -> list[str]:
    """tc batch lines that drop the chosen segments at the ingress of `device`, before any other filter.

    One filter loses one copy: gact's `determ` hands every second packet on to the next filter, so that
    of a row of them only the first of 256 packets reaches the drop. (A policer whose bucket holds one
    packet would do, too, but count bytes, and lose another copy when the bucket has filled again.)
    """
    size = ip.segment_bytes(ip_version, mtu_bytes)
    once = "action gact pipe random determ continue 2 " * _HALVINGS + "action gact drop"
    if ip_version == 6:
        # where its header has the length of what follows and the next header, and TCP its sequence number
        what, at = f"ipv6 pref 1 u32 match u8 6 0xff at 6 match u16 {mtu_bytes - 40} 0xffff at 4", 44
    else:
        what, at = f"ip pref 1 u32 match ip protocol 6 0xff match u16 {mtu_bytes} 0xffff at 2", 24
    return [f"filter add dev {device} parent ffff: protocol {what} match u32 {(number - 1) * size} 0xffffffff at {at} "
            f"{once}" for number in lose_segments for _ in range(lose_copies)]
