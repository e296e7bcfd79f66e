# SPDX-License-Identifier: GPL-2.0-only
"""Sojourn times from enqueue and dequeue events: known answers, and a naive matcher."""
import bisect
import collections
import struct

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from testbed.probes import _ring, sojourn
from tests.unit.testbed import ring_pages as ring
from tests.unit.testbed.probe_contexts import context
from topologies.links.records import Link, Network

T0 = 5_000_000_000
LINKS = {
    "links": [
        {"name": "left_to_right", "ifindex": 1001, "bottleneck": True, "queue": "pfifo"},
        {"name": "right_to_left", "ifindex": 1002, "bottleneck": True, "queue": "pfifo"},
        {"name": "n1_to_r1", "ifindex": 0, "bottleneck": False},
    ]
}


def write_work(folder, pages):
    (folder / "qdisc-qdisc_enqueue.format").write_text(ring.ENQUEUE_FORMAT)
    (folder / "qdisc-qdisc_dequeue.format").write_text(ring.DEQUEUE_FORMAT)
    (folder / "sojourn.cpu0.pages").write_bytes(b"".join(pages))


def timed(*steps):
    """Events at T0 + t for (t, fields) in order of t."""
    events, now = [], 0
    for t, fields in steps:
        events.append(ring.event(t - now, fields))
        now = t
    return events


@pytest.fixture
def collect(tmp_path):
    """collect(pages, **context) -> (series, histogram)."""

    def collected(pages, **changes):
        write_work(tmp_path, pages)
        sojourn.collect(tmp_path, tmp_path, context(sojourn, LINKS, t0_ns=T0, **{"interval_us": 10_000, **changes}))
        return pd.read_csv(tmp_path / "sojourn.csv.gz"), pd.read_csv(tmp_path / "sojourn_hist.csv.gz")

    return collected


def rows(table):
    """Without what those waited that were dropped, which no event tells."""
    assert "dropped_us" not in table or table["dropped_us"].isna().all()
    return [tuple(row) for row in table.drop(columns="dropped_us", errors="ignore").itertuples(index=False)]


def test_one_packet(collect):
    series, histogram = collect(
        [ring.page(T0, *timed((0, ring.enqueue(0xA0, 1001)), (250_000, ring.dequeue(0xA0, 1001))))]
    )
    assert rows(series) == [(0, "left_to_right", 1, 250.0, 250.0, 250.0)]
    ((link, low, high, packets),) = rows(histogram)
    assert (link, packets) == ("left_to_right", 1) and low <= 250 < high and high / low < 1.0024


def test_a_packet_whose_queue_denied_to_have_taken_it_counts_from_when_it_came(collect, tmp_path):
    """The first is denied, the second is not: it has both events; the third is dropped, and its address used again."""
    (tmp_path / "net-net_dev_queue.format").write_text(ring.BEFORE_FORMAT)
    series, _ = collect([ring.page(T0, *timed(
        (0, ring.before(0xA0)), (1000, ring.before(0xB0)), (1000, ring.enqueue(0xB0, 1001)),
        (2000, ring.before(0xC0)), (50_000, ring.before(0xC0)), (250_000, ring.dequeue(0xA0, 1001)),
        (251_000, ring.dequeue(0xB0, 1001)), (300_000, ring.dequeue(0xC0, 1001))))])
    assert rows(series) == [(0, "left_to_right", 3, 250.0, 250.0, 250.0)]


def test_two_links_bins_and_means(collect):
    series, _ = collect(
        [
            ring.page(
                T0,
                *timed(
                    (0, ring.enqueue(1, 1002)),
                    (1000, ring.enqueue(2, 1002)),
                    (2000, ring.enqueue(3, 1001)),
                    (101_000, ring.dequeue(1, 1002)),
                    (201_000, ring.dequeue(2, 1002)),
                    (15_000_000, ring.dequeue(3, 1001)),
                ),
            )
        ]
    )
    assert rows(series) == [
        (0, "right_to_left", 2, 150.5, 101.0, 200.0),
        (10_000, "left_to_right", 1, 14998.0, 14998.0, 14998.0),
    ]


