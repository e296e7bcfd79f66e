# SPDX-License-Identifier: GPL-2.0-only
"""Samples of each bottleneck's queue follow from one another: packets leave at the link's rate, and a buffer drops when
it is full.

What one row says bounds the next: no packet leaves uncounted, a queue that cannot have run empty has sent at the link's
rate, and one without active management was at its limit when it dropped. So rows of another time, another run or
in another unit show, and drops that were moved.
"""
from collections.abc import Callable, Iterator

import numpy as np

from testbed.checks import NOT_APPLICABLE, Evidence, Finding
from testbed.checks._measured import Columns, of_links
from testbed.core import ip
from topologies import queues
from topologies.links import varying
from topologies.links.records import Link

NEEDS = ("kernel",)

#: of an Ethernet frame with nothing but the headers of IP and UDP in it
_LEAST_FRAME_BYTES = 42
#: what hosts hand over at once
_LARGE_BYTES = 1 << 16
#: the frame that is being sent at either end of an interval, and what the shaper's clock is early
_FRAMES = 2


def check(evidence: Evidence) -> Iterator[Finding]:
    links = {link.name: link for link in evidence.network.links if link.bottleneck}
    queue = evidence.table("queue")
    if queue is None or not links:
        return                                  # of a table that is missing other checks complain
    if evidence.clock != "virtual":
        yield Finding(NOT_APPLICABLE, "on this clock the counters of a queue are not read at one instant")
        return
    largest = {name: (link.mtu_bytes + ip.ETHERNET_BYTES) * link.most_segments for name, link in links.items()}
    if any(link.gso for link in evidence.network.links):
        largest = dict.fromkeys(links, _LARGE_BYTES)
    problems = [f"{name}: {problem}" for name, rows in of_links(queue, links)
                for problem in _link(links[name], rows, largest[name])]
    for problem in problems:
        yield Finding("invalid", problem)
    if not problems:
        yield Finding("ok", f"each of {len(queue)} samples of {len(links)} queues follows from the one before it")


def _link(link: Link, rows: Columns, largest: int) -> Iterator[str]:
    packets, size, t_us = rows["backlog_packets"], rows["backlog_bytes"], rows["t_us"]
    yield from _first(t_us, (size > packets * largest) | (size < packets * _LEAST_FRAME_BYTES), lambda row: (
        f"{size[row]:.0f} bytes cannot be {packets[row]:.0f} packets"))
    sent, sent_bytes, dropped = (np.diff(rows[name]) for name in ("sent_packets", "sent_bytes", "drops"))
    span_us = np.diff(t_us)
    yield from _first(t_us[1:], (sent_bytes > sent * largest) | (sent_bytes < sent * _LEAST_FRAME_BYTES), lambda row: (
        f"{sent_bytes[row]:.0f} bytes sent cannot be {sent[row]:.0f} packets"))
    yield from _first(t_us[1:], packets[1:] < packets[:-1] - sent - dropped, lambda row: (
        f"of {packets[row]:.0f} packets {packets[row + 1]:.0f} are left after {span_us[row] / 1000:g} ms in which it "
        f"sent {sent[row]:.0f} and dropped {dropped[row]:.0f}"))
    if not varying.varies(link, "limit") and queues.traits(link).tail_drop:
        yield from _limit(link, rows, largest)
    if not varying.changes(link) and not link.opportunities:
        yield from _rate(link, rows, largest)


def _limit(link: Link, rows: Columns, largest: int) -> Iterator[str]:
    """A buffer holds no more than its limit, and drops only at it."""
    unit, one = ("packets", 1) if link.limit_packets is not None else ("bytes", largest)
    limit, held, left = link.limit, rows[f"backlog_{unit}"], np.diff(rows[f"sent_{unit}"])
    # while a link that changes is down the packet that would go next counts, too, and not in the limit
    more = one * bool(varying.changes(link))
    yield from _first(rows["t_us"], held > limit + more, lambda row: (
        f"it holds {held[row]:.0f}, of {limit} that it has room for"))
    dropped, most = np.diff(rows["drops"]), held[1:] + left + one - 1     # a packet needs room for all of it
    yield from _first(rows["t_us"][1:], (dropped > 0) & (most < limit), lambda row: (
        f"it dropped {dropped[row]:.0f} packets since the last sample, though it held {most[row]:.0f} at most, of "
        f"{limit} that it has room for"))


def _rate(link: Link, rows: Columns, largest: int) -> Iterator[str]:
    """No more is sent than the rate allows, and no less where the queue cannot have been empty."""
    sent, span_us = np.diff(rows["sent_bytes"]), np.diff(rows["t_us"])
    carries = link.rate_bps * span_us / 8e6

    def describe(row: int) -> str:
        return (f"{sent[row]:.0f} bytes sent in {span_us[row] / 1000:g} ms, the link carries {carries[row]:.0f}, and "
                f"{rows['backlog_bytes'][row]:.0f} waited")
    wrong = sent > carries + _FRAMES * largest
    if queues.traits(link).tail_drop:
        wrong |= (rows["backlog_bytes"][:-1] > carries) & (sent < carries - _FRAMES * largest)
    yield from _first(rows["t_us"][1:], wrong, describe)


def _first(t_us: np.ndarray, wrong: np.ndarray, describe: Callable[[int], str]) -> Iterator[str]:
    """What is wrong at the first of these times, and at how many it is."""
    if wrong.any():
        row, count = int(np.argmax(wrong)), int(wrong.sum())
        yield f"at {t_us[row] / 1e6:g} s {describe(row)}" + f" ({count} such samples)" * (count > 1)
