# SPDX-License-Identifier: GPL-2.0-only
"""The probe queue where a module reads the queues: what is asked of the device, and the tables made of its readings."""
import struct

import pandas as pd
import pytest

from testbed.probes import _queue_meter, queue
from tests.unit.testbed.no_network import NoNetwork
from tests.unit.testbed.probe_contexts import context
from topologies.links.records import Network

LINKS = [{"name": name, "bottleneck": name != "edge", "ifindex": number, "from": "n1"}
         for number, name in enumerate(("edge", "there", "back"), start=1001)]
T0_NS = 5_000_000_000


def nothing(*_):
    """Not looked at."""


class Meter:
    """The device of queues/meter.c: a queue's n-th reading says that n packets were sent."""

    def __init__(self, monkeypatch):
        self.queues, self.dues, self.readings, self.count = [], [], b"", {}
        self.held, self.last = {}, {}
        for name, what in (("open", lambda *_: 99), ("write", self.write), ("readv", self.read), ("close", nothing)):
            monkeypatch.setattr(_queue_meter.os, name, what)
        monkeypatch.setattr(_queue_meter.fcntl, "ioctl", self.ioctl)
        monkeypatch.setattr(_queue_meter, "there", lambda: True)

    def write(self, _fd, data):
        self.queues.append(struct.unpack("=IIQ", data))
        self.dues.append(0)

    def note(self, now_ns, time_ns):
        for number, (index, _, interval_ns) in enumerate(self.queues):
            if self.dues[number] <= time_ns:
                n = self.count[number] = self.count.get(number, 0) + 1
                # three packets of 4500 bytes since the reading before, on the mean; the counter of bytes begins again
                lasted_ns = max(0, now_ns - self.last.get(number, now_ns))
                self.held[number] = self.held.get(number, 0) + lasted_ns
                self.last[number] = now_ns
                self.readings += struct.pack(
                    "=QQQQQ6I", now_ns, 100 * n, n, 3 * self.held[number],
                    (2**64 - 9 + 4500 * self.held[number]) % 2**64, (2**32 - 3 + n) % 2**32, index, n, 1500 * n, 7,
                    number)
                self.dues[number] += interval_ns if time_ns < 2**63 else 0

    def ioctl(self, _fd, request, data):
        if request == 1 << 30 | 8 << 16 | 0x7101:
            time_ns, = struct.unpack("=Q", data)
            return self.note(T0_NS + time_ns % 10**15, time_ns)
        assert request == 3 << 30 | 40 << 16 | 0x7102
        zero, due, interval, until, _ = struct.unpack("=QQQQQ", data)
        while due < until:
            self.note(zero + due + 250, due)
            due += interval
        data[:] = struct.pack("=QQQQQ", zero, due, interval, until, 1999)
        return None

    def read(self, _fd, buffers):
        taken = len(buffers[0]) if len(self.readings) > len(buffers[0]) else len(self.readings)
        buffers[0][:taken] = self.readings[:taken]
        self.readings = self.readings[taken:]
        return taken


def test_queues_that_a_module_reads_become_the_same_tables(tmp_path, monkeypatch):
    """Bottlenecks come first; the edge is read every second time, in naps as by itself."""
    meter = Meter(monkeypatch)
    options = queue.Options(interval_us=5000, edge_interval_us=10_000)
    sampler = queue.Sampler(options, NoNetwork(), Network({"links": LINKS}), tmp_path)
    sampler.open()
    assert meter.queues == [(1002, 1, 0), (1003, 1, 0), (1001, 0, 10_000_000)]
    sampler.sample(0)
    assert sampler.sample_until(T0_NS, 5000, 15_000) == (15_000, 1)
    sampler.sample(15_000)
    sampler.close()
    queue.collect(tmp_path, tmp_path, context(queue, {"links": LINKS}, t0_ns=T0_NS))
    table = pd.read_csv(tmp_path / "queue.csv.gz")
    assert table[table["link"] == "back"].values.tolist() == [
        [t_us, "back", 100 * n, n, n, 1003, n + 1] for n, t_us in enumerate((0, 5000, 10_000, 15_000), start=1)]
    assert (table["link"] == "there").sum() == 4 and list(table["link"][:2]) == ["there", "back"]
    assert pd.read_csv(tmp_path / "edge_queue.csv.gz").values.tolist() == [
        [0, "edge", 100, 1, 1, 1001, 2], [10_000, "edge", 200, 2, 2, 1001, 3]]
    held = pd.read_csv(tmp_path / "backlog.csv.gz")
    assert held["link"].tolist() == ["there", "back"] * 4 and held["most_packets"].tolist() == [7] * 8
    back = held[held["link"] == "back"]
    assert back["most_bytes"].tolist() == [3000, 4500, 6000, 7500]
    assert back["packet_us"].diff().tolist()[1:] == pytest.approx([15_000] * 3, abs=2)
    assert back["byte_us"].diff().tolist()[1:] == pytest.approx([4500 * 5000] * 3, abs=3000)


