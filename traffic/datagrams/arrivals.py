# SPDX-License-Identifier: GPL-2.0-only
"""What arrives of a UDP flow: packets, bytes, what is missing, one-way delays."""
import bisect
import math
import socket
import struct
from collections import Counter

_SO_MEMINFO, _MEMINFO_DROPS = 55, 8
_PERCENTILES = (50, 95, 99)


def socket_drops(receiver: socket.socket) -> int:
    """Packets for which a socket had no room."""
    return int(struct.unpack("=9I", receiver.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 36))[_MEMINFO_DROPS])


class Gaps:
    """Numbers below the highest one that have not come, as ranges: of an overload there are tens of millions."""

    def __init__(self) -> None:
        self._from: list[int] = []
        self._to: list[int] = []

    def append(self, first: int, end: int) -> None:
        """Numbers from `first` to before `end` are missing; none so far is as high."""
        if first < end:
            self._from.append(first)
            self._to.append(end)

    def fill(self, number: int) -> bool:
        """Whether a number was missing; now it is there."""
        at = bisect.bisect_right(self._from, number) - 1
        if at < 0 or number >= self._to[at]:
            return False
        first, end = self._from[at], self._to[at]
        rest = [(one, other) for one, other in ((first, number), (number + 1, end)) if one < other]
        self._from[at:at + 1], self._to[at:at + 1] = [one for one, _ in rest], [other for _, other in rest]
        return True


class Arrivals:
    """Counts of the packets of a flow that arrive."""

    def __init__(self, header_bytes: int) -> None:
        """header_bytes: of IP and UDP."""
        self._header_bytes = header_bytes
        self._packets = self._bytes = self._reordered = self._duplicates = 0
        self._next = 0                          # the number after the highest that came
        self._missing = Gaps()
        self._delays_us: Counter[int] = Counter()
        self._delays_ns = 0

    def count(self, size: int, number: int, delay_ns: int) -> None:
        """A packet with a payload of `size` bytes."""
        if number >= self._next:
            self._missing.append(self._next, number)
            self._next = number + 1
        elif self._missing.fill(number):
            self._reordered += 1
        else:
            self._duplicates += 1
            return
        self._packets += 1
        self._bytes += size + self._header_bytes
        self._delays_us[delay_ns // 1000] += 1
        self._delays_ns += delay_ns

    def counts(self) -> dict[str, float]:
        return {"received_packets": self._packets, "received_bytes": self._bytes,
                "reordered_packets": self._reordered, "duplicate_packets": self._duplicates, **self._delays()}

    def _delays(self) -> dict[str, float]:
        """One-way delays of the packets that arrived, in whole us; nothing if none did."""
        if not self._packets:
            return {}
        found = {"delay_mean_us": round(self._delays_ns / self._packets / 1000, 3), "delay_min_us": min(
            self._delays_us), "delay_max_us": max(self._delays_us)}
        below, ranks = 0, [(percent, math.ceil(self._packets * percent / 100)) for percent in _PERCENTILES]
        for delay_us, packets in sorted(self._delays_us.items()):
            below += packets
            while ranks and below >= ranks[0][1]:
                found[f"delay_p{ranks.pop(0)[0]}_us"] = delay_us
        return found
