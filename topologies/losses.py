# SPDX-License-Identifier: GPL-2.0-only
"""Loss of chosen segments: for experiments in which it matters which packet is lost.

The k-th segment, counted from 1, is the full-sized one (1448 bytes of payload: 1500 bytes with IP
and TCP headers and time stamps) with sequence number (k - 1) * 1448. That is the k-th of a bulk
transfer whose first byte has sequence number 0; a transfer whose connection got a random initial
sequence number loses nothing, but for a coincidence (one segment in three million), and two
transfers that both start at 0 share the losses: whichever passes first loses its segment.
"""
from topologies.parameters import ParameterError

SEGMENT_BYTES = 1448
_PACKET_BYTES = 1500
#: sequence numbers have 32 bits
_LAST_SEGMENT = (2**32 - 1) // SEGMENT_BYTES + 1
#: tc's list of filters is searched for every packet
_MOST_LOSSES = 500
#: how many copies of a segment a filter counts before it would begin anew: 2 to the power of this
_HALVINGS = 8


def check(lose_segments, lose_copies):
    """ParameterError unless these are distinct numbers of segments, and how many copies of each to lose."""
    if not isinstance(lose_segments, (list, tuple)) or len(set(map(repr, lose_segments))) != len(lose_segments):
        raise ParameterError("lose_segments", "a list of distinct numbers of segments such as [40, 42] expected")
    for number in lose_segments:
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= _LAST_SEGMENT:
            raise ParameterError("lose_segments", f"whole numbers from 1 to {_LAST_SEGMENT} expected, not {number!r}")
    if isinstance(lose_copies, bool) or not isinstance(lose_copies, int) or lose_copies < 1:
        raise ParameterError("lose_copies", f"a whole number from 1 expected, not {lose_copies!r}")
    if len(lose_segments) * lose_copies > _MOST_LOSSES:
        raise ParameterError("lose_segments", f"{len(lose_segments)} segments, {lose_copies} copies of each: "
                                              f"more than {_MOST_LOSSES} losses")


def filters(device, lose_segments, lose_copies):
    """tc batch lines that drop the chosen segments at the ingress of `device`, before any other filter.

    One filter loses one copy: gact's `determ` hands every second packet on to the next filter, so that
    of a row of them only the first of 256 packets reaches the drop. (A policer whose bucket holds one
    packet would do, too, but count bytes, and lose another copy when the bucket has filled again.)
    """
    once = "action gact pipe random determ continue 2 " * _HALVINGS + "action gact drop"
    return [f"filter add dev {device} parent ffff: protocol ip pref 1 u32 match ip protocol 6 0xff "
            f"match u16 {_PACKET_BYTES} 0xffff at 2 match u32 {(number - 1) * SEGMENT_BYTES} 0xffffffff at 24 {once}"
            for number in lose_segments for _ in range(lose_copies)]