def test_a_packet_dropped_after_it_was_queued_is_not_counted(collect):
    """An AQM drops it: its address comes back with another packet."""
    series, _ = collect(
        [
            ring.page(
                T0,
                *timed(
                    (0, ring.enqueue(1, 1001)), (500_000, ring.enqueue(1, 1001)), (600_000, ring.dequeue(1, 1001))
                ),
            )
        ]
    )
    assert rows(series) == [(0, "left_to_right", 1, 100.0, 100.0, 100.0)]


def test_a_dequeue_of_a_packet_queued_before_the_recording_is_not_counted(collect):
    series, _ = collect(
        [
            ring.page(
                T0, *timed((0, ring.dequeue(1, 1001)), (10, ring.enqueue(1, 1001)), (2010, ring.dequeue(1, 1001)))
            )
        ]
    )
    assert rows(series) == [(0, "left_to_right", 1, 2.0, 2.0, 2.0)]


def test_order_counts_where_times_are_equal(collect):
    """In virtual time an address may leave and come back within no time."""
    series, _ = collect(
        [
            ring.page(
                T0,
                *timed(
                    (0, ring.enqueue(1, 1001)),
                    (7000, ring.dequeue(1, 1001)),
                    (7000, ring.enqueue(1, 1001)),
                    (9000, ring.dequeue(1, 1001)),
                    (9000, ring.enqueue(1, 1001)),
                    (9000, ring.dequeue(1, 1001)),
                ),
            )
        ]
    )
    assert rows(series) == [(0, "left_to_right", 3, 3.0, 0.0, 7.0)]


def test_what_is_outside_of_the_experiment_is_not_counted(collect):
    events = timed(
        (0, ring.enqueue(1, 1001)),
        (1000, ring.dequeue(1, 1001)),  # before t0
        (2000, ring.enqueue(2, 1001)),
        (1_000_000, ring.dequeue(2, 1001)),  # at t0
        (1_000_000, ring.enqueue(3, 1001)),
        (20_999_999, ring.dequeue(3, 1001)),  # last of it
        (20_999_999, ring.enqueue(4, 1001)),
        (21_000_000, ring.dequeue(4, 1001)),
    )  # the end
    series, histogram = collect(
        [ring.page(T0 - 1_000_000, *events)], warmup_us=10_000, test_us=10_000
    )
    assert rows(series[["t_us", "packets", "max_us"]]) == [(0, 1, 998.0), (10_000, 1, 19999.999)]
    assert histogram["packets"].sum() == 1 and histogram["low_us"].iloc[0] <= 19999.999 < histogram["high_us"].iloc[0]


def test_batches_that_split_a_packets_events(tmp_path, monkeypatch):
    pages = [
        ring.page(T0, *timed((0, ring.enqueue(1, 1001)), (5, ring.enqueue(2, 1001)))),
        ring.page(T0 + 50, ring.event(0, ring.other())),
        ring.page(T0 + 100, ring.event(0, ring.dequeue(1, 1001))),
        ring.page(T0 + 200, ring.event(0, ring.enqueue(1, 1002))),
        ring.page(T0 + 300, *timed((0, ring.dequeue(1, 1002)), (5, ring.dequeue(2, 1001)))),
    ]
    write_work(tmp_path, pages)
    whole = found(tmp_path, monkeypatch, 100)
    assert whole == [(T0 + 100, 100, 1001), (T0 + 300, 100, 1002), (T0 + 305, 300, 1001)]
    for pages_at_once in (1, 2, 3, 4):
        assert found(tmp_path, monkeypatch, pages_at_once) == whole


def test_no_packet_at_all(collect):
    for pages in ([], [ring.page(T0)], [ring.page(T0, ring.event(1, ring.enqueue(1, 1001)))]):
        series, histogram = collect(pages)
        assert len(series) == 0
        assert list(series) == ["t_us", "link", "packets", "mean_us", "min_us", "max_us", "dropped_us"]
        assert len(histogram) == 0 and list(histogram) == ["link", "low_us", "high_us", "packets"]


