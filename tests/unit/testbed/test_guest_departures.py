# SPDX-License-Identifier: GPL-2.0-only
"""What a link carries while it has something to send, of events that are given."""
import json
import pathlib
import struct

import pytest

from testbed.guest import departures
from topologies.links.records import Link, Network

FRAME_NS = 1000


def served(arrivals_ns, takes_ns=FRAME_NS, limit=10**6, addresses=10**6):
    """Events of a queue of `limit` frames in front of a link that needs takes_ns for each; what finds no room is
    dropped. The link takes a frame before one that comes at the same time is looked at."""
    events, waiting, free_ns = [], [], 0
    for number, t_ns in enumerate(arrivals_ns):
        while waiting and free_ns <= t_ns:
            events.append((free_ns, waiting.pop(0), True))
            free_ns += takes_ns
        if len(waiting) == limit:
            continue
        events.append((t_ns, number % addresses, False))
        if not waiting and free_ns <= t_ns:
            events.append((t_ns, number % addresses, True))
            free_ns = t_ns + takes_ns
        else:
            waiting.append(number % addresses)
    for packet in waiting:
        events.append((free_ns, packet, True))
        free_ns += takes_ns
    return events


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_an_overloaded_fifo_of_any_size(limit):
    """A queue of one frame is empty for half of the time, its link is not."""
    seen = departures.seen(served(range(0, 1_000_000, 500), limit=limit), FRAME_NS)
    assert seen.busy_ns == seen.packets * FRAME_NS and seen.packets >= 999 and seen.longest == limit


def test_a_link_that_has_nothing_to_send_is_not_slow():
    """An AQM lets 40 frames in and then none for a while, again and again; of each 40 the first found the link idle."""
    arrivals = [begin + 500 * number for begin in range(0, 1_000_000, 100_000) for number in range(40)]
    seen = departures.seen(served(arrivals), FRAME_NS)
    assert seen == (10 * 39, 10 * 39 * FRAME_NS, 20)


@pytest.mark.parametrize("takes_ns", [990, 1010, 2000])
@pytest.mark.parametrize("limit", [1, 100])
def test_a_link_of_another_rate(takes_ns, limit):
    seen = departures.seen(served(range(0, 1_000_000, 500), takes_ns, limit), FRAME_NS)
    assert seen.packets > 400 and seen.busy_ns == seen.packets * takes_ns


def test_a_link_that_pauses_though_frames_wait():
    events = [(t_ns + 300 * (t_ns > 50_000), *rest) for t_ns, *rest in served(range(0, 100_000, 500))]
    seen = departures.seen(events, FRAME_NS)
    assert seen.busy_ns == seen.packets * FRAME_NS + 300


def test_what_was_there_before_the_first_event():
    """100 frames waited already, and none leaves before ten more have come."""
    events = served([0] * 101 + [500] * 10)[101:]
    assert departures.seen(events, FRAME_NS) == (109, 109 * FRAME_NS, 110)


def test_addresses_are_used_again():
    """Frame 7 was dropped after it had waited; another one gets its address, and finds the link idle."""
    events = [(0, 1, False), (0, 1, True), (100, 7, False), (50_000, 7, False), (50_000, 7, True)]
    assert departures.seen(events, FRAME_NS) == (0, 0, 1)
    assert departures.seen(served(range(0, 100_000, 500), limit=5, addresses=20), FRAME_NS).longest == 5
    assert departures.seen([], FRAME_NS) == (0, 0, 0)


LINK = Link({"name": "there", "ifindex": 3, "rate_bps": 12_112_000, "queue": "pfifo", "queue_options": {}})


class Recorder:
    """Leaves what the kernel's module does: three frames that waited for each other, 1 ms each; ten were there."""
    lost = 0

    def __init__(self, links, work_dir):
        self.folder = pathlib.Path(work_dir)
        assert links == [LINK]

    def open(self):
        events = [(1, 0, 5), (1, 0, 6), (1, 1, 5), (1, 0, 7), (2, 1, 6), (3, 1, 7)]
        (self.folder / "sojourn.log").write_bytes(b"".join(
            struct.pack("=QQ", t_ms * 10**6 << 16 | left, packet) for t_ms, left, packet in events))

    def close(self):
        return {"lost_events": self.lost}


@pytest.mark.parametrize("queue, lost, expected", [
    ("pfifo", 0, [12_112_000.0, 2, 2000.0, 2, 3028]), ("codel", 0, [12_112_000.0, 2, 2000.0, 1, 1514]),
    ("pfifo", 1, [0.0, 0, 0.0, 1, 1514])])
def test_what_is_added_to_the_checks(tmp_path, monkeypatch, queue, lost, expected):
    """Readings saw one frame in the queue. What is known in part only is no measurement."""
    monkeypatch.setattr(departures.sojourn, "recorder", Recorder)
    monkeypatch.setattr(Recorder, "lost", lost)
    noted = departures.Log(LINK, str(tmp_path)).close()
    checks = tmp_path / "checks.json"
    unmeasured = {"link": "over the air", "overloaded": False}
    checks.write_text(json.dumps({"bottlenecks": [
        unmeasured, {"link": "there", "longest_queue_packets": 1, "longest_queue_bytes": 1514, **noted}]}))
    network = Network({"links": [LINK.changed(queue=queue).content(), {"name": "over the air"}]})
    departures.complete(tmp_path, checks, network)
    air, there = json.loads(checks.read_text())["bottlenecks"]
    assert air == unmeasured
    assert [there[name] for name in ("measured_bps", "window_packets", "busy_us", "longest_queue_packets",
                                     "longest_queue_bytes")] == expected
