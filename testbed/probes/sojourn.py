# SPDX-License-Identifier: GPL-2.0-only
"""Time every single packet spends in the bottleneck's queues (-> sojourn.csv.gz, sojourn_hist.csv.gz).

Exact, from the tracepoints qdisc:qdisc_enqueue and qdisc:qdisc_dequeue of the root qdisc,
matched on the packet's address. A packet that an AQM drops after it was queued has an
enqueue event only; its address is reused, so the last enqueue before a dequeue counts.

Where the kernel has the module queues/, it notes these events; else they are traced. The tables are the same.

CAKE may take a packet and say that it did not, when it drops another one of its flow: there is no enqueue event then.
Where there is such a queue, events are traced, and net:net_dev_queue counts as one, too, which comes right before it.
"""
import dataclasses
import os
import pathlib
import struct
from collections.abc import Iterator
from typing import Any

from testbed import fields
from testbed.probes._ring import TraceInstance, TraceSampler, column, decode, forget_cached, read_format

Json = dict[str, Any]

#: what engines with modules load before the probe is opened, if it can be built for their kernel
MODULE = "queues"
_LOG, _LOST = "/dev/queue_log", "/sys/module/queues/parameters/lost"
_LOG_FILE = "sojourn.log"
#: bytes read at once: memory that is touched but once
_READ_BYTES = 1 << 16
#: entries decoded at once
_AT_ONCE = 1 << 17
#: arrays: times in ns, addresses of packets, whether they left, ifindex of the queue (of those that left)
_Events = tuple[Any, Any, Any, Any]
_EVENTS = ("qdisc/qdisc_enqueue", "qdisc/qdisc_dequeue")
_BEFORE, _MAY_DENY = "net/net_dev_queue", ("cake",)


@dataclasses.dataclass(frozen=True)
class Options:
    """interval: what packets are summed up over."""
    interval_us: int = fields.time(default=10_000, least=100)


class Sampler:
    """Has the events noted or traced, and takes them every second."""
    interval_us = 1_000_000

    def __init__(self, settings: Json, network: Any, description: Json, work_dir: str) -> None:
        links = [link for link in description["links"] if link["bottleneck"]]
        ports = [link["ifindex"] for link in links]
        denying = [link["device"] for link in links if link["queue"] in _MAY_DENY]
        self._events: "_Logged | _Traced"
        if os.path.exists(_LOG) and not denying:
            self._events = _Logged(ports, work_dir)
        else:
            self._events = _Traced(ports, denying, work_dir)

    def open(self) -> None:
        self._events.open()

    def sample(self, t_us: int) -> None:
        self._events.sample(t_us)

    def close(self) -> Json:
        return self._events.close()


class _Traced(TraceSampler):
    """Records the two tracepoints; of devices whose queues may deny that they took a packet also the one before."""

    def __init__(self, ports: list[int], denying: list[str], work_dir: str) -> None:
        here = " || ".join(f"ifindex == {index}" for index in ports)
        before = {_BEFORE: " || ".join(f'name == "{device}"' for device in denying)} if denying else {}
        self._trace = TraceInstance("sojourn", {
            _EVENTS[0]: here,
            _EVENTS[1]: f"({here}) && skbaddr != 0",
            **before,
        }, buffer_kb=16384, work_dir=work_dir)


class _Logged:
    """Copies what queues/log.c notes to a file: the numbers of the devices, then entries."""

    def __init__(self, ports: list[int], work_dir: str) -> None:
        self._ports = struct.pack(f"={len(ports)}I", *ports)
        self._file = open(f"{work_dir}/{_LOG_FILE}", "wb", buffering=0)
        self._buffer = bytearray(_READ_BYTES)
        self._view = memoryview(self._buffer)

    def open(self) -> None:
        self._log = os.open(_LOG, os.O_RDWR)
        if self._ports:
            os.write(self._log, self._ports)

    def sample(self, t_us: int) -> None:
        while length := os.readv(self._log, [self._buffer]):
            self._file.write(self._view[:length])
        forget_cached(self._file)

    def close(self) -> Json:
        self.sample(0)
        self._file.close()
        with open(_LOST, encoding="ascii") as file:
            lost = int(file.read())
        os.close(self._log)
        return {"lost_events": lost}


