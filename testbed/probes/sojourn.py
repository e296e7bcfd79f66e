# SPDX-License-Identifier: GPL-2.0-only
"""Time every single packet spends in the bottleneck's queues (-> sojourn.csv.gz, sojourn_hist.csv.gz,
sojourn_codepoints.csv.gz).

Exact, from the tracepoints qdisc:qdisc_enqueue and qdisc:qdisc_dequeue of the root qdisc,
matched on the packet's address. A packet that an AQM drops after it was queued has an
enqueue event only; its address is reused, so the last enqueue before a dequeue counts.

Where the kernel has the module queues/, it sums up the times itself; else events are traced. The tables are the same,
but for the one by ECN codepoint: only the module sees what is in packets. That table has the queues that may mark.

Some kinds of queues (CAKE, fq_codel) may queue a packet and deny it, because they dropped another one of its flow.
There is no enqueue event then. For such a queue net:net_dev_queue, which comes right before, counts as one, too.
"""
import dataclasses
import fcntl
import functools
import math
import os
import pathlib
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from testbed.core import fields
from testbed.probes._ring import TraceInstance, TraceSampler, column, decode, forget_cached, read_format
from topologies import queues
from topologies.links.records import Link, Network as Description

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from testbed.probes._context import Context
    from topologies.linux.network import Network


#: what engines with modules load before the probe is opened, if it can be built for their kernel
MODULE = "queues"
_DEVICE, _LOG, _PARAMETERS = "/dev/queue_sojourn", "/dev/queue_log", "/sys/module/queues/parameters"
_LOG_FILE = "sojourn.log"
_COUNTS_FILE = "sojourn.counts"
_READ_BYTES = 1 << 16
# as in queues/sojourn.c: struct order, _IO('q', 3), struct row
_ORDER, _END = struct.Struct("=QQQQIIIIII"), ord("q") << 8 | 3
_ROW = [("place", "<u8"), ("packets", "<u8"), ("sum", "<u8"), ("min", "<u8"), ("max", "<u8"), ("dropped", "<u8"),
        ("number", "<u4"), ("of_histogram", "<u4")]
#: by their value in the IP header
_CODEPOINTS = ("not_ect", "ect1", "ect0", "ce")
_SAMPLED_US, _INTERVAL_US = 1_000_000, 10_000
#: entries of the log decoded at once
_AT_ONCE = 1 << 17
#: arrays: times in ns, addresses of packets, whether they left, ifindex of the queue (of those that left)
_Events = tuple["np.ndarray", "np.ndarray", "np.ndarray", "np.ndarray"]
#: arrays: when packets left, ns; how long they had been there, ns; ifindex of the queue
_Sojourns = tuple["np.ndarray", "np.ndarray", "np.ndarray"]
_EVENTS = ("qdisc/qdisc_enqueue", "qdisc/qdisc_dequeue")
_BEFORE = "net/net_dev_queue"


@dataclasses.dataclass(frozen=True)
class Options:
    """interval: what packets are summed up over."""
    interval_us: int = fields.time(default=_INTERVAL_US, least=100)


class Sampler:
    """Has the times summed up or the events traced, and takes what there is every second."""
    interval_us = _SAMPLED_US

    def __init__(self, options: Options, network: "Network", description: Description, work_dir: str) -> None:
        links = [link for link in description.links if link.bottleneck]
        ports = [link.ifindex for link in links]
        denying = [link for link in links if queues.traits(link).may_deny]
        self._events: "_Counted | _Logged | _Traced" = (
            _Counted(options.interval_us, ports, bool(denying), bool(_marking(links)), work_dir)
            if os.path.exists(_DEVICE) else recorder(links, work_dir))

    def open(self) -> None:
        self._events.open()

    def starts(self, t0_ns: int, measure_from_us: int, duration_us: int) -> None:
        if isinstance(self._events, _Counted):
            self._events.starts(t0_ns, measure_from_us, duration_us)

    def sample(self, t_us: int) -> None:
        self._events.sample(t_us)

    def close(self) -> dict[str, object]:
        return self._events.close()


def recorder(links: list[Link], work_dir: str) -> "_Logged | _Traced":
    """A Sampler of each packet by itself, which `events` reads: for short times."""
    ports = [link.ifindex for link in links]
    denying = [link.device for link in links if queues.traits(link).may_deny]
    return _Logged(ports, work_dir) if os.path.exists(_LOG) and not denying else _Traced(ports, denying, work_dir)


def events(work_dir: pathlib.Path, ports: list[int]) -> Iterator[_Events]:
    """What a recorder left in work_dir of the links with these numbers, batch by batch."""
    log = work_dir / _LOG_FILE
    return _logged(log, ports) if log.exists() else _traced(work_dir)


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

    def close(self) -> dict[str, object]:
        self.sample(0)
        self._file.close()
        with open(f"{_PARAMETERS}/lost", encoding="ascii") as file:
            lost = int(file.read())
        os.close(self._log)
        return {"lost_events": lost}