def test_equal_data_give_equal_files(tmp_path, collect):
    page = ring.page(T0, *timed((0, ring.enqueue(1, 1001)), (123_457, ring.dequeue(1, 1001))))
    collect([page])
    first = (tmp_path / "sojourn.csv.gz").read_bytes()
    collect([page])
    assert (tmp_path / "sojourn.csv.gz").read_bytes() == first


def found(folder, monkeypatch, pages_at_once):
    monkeypatch.setattr(sojourn, "decode", lambda *where: _ring.decode(*where, pages_at_once))
    return [tuple(int(v) for v in row) for batch in sojourn._sojourns(sojourn._traced(folder))
            for row in zip(*batch)]


def log_of(events):
    """What queues/log.c notes of (t_ns, "e" or "d", address, ifindex); of others nothing."""
    return b"".join(
        struct.pack("<QQ", t << 16 | (ifindex - 1001) << 1 | (what == "d"), skb)
        for t, what, skb, ifindex in events
        if what in "ed"
    )


def test_a_log_gives_the_same_tables(tmp_path, collect):
    traced = collect([ring.page(T0, *timed((0, ring.enqueue(7, 1002)), (250_000, ring.dequeue(7, 1002))))])
    (tmp_path / "sojourn.log").write_bytes(log_of([(T0, "e", 7, 1002), (T0 + 250_000, "d", 7, 1002)]))
    (tmp_path / "sojourn.cpu0.pages").unlink()
    for one, other in zip(traced, collect([])):
        pd.testing.assert_frame_equal(one, other)


def test_a_log_that_ends_in_an_entry_is_none(tmp_path):
    (tmp_path / "log").write_bytes(bytes(24))
    with pytest.raises(ValueError, match="log: ends in the middle of an entry"):
        list(sojourn._logged(tmp_path / "log", [1001]))


def test_what_the_module_notes_is_copied(tmp_path, monkeypatch):
    """The device is a file here: what is written to it comes before what is read."""
    entries = log_of([(T0 + number, "e", number, 1001) for number in range(10_000)])
    (tmp_path / "device").write_bytes(bytes(8) + entries)
    (tmp_path / "lost").write_text("3\n")
    monkeypatch.setattr(sojourn, "_LOG", str(tmp_path / "device"))
    monkeypatch.setattr(sojourn, "_PARAMETERS", str(tmp_path))
    links = [Link({**link, "queue_options": {}}) for link in LINKS["links"] if link["bottleneck"]]
    sampler = sojourn.recorder(links, str(tmp_path))
    sampler.open()
    sampler.sample(0)
    assert sampler.close() == {"lost_events": 3}
    assert (tmp_path / "device").read_bytes()[:8] == struct.pack("=II", 1001, 1002)
    assert (tmp_path / "sojourn.log").read_bytes() == entries