def collect(work_dir: pathlib.Path, raw_dir: pathlib.Path, context: Json) -> None:
    import numpy as np
    log = work_dir / _LOG_FILE
    ports = [link["ifindex"] for link in context["network"]["links"] if link["bottleneck"]]
    events = _logged(log, ports, np) if log.exists() else _traced(work_dir, np)
    write_tables(_sojourns(events, np), raw_dir, context)


def write_tables(sojourns: Iterator[tuple[Any, Any, Any]], raw_dir: pathlib.Path, context: Json) -> None:
    """Both tables from batches (when packets left, ns; how long they had been there, ns; ifindex of the queue).

    context: settings, network, t0_ns (the clock's reading when traffic began) and the timing of the run.
    """
    import numpy as np
    import pandas as pd

    from testbed.raw_files import write_table
    interval_us = context["settings"].get("interval_us", 10_000)
    names = {link["ifindex"]: link["name"] for link in context["network"]["links"] if link["bottleneck"]}
    measure_from_ns = (context["prefill_us"] + context["warmup_us"]) * 1000
    until_ns = context["duration_us"] * 1000
    nothing = np.empty(0, np.int64)
    # sums of each batch: what is known of each packet would not fit into memory
    series = {index: [_summed(nothing, nothing)] for index in names}
    # 1000 bins a decade, exact to 0.25 %, from 1 us to 1000 s; below 1 us is the first bin
    edges_us = np.concatenate([[0.0], 10 ** (np.arange(0, 9001) / 1000.0)])
    histogram = {index: np.zeros(edges_us.size - 1, dtype=np.int64) for index in names}
    for t_ns, sojourn_ns, ifindex in sojourns:
        t_ns = t_ns - context["t0_ns"]
        inside = (t_ns >= 0) & (t_ns < until_ns)
        for index in names:
            mine = inside & (ifindex == index)
            series[index].append(_summed(t_ns[mine] // (interval_us * 1000), sojourn_ns[mine]))
            late = mine & (t_ns >= measure_from_ns)
            histogram[index] += np.histogram(sojourn_ns[late] / 1000.0, bins=edges_us)[0]
    tables, spread = [], []
    for index, name in names.items():
        table = pd.concat(series[index]).groupby(level=0).agg({"size": "sum", "sum": "sum", "min": "min", "max": "max"})
        tables.append(pd.DataFrame({
            "t_us": table.index * interval_us, "link": name, "packets": table["size"],
            "mean_us": (table["sum"] / table["size"] / 1000.0).round(3),
            "min_us": table["min"] / 1000.0, "max_us": table["max"] / 1000.0}))
        filled = np.flatnonzero(histogram[index])
        spread.append(pd.DataFrame({"link": name, "low_us": edges_us[filled].round(3),
                                    "high_us": edges_us[filled + 1].round(3),
                                    "packets": histogram[index][filled]}))
    write_table(pd.concat(tables).sort_values(["t_us", "link"], kind="stable"), raw_dir, "sojourn")
    write_table(pd.concat(spread), raw_dir, "sojourn_hist")


def _summed(bins: Any, sojourn_ns: Any) -> Any:
    """Packets, sum, least and most of the times in each row of events of the same bin; those come in order of time."""
    import numpy as np
    import pandas as pd
    first = np.flatnonzero(np.append(True, bins[1:] != bins[:-1])) if bins.size else np.empty(0, np.int64)
    sums = {name: function.reduceat(sojourn_ns, first) if bins.size else sojourn_ns
            for name, function in (("sum", np.add), ("min", np.minimum), ("max", np.maximum))}
    return pd.DataFrame({"size": np.diff(first, append=bins.size), **sums}, index=bins[first])


def _logged(path: pathlib.Path, ports: list[int], np: Any) -> Iterator[_Events]:
    """The events of a log of queues/log.c, batch by batch."""
    kind, indices = np.dtype([("when", "<u8"), ("packet", "<u8")]), np.array(ports, np.int64)
    with open(path, "rb") as file:
        while data := file.read(kind.itemsize * _AT_ONCE):
            if len(data) % kind.itemsize:
                raise ValueError(f"{path}: ends in the middle of an entry")
            entries = np.frombuffer(data, kind)
            when = entries["when"]
            number = (when >> np.uint64(1) & np.uint64(0x7fff)).astype(np.int64)
            yield ((when >> np.uint64(16)).astype(np.int64), entries["packet"], (when & np.uint64(1)).astype(bool),
                   indices[number])


def _traced(work_dir: pathlib.Path, np: Any) -> Iterator[_Events]:
    """The events that were traced, batch by batch."""
    paths = {event: work_dir / f"{event.replace('/', '-')}.format" for event in (*_EVENTS, _BEFORE)}
    (enqueue_id, enqueue), (dequeue_id, dequeue) = (read_format(paths[event]) for event in _EVENTS)
    before_id, before = read_format(paths[_BEFORE]) if paths[_BEFORE].exists() else (-1, enqueue)
    for time_ns, ids, starts, raw in decode(work_dir, "sojourn"):
        is_in, is_before, is_out = ids == enqueue_id, ids == before_id, ids == dequeue_id
        skb, index = np.zeros(ids.size, np.uint64), np.zeros(ids.size, np.int64)
        skb[is_in] = column(raw, starts[is_in], enqueue["skbaddr"])
        skb[is_before] = column(raw, starts[is_before], before["skbaddr"])
        skb[is_out] = column(raw, starts[is_out], dequeue["skbaddr"])
        index[is_out] = column(raw, starts[is_out], dequeue["ifindex"])
        ours = is_in | is_before | is_out
        yield time_ns[ours], skb[ours], is_out[ours], index[ours]


def _sojourns(events: Iterator[_Events], np: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield arrays (dequeue time ns, sojourn ns, ifindex) batch by batch."""
    waiting = (np.empty(0, np.int64), np.empty(0, np.uint64))        # enqueued, not yet dequeued
    for time, skb, leaves, index in events:
        still = np.zeros(waiting[0].size, np.int64)
        time, skb = np.concatenate([waiting[0], time]), np.concatenate([waiting[1], skb])
        leaves, index = np.concatenate([still > 0, leaves]), np.concatenate([still, index])
        # Bring every packet's events together in the order they were recorded (in virtual time
        # many have the same time): an enqueue directly followed by a dequeue is a pair.
        order = _grouped(skb, np)
        packet, out = skb[order], leaves[order]
        same = packet[:-1] == packet[1:]
        pair = np.flatnonzero(~out[:-1] & out[1:] & same)
        entered = np.zeros(time.size, np.int64)
        left = np.zeros(time.size, bool)
        entered[order[pair + 1]], left[order[pair + 1]] = time[order[pair]], True
        left = np.flatnonzero(left)
        yield time[left], time[left] - entered[left], index[left]
        last = np.append(~same, True) if skb.size else np.empty(0, bool)
        open_ = order[np.flatnonzero(last & ~out)]
        waiting = (time[open_], skb[open_])


def _grouped(packets: Any, np: Any) -> Any:
    """What puts events of the same packet together and leaves them in their order. Addresses are numbered first: numpy
    sorts numbers of 16 bits ten times as fast."""
    import pandas as pd
    numbers, found = pd.factorize(packets)
    return np.argsort(numbers.astype(np.uint16) if len(found) <= 1 << 16 else numbers, kind="stable")
