# SPDX-License-Identifier: GPL-2.0-only
"""Which packets entered and left a queue, and when: the rate of a link while it has something to send.

A link that is overloaded is not always busy. An AQM that averages slowly drops everything for a while, and its queue
runs empty. So the rate is that of frames which came while the frame before them was being sent: whatever the queue,
such a frame begins when the one before has ended. Between the two the link carried one frame, without a pause.
"""
import itertools
import json
import os
import pathlib
from collections.abc import Iterable
from typing import NamedTuple

from testbed.probes import sojourn
from topologies import queues
from topologies.links.records import Link, Network

#: when (ns), which packet, whether it left
Event = tuple[int, int, bool]

#: others may drop what has entered, or take what they deny, and remember packets that have left


class Seen(NamedTuple):
    """packets: that came while the one before them was being sent; busy_ns: how long all those before took together;
    longest: the most packets that were in the queue at once, if all that entered it left it by being sent."""
    packets: int
    busy_ns: int
    longest: int


class Log:
    """Notes what enters and leaves the queue of a link, all of which is to leave before it is closed (in the guest)."""

    def __init__(self, link: Link, work_dir: str) -> None:
        folder = _folder(work_dir, link)
        os.makedirs(folder)
        self._recorder = sojourn.recorder([link], str(folder))
        self._recorder.open()

    def close(self) -> dict[str, object]:
        """What is known in the guest of what was noted."""
        return self._recorder.close()


def complete(work_dir: pathlib.Path, checks: pathlib.Path, network: Network) -> None:
    """Add to checks.json what links carried and queues held while they were overloaded (outside of the guest)."""
    from testbed.core.files import write_json
    measured = json.loads(checks.read_text(encoding="utf-8"))
    links, frame_bytes = {link.name: link for link in network.links}, network.frame_bytes()
    for one in measured["bottlenecks"]:
        folder, link = _folder(work_dir, links[one["link"]]), links[one["link"]]
        if not folder.exists():
            continue                            # nothing could overload it
        what = seen([] if one["lost_events"] else _events(folder, link.ifindex),
                    frame_bytes * 8e9 / link.rate_bps)
        # readings may always meet the queue in the same phase
        longest = what.longest if queues.traits(link).tail_drop else 0
        one.update(measured_bps=what.packets * frame_bytes * 8e9 / max(what.busy_ns, 1), window_packets=what.packets,
                   busy_us=what.busy_ns / 1000,
                   longest_queue_packets=max(one["longest_queue_packets"], longest),
                   longest_queue_bytes=max(one["longest_queue_bytes"], longest * frame_bytes))
    write_json(checks, measured)


def _folder(work_dir: str | pathlib.Path, link: Link) -> pathlib.Path:
    return pathlib.Path(work_dir, "departures", link.name)


def _events(folder: pathlib.Path, ifindex: int) -> Iterable[Event]:
    """What was noted, in the order of time."""
    for when, packet, left, _ in sojourn.events(folder, [ifindex]):
        yield from zip(when.tolist(), packet.tolist(), left.tolist())


def seen(events: Iterable[Event], frame_ns: float) -> Seen:
    """What a link did whose frames take frame_ns each."""
    entered: dict[int, tuple[int, int]] = {}
    changes: list[int] = []                     # of the queue's length, event by event
    packets = busy_ns = there = 0
    before_ns: int | None = None
    for number, (t_ns, packet, left) in enumerate(events):
        changes.append(-left)
        if not left:
            entered[packet] = number, t_ns      # again, if one that had this address was dropped
            continue
        came = entered.pop(packet, None)
        if came is None:
            there += 1                          # it was in the queue before the first event
        else:
            changes[came[0]] = 1
        if before_ns is not None and (came is None or came[1] < before_ns + frame_ns):
            packets, busy_ns = packets + 1, busy_ns + t_ns - before_ns
        before_ns = t_ns
    return Seen(packets, busy_ns, max(itertools.accumulate(changes, initial=there)))