def test_more_readings_than_are_read_at_once(tmp_path, monkeypatch):
    Meter(monkeypatch)
    sampler = queue.Sampler(queue.Options(interval_us=100), NoNetwork(), Network({"links": LINKS[1:2]}), tmp_path)
    sampler.open()
    assert sampler.sample_until(T0_NS, 0, 1_000_000) == (1_000_000, 1)
    sampler.close()
    rows, none = _queue_meter.rows(tmp_path / _queue_meter.FILE, [1, 0], T0_NS)
    assert rows[:, 0].tolist() == list(range(0, 1_000_000, 100)) and len(none) == 0
    assert rows[:, 3].tolist() == list(range(1, 10_001))


def test_queues_that_the_module_does_not_read_are_asked_for(tmp_path, monkeypatch):
    meter, asked = Meter(monkeypatch), []

    def refuse(*_):
        raise OSError(95, "Operation not supported")

    class Qdisc:
        def __init__(self, ifindex, shared):
            asked.append(ifindex)
            self.socket = shared or object()

        def read(self):
            return 0, 0, 0, 0, 0

        def close(self):
            pass
    monkeypatch.setattr(_queue_meter.fcntl, "ioctl", refuse)
    monkeypatch.setattr(queue, "Qdisc", Qdisc)
    sampler = queue.Sampler(queue.Options(), NoNetwork(), Network({"links": LINKS}), tmp_path)
    assert sampler.sample_until
    sampler.open()
    assert meter.queues and asked == [1002, 1003, 1001] and sampler.sample_until is None
    sampler.sample(0)
    sampler.close()
    queue.collect(tmp_path, tmp_path, context(queue, {"links": LINKS}, t0_ns=T0_NS))
    assert len(pd.read_csv(tmp_path / "queue.csv.gz")) == 2 and not (tmp_path / _queue_meter.FILE).exists()


def test_a_nap_that_a_signal_ends_goes_on(tmp_path, monkeypatch):
    meter, interrupted = Meter(monkeypatch), []

    def ioctl(fd, request, data):
        if not interrupted and len(data) == 40:
            zero, due, interval, until, _ = struct.unpack("=QQQQQ", data)
            meter.ioctl(fd, request, first := bytearray(struct.pack("=QQQQQ", zero, due, interval, due + interval, 0)))
            data[:] = first[:24] + data[24:]
            interrupted.append(until)
            raise InterruptedError
        return meter.ioctl(fd, request, data)
    monkeypatch.setattr(_queue_meter.fcntl, "ioctl", ioctl)
    sampler = queue.Sampler(queue.Options(interval_us=5000), NoNetwork(), Network({"links": LINKS[1:2]}), tmp_path)
    sampler.open()
    assert sampler.sample_until(T0_NS, 0, 20_000) == (20_000, 1) and interrupted
    sampler.close()
    rows, _ = _queue_meter.rows(tmp_path / _queue_meter.FILE, [1, 0], T0_NS)
    assert rows[:, 0].tolist() == [0, 5000, 10_000, 15_000]
