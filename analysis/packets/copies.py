# SPDX-License-Identifier: GPL-2.0-only
"""Segments that a capture has twice: mirror ports, several interfaces at once, a network that doubles packets.

A copy has the IP identification and the TCP header of the first one; tags, addresses of Ethernet, TTL and ECN may have
changed on its way. What a host sends again may look the same, as many stacks leave the identification 0 (RFC 6864) and
IPv6 has none. It is a copy if one of these shows it:

* its sender counts: segments that differ have different identifications, and these two have the same;
* it comes sooner than its sender could know that the first one was lost;
* its sender's clock (timestamps, RFC 7323) has ticked since, but its timestamp is that of the first one.
"""

from __future__ import annotations

import dataclasses
import struct
from collections import OrderedDict

from analysis.packets import FIN, SYN, Packet, options

#: how many segments are remembered to recognise copies of them
_REMEMBERED = 1 << 14
#: nobody sends a SYN again sooner (RFC 6298: a second)
_SYN_AGAIN_NS = 100_000_000
_STAMPS = (8, 10)
_HALF, _SIZE = 1 << 31, 1 << 32


@dataclasses.dataclass
class _Sender:
    """What is known of a sender's identifications and clock: the first ones that were seen."""

    since_ns: int
    stamp: int | None
    ident: int = 0
    counts: bool = False


class Copies:
    """Tells copies in a capture, packet by packet."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[object, ...], int] = OrderedDict()
        self._senders: dict[tuple[object, ...], _Sender] = {}

    def has(self, packet: Packet, again_ns: int) -> bool:
        """Whether it is a copy of one before. again_ns: one with data that is sent again comes no sooner.
        ACKs without data that look the same are copies only if their sender counts: a receiver repeats them at once.
        """
        now, way = packet.time_ns, (packet.src, packet.dst)
        if packet.flags & SYN:
            again_ns = _SYN_AGAIN_NS
        sender = self._senders.get(way)
        if sender is None:
            sender = self._senders[way] = _Sender(now, _stamp(packet))
        sender.counts = sender.counts or sender.ident != 0 and packet.ident not in (0, sender.ident)
        sender.ident = sender.ident or packet.ident
        identified = sender.counts and packet.ident != 0
        numbered = bool(packet.size or packet.flags & (SYN | FIN))
        if not identified and not numbered:
            return False
        key = (packet.src[0], packet.dst[0], packet.ident, packet.header)     # the header has the ports
        seen = self._seen.pop(key, None)
        if seen is not None and (identified or numbered and (
                abs(now - seen) < again_ns or _stands_still(sender, seen, packet))):
            self._seen[key] = seen
            return True
        self._seen[key] = now
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        if packet.flags & SYN:              # another connection may have another clock
            sender.since_ns, sender.stamp = now, _stamp(packet)
        return False


def _stamp(packet: Packet) -> int | None:
    value = options(packet.header[18:]).get(_STAMPS)
    return None if value is None else int(struct.unpack_from("!I", value)[0])


def _stands_still(sender: _Sender, seen_ns: int, packet: Packet) -> bool:
    """Whether the sender's clock, as fast as it went until the first one, ticks twice at least before this one."""
    stamp = _stamp(packet)
    if stamp is None or sender.stamp is None or seen_ns <= sender.since_ns:
        return False
    ticks = (stamp - sender.stamp + _HALF) % _SIZE - _HALF
    return ticks * (packet.time_ns - seen_ns) >= 2 * (seen_ns - sender.since_ns)