class _Counted:
    """Has queues/sojourn.c sum up what leaves, and copies its rows to a file."""

    def __init__(self, interval_us: int, ports: list[int], may_deny: bool, may_mark: bool, work_dir: str) -> None:
        self._interval_us, self._ports, self._may_deny = interval_us, ports, may_deny
        self._histograms = len(_CODEPOINTS) if may_mark else 1
        self._file = open(f"{work_dir}/{_COUNTS_FILE}", "wb", buffering=0)

    def open(self) -> None:
        self._device = os.open(_DEVICE, os.O_RDWR)

    def starts(self, t0_ns: int, measure_from_us: int, duration_us: int) -> None:
        if not self._ports:
            return
        edges_ns = bin_edges_ns()
        # no more rows than intervals that end between two samples, which may come late on a wall clock
        rows = len(self._ports) * (2 * _SAMPLED_US // self._interval_us + 2)
        os.write(self._device, _ORDER.pack(t0_ns, self._interval_us * 1000, measure_from_us * 1000, duration_us * 1000,
                                           len(self._ports), len(edges_ns), rows, self._may_deny, self._histograms, 0)
                 + struct.pack(f"={len(edges_ns)}Q{len(self._ports)}I", *edges_ns, *self._ports))

    def sample(self, t_us: int) -> None:
        while data := os.read(self._device, _READ_BYTES):
            self._file.write(data)

    def close(self) -> dict[str, object]:
        self.sample(0)
        fcntl.ioctl(self._device, _END)
        self.sample(0)
        self._file.close()
        with open(f"{_PARAMETERS}/sojourn_lost", encoding="ascii") as file:
            lost = int(file.read())
        os.close(self._device)
        return {"lost_events": lost}


@functools.cache
def bin_edges_ns() -> list[int]:
    """The least time of each bin of the histogram: below 1 us, then 1000 bins a decade up to 1000 s, and above."""
    return [0, *(math.ceil(1000 * 10 ** (k / 1000)) for k in range(9001))]


def collect(work_dir: pathlib.Path, raw_dir: pathlib.Path, context: "Context[Options]") -> None:
    counts = work_dir / _COUNTS_FILE
    if counts.exists():
        series, spreads = _counted(counts, context)
        _write(series, [spread.sum(axis=0) for spread in spreads], raw_dir, context)
        _write_codepoints(spreads, raw_dir, context)
    else:
        ports = [link.ifindex for link in _bottlenecks(context)]
        write_tables(_sojourns(events(work_dir, ports)), raw_dir, context)


def write_tables(sojourns: Iterator[_Sojourns], raw_dir: pathlib.Path, context: "Context[Options]") -> None:
    """Both tables from batches (when packets left, ns; how long they had been there, ns; ifindex of the queue).

    """
    import numpy as np
    import pandas as pd
    interval_ns = context.options.interval_us * 1000
    measure_from_ns = context.timing.measure_from_us * 1000
    until_ns = context.timing.duration_us * 1000
    indices = [link.ifindex for link in _bottlenecks(context)]
    nothing = np.empty(0, np.int64)
    edges_ns = np.array(bin_edges_ns())
    # sums of each batch: what is known of each packet would not fit into memory
    series = [[_summed(nothing, nothing)] for _ in indices]
    spread = [np.zeros(edges_ns.size, dtype=np.int64) for _ in indices]
    for t_ns, sojourn_ns, ifindex in sojourns:
        t_ns = t_ns - context.t0_ns
        inside = (t_ns >= 0) & (t_ns < until_ns)
        for place, index in enumerate(indices):
            mine = inside & (ifindex == index)
            series[place].append(_summed(t_ns[mine] // interval_ns, sojourn_ns[mine]))
            late = mine & (t_ns >= measure_from_ns)
            spread[place] += np.bincount(np.searchsorted(edges_ns, sojourn_ns[late], side="right") - 1,
                                         minlength=edges_ns.size)
    _write([pd.concat(sums).groupby(level=0).agg({"packets": "sum", "sum": "sum", "min": "min", "max": "max"})
            for sums in series], spread, raw_dir, context)


def _counted(path: pathlib.Path, context: "Context[Options]") -> "tuple[list[pd.DataFrame], list[np.ndarray]]":
    """For each bottleneck: packets, sum, min and max by number of the interval, and sum of those that were dropped;
    packets by codepoint and bin of the histogram."""
    import numpy as np
    import pandas as pd
    rows = np.fromfile(path, np.dtype(_ROW))
    sums, spread = rows[rows["of_histogram"] == 0], rows[rows["of_histogram"] > 0]
    series, counts = [], []
    for number in range(len(_bottlenecks(context))):
        mine, bins = sums[sums["number"] == number], spread[spread["number"] == number]
        series.append(pd.DataFrame({name: mine[name].astype(np.int64) for name in (
            "packets", "sum", "min", "max", "dropped")}, index=mine["place"].astype(np.int64)))
        packets = np.zeros((len(_CODEPOINTS), len(bin_edges_ns())), np.int64)
        packets[bins["of_histogram"] - 1, bins["place"].astype(np.int64)] = bins["packets"]
        counts.append(packets)
    return series, counts


def _bottlenecks(context: "Context[Options]") -> list[Link]:
    return [link for link in context.network.links if link.bottleneck]


def _marking(links: list[Link]) -> list[Link]:
    return [link for link in links if queues.traits(link).marks]


def _write(series: "list[pd.DataFrame]", spread: "list[np.ndarray]", raw_dir: pathlib.Path,
           context: "Context[Options]") -> None:
    """Both tables from what `_counted` gives of each bottleneck."""
    import numpy as np
    import pandas as pd

    from testbed.core.raw_files import write_table
    interval_us = context.options.interval_us
    names = [link.name for link in _bottlenecks(context)]
    tables, histograms = [], []
    for name, table, packets in zip(names, series, spread):
        tables.append(pd.DataFrame({
            "t_us": table.index * interval_us, "link": name, "packets": table["packets"],
            "mean_us": (table["sum"] / table["packets"] / 1000.0).round(3),
            "min_us": table["min"] / 1000.0, "max_us": table["max"] / 1000.0,
            # no event tells of these
            "dropped_us": table["dropped"] / 1000.0 if "dropped" in table else np.nan}))
        histograms.append(_histogram(packets, link=name))
    write_table(pd.concat(tables).sort_values(["t_us", "link"], kind="stable"), raw_dir, "sojourn")
    write_table(pd.concat(histograms), raw_dir, "sojourn_hist")


def _write_codepoints(spreads: "list[np.ndarray]", raw_dir: pathlib.Path, context: "Context[Options]") -> None:
    """The histograms of the queues that may mark, by codepoint; no table if there is no such queue."""
    import pandas as pd

    from testbed.core.raw_files import write_table
    links = _bottlenecks(context)
    marking = _marking(links)
    if marking:
        write_table(pd.concat([_histogram(packets, link=link.name, codepoint=codepoint)
                               for link, spread in zip(links, spreads) if link in marking
                               for codepoint, packets in zip(_CODEPOINTS, spread)]), raw_dir, "sojourn_codepoints")


def _histogram(packets: "np.ndarray", **about: str) -> "pd.DataFrame":
    """The bins that have packets; about: columns before them."""
    import numpy as np
    import pandas as pd
    low_us = np.concatenate([[0.0], 10 ** (np.arange(0, 9001) / 1000.0)])
    high_us = np.append(low_us[1:], np.nan)
    filled = np.flatnonzero(packets)
    return pd.DataFrame({**about, "low_us": low_us[filled].round(3), "high_us": high_us[filled].round(3),
                         "packets": packets[filled]})


def _summed(bins: "np.ndarray", sojourn_ns: "np.ndarray") -> "pd.DataFrame":
    """Packets, sum, least and most of the times in each row of events of the same bin; those come in order of time."""
    import numpy as np
    import pandas as pd
    first = np.flatnonzero(np.append(True, bins[1:] != bins[:-1])) if bins.size else np.empty(0, np.int64)
    sums = {name: function.reduceat(sojourn_ns, first) if bins.size else sojourn_ns
            for name, function in (("sum", np.add), ("min", np.minimum), ("max", np.maximum))}
    return pd.DataFrame({"packets": np.diff(first, append=bins.size), **sums}, index=bins[first])


def _logged(path: pathlib.Path, ports: list[int]) -> Iterator[_Events]:
    """The events of a log of queues/log.c, batch by batch."""
    import numpy as np
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


def _traced(work_dir: pathlib.Path) -> Iterator[_Events]:
    """The events that were traced, batch by batch."""
    import numpy as np
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


def _sojourns(events: Iterator[_Events]) -> Iterator[_Sojourns]:
    """Batch by batch."""
    import numpy as np
    waiting = (np.empty(0, np.int64), np.empty(0, np.uint64))        # enqueued, not yet dequeued
    for time, skb, leaves, index in events:
        still = np.zeros(waiting[0].size, np.int64)
        time, skb = np.concatenate([waiting[0], time]), np.concatenate([waiting[1], skb])
        leaves, index = np.concatenate([still > 0, leaves]), np.concatenate([still, index])
        # Bring every packet's events together in the order they were recorded (in virtual time
        # many have the same time): an enqueue directly followed by a dequeue is a pair.
        order = _grouped(skb)
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


def _grouped(packets: "np.ndarray") -> "np.ndarray":
    """What puts events of the same packet together and leaves them in their order. Addresses are numbered first: numpy
    sorts numbers of 16 bits ten times as fast."""
    import numpy as np
    import pandas as pd
    numbers, found = pd.factorize(packets)
    return np.argsort(numbers.astype(np.uint16) if len(found) <= 1 << 16 else numbers, kind="stable")