def counts_of(packets, measure_from_ns, interval_ns=10_000_000):
    """What queues/sojourn.c tells of packets (left after T0, ns; time in the queue, ns; ifindex), in any order."""
    sums, bins = {}, collections.Counter()
    for left, time, ifindex in sorted(packets):
        sums.setdefault((left // interval_ns, ifindex - 1001), []).append(time)
        if left >= measure_from_ns:
            bins[ifindex - 1001, bisect.bisect_right(sojourn.bin_edges_ns(), time) - 1] += 1
    return b"".join([
        *(struct.pack("=6Q2I", place, len(times), sum(times), min(times), max(times), 1000 * place, number, 0)
          for (place, number), times in sums.items()),
        *(struct.pack("=6Q2I", place, packets, 0, 0, 0, 0, number, 1) for (number, place), packets in bins.items())])


@settings(deadline=None, max_examples=50, database=None, suppress_health_check=list(HealthCheck))
@given(packets=st.lists(st.tuples(st.integers(0, 10**9 - 1), st.one_of(
    st.integers(0, 2000), st.sampled_from(sojourn.bin_edges_ns()[1:]), st.integers(0, 2 * 10**12)),
    st.sampled_from([1001, 1002])), max_size=30))
def test_what_the_module_counts_gives_the_same_tables(tmp_path, packets):
    """As each packet by itself, at the edges of bins, too."""
    told = context(sojourn, LINKS, t0_ns=T0, warmup_us=500_000, test_us=500_000)
    for folder in ("each", "sums"):
        (tmp_path / folder).mkdir(exist_ok=True)
    batch = np.array(sorted(packets), dtype=np.int64).reshape(-1, 3)
    sojourn.write_tables(iter([(batch[:, 0] + T0, batch[:, 1], batch[:, 2])]), tmp_path / "each", told)
    (tmp_path / "sojourn.counts").write_bytes(counts_of(packets, 500_000_000))
    sojourn.collect(tmp_path, tmp_path / "sums", told)
    name = "sojourn_hist.csv.gz"
    assert (tmp_path / "sums" / name).read_bytes() == (tmp_path / "each" / name).read_bytes()
    counted, each = (pd.read_csv(tmp_path / folder / "sojourn.csv.gz") for folder in ("sums", "each"))
    assert (counted["dropped_us"] == counted["t_us"] / 10_000).all() and rows(each) == rows(
        counted.drop(columns="dropped_us"))


def test_queues_that_may_mark_have_histograms_by_codepoint(tmp_path):
    """Two packets with ECT(1) and one without ECN in the second queue, which may mark; the first may not."""
    def row(codepoint, bin_, packets, number):
        return struct.pack("=6Q2I", bin_, packets, 0, 0, 0, 0, number, 1 + codepoint)
    links = [{**LINKS["links"][0]}, {**LINKS["links"][1], "queue": "codel", "queue_options": {"ecn": True}}]
    (tmp_path / "sojourn.counts").write_bytes(
        row(0, 5, 4, 0) + row(1, 5, 2, 1) + row(0, 7, 1, 1) + row(3, 7, 3, 1))
    sojourn.collect(tmp_path, tmp_path, context(sojourn, {"links": links}, t0_ns=T0))
    table = pd.read_csv(tmp_path / "sojourn_codepoints.csv.gz")
    assert list(table[["link", "codepoint", "packets"]].itertuples(index=False, name=None)) == [
        ("right_to_left", "not_ect", 1), ("right_to_left", "ect1", 2), ("right_to_left", "ce", 3)]
    together = pd.read_csv(tmp_path / "sojourn_hist.csv.gz")
    assert list(together[["link", "packets"]].itertuples(index=False, name=None)) == [
        ("left_to_right", 4), ("right_to_left", 2), ("right_to_left", 4)]


def test_no_table_by_codepoint_where_no_queue_may_mark(tmp_path):
    (tmp_path / "sojourn.counts").write_bytes(b"")
    sojourn.collect(tmp_path, tmp_path, context(sojourn, LINKS, t0_ns=T0))
    assert not (tmp_path / "sojourn_codepoints.csv.gz").exists()


def test_the_bins_are_those_of_a_decimal_logarithm():
    edges_ns = sojourn.bin_edges_ns()
    assert edges_ns[:3] == [0, 1000, 1003] and edges_ns[-1] == 10**12 and len(edges_ns) == 9002
    assert all(one < other for one, other in zip(edges_ns, edges_ns[1:]))
    assert edges_ns[1001] == 10_000 and edges_ns[4001] == 10_000_000


def test_what_the_module_counts_is_copied(tmp_path, monkeypatch):
    """The device is a pair of pipes here: what it is told to count, and what it gives."""
    rows = counts_of([(number * 10**7, number, 1001) for number in range(3)], 0)
    given, ended = [rows[:112], b"", rows[112:], b"", b"", b""], []
    monkeypatch.setattr(sojourn, "_DEVICE", str(tmp_path))
    monkeypatch.setattr(sojourn, "_PARAMETERS", str(tmp_path))
    (tmp_path / "sojourn_lost").write_text("3\n")
    orders = []
    for name, what in (("open", lambda *_: 99), ("write", lambda _, data: orders.append(data)),
                       ("read", lambda *_: given.pop(0)), ("close", lambda *_: None)):
        monkeypatch.setattr(sojourn.os, name, what)
    monkeypatch.setattr(sojourn.fcntl, "ioctl", lambda *asked: ended.append(asked))
    description = Network({"links": [{**link, "queue": "cake", "queue_options": {}, "device": "e"}
                                     for link in LINKS["links"]]})
    sampler = sojourn.Sampler(sojourn.Options(interval_us=5000), None, description, str(tmp_path))
    sampler.open()
    sampler.starts(T0, 2_000_000, 3_000_000)
    sampler.sample(0)
    assert sampler.close() == {"lost_events": 3} and ended == [(99, 0x7103)]
    assert (tmp_path / "sojourn.counts").read_bytes() == rows
    order, = orders
    # rows for what two seconds have, of two devices whose queue may deny that it took a packet, and may mark
    assert struct.unpack_from("=4Q6I", order) == (T0, 5_000_000, 2 * 10**9, 3 * 10**9, 2, 9002, 804, True, 4, 0)
    assert struct.unpack("=9002Q2I", order[56:]) == (*sojourn.bin_edges_ns(), 1001, 1002)


_STEP = st.tuples(st.integers(0, 3), st.sampled_from("eedo"), st.integers(1, 6), st.sampled_from([1001, 1002]))


@pytest.mark.parametrize("count", [1 << 16, (1 << 16) + 1, 200_000])
def test_more_packets_at_a_time_than_16_bits_can_number(count):
    """All of them enter, then all leave in the same order: none is taken for another."""
    packets = np.arange(count, dtype=np.uint64) * 2048 + (0xffff8880 << 32)
    batch = (np.arange(2 * count), np.concatenate([packets, packets]), np.arange(2 * count) >= count,
             np.full(2 * count, 1001))
    (left, stayed, index), = sojourn._sojourns(iter([batch]))
    assert (left == np.arange(count, 2 * count)).all() and (stayed == count).all() and (index == 1001).all()


@settings(deadline=None, max_examples=150, database=None, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(_STEP, max_size=60),
    split=st.lists(st.integers(1, 9), min_size=1, max_size=30),
    at_once=st.integers(1, 3),
)
def test_any_sequence_matches_the_naive_matcher(tmp_path, monkeypatch, steps, split, at_once):
    """Few addresses and many equal times; packets dropped and never seen before included."""
    pages, t, events = [], T0, []
    for number, (delta, what, skb, ifindex) in enumerate(steps):
        fields = {"e": ring.enqueue(skb, ifindex), "d": ring.dequeue(skb, ifindex), "o": ring.other()}[what]
        t += delta
        events.append((t, fields))
        if len(events) == split[number % len(split)] or number == len(steps) - 1:
            start = events[0][0]
            pages.append(ring.page(start, *timed(*[(at - start, f) for at, f in events])))
            events = []
    write_work(tmp_path, pages)
    expected = ring.sojourns_naively(ring.decode_naively(b"".join(pages)))
    with monkeypatch.context() as patch:
        got = found(tmp_path, patch, at_once)
    # within a batch, packets that leave at the same time come in any order
    assert sorted(got) == sorted(expected)
    assert [t for t, _, _ in got] == [t for t, _, _ in expected]
    noted, t = [], T0
    for delta, what, skb, ifindex in steps:
        t += delta
        noted.append((t, what, skb, ifindex))
    (tmp_path / "log").write_bytes(log_of(noted))
    with monkeypatch.context() as patch:
        patch.setattr(sojourn, "_AT_ONCE", split[0])
        batches = list(sojourn._sojourns(sojourn._logged(tmp_path / "log", [1001, 1002])))
    assert sorted(tuple(int(v) for v in row) for batch in batches for row in zip(*batch)) == sorted(expected)
