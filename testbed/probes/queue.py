# SPDX-License-Identifier: GPL-2.0-only
"""The bottleneck's queues, sampled: bytes and packets sent, drops, backlog (-> queue.csv.gz).

Those of all other links, too, less often (-> edge_queue.csv.gz): a bottleneck that the scenario does not know of
would show there.

Where the kernel has the module queues/, they are read in it while the sampler sleeps; else each is asked for over
netlink. The tables are the same. Only the module tells what bottlenecks held between two samples (-> backlog.csv.gz).
"""
import dataclasses
import pathlib
import socket
from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING

from testbed.core import fields
from testbed.probes import _queue_meter
from testbed.probes._netlink import Qdisc
from topologies.links.records import Link, Network as Description

if TYPE_CHECKING:
    from testbed.probes._context import Context
    from topologies.linux.network import Network

SampleUntil = Callable[[int, int, int], tuple[int, int]]

#: what engines with modules load before the probe is opened, if it can be built for their kernel
MODULE = "queues"


#: of a row: time, number of the link, bytes and packets sent, drops, backlog in bytes and packets
_COLUMNS = 7


@dataclasses.dataclass(frozen=True)
class Options:
    """interval: time between two readings; edge_interval: of the links that are no bottlenecks."""
    interval_us: int = fields.time(default=10_000, least=100)
    edge_interval_us: int = fields.time(default=1_000_000, least=100)


class Sampler:
    """Reads the root qdisc of every link. `sample_until` is None where the module is not there or reads none of
    the queues."""

    def __init__(self, options: Options, network: "Network", description: Description, work_dir: str) -> None:
        self.interval_us = options.interval_us
        edge_interval_us = options.edge_interval_us
        bottlenecks, edges = (_links(description, bottleneck) for bottleneck in (True, False))
        self._queues: _queue_meter.Meter | _Asked
        self._ask: Callable[[], _Asked] = lambda: _Asked(bottlenecks, edges, edge_interval_us, network, work_dir)
        if _queue_meter.there():
            intervals_us = [*((link, 0) for link in bottlenecks), *((link, edge_interval_us) for link in edges)]
            self._queues = meter = _queue_meter.Meter(network, intervals_us, work_dir)
            self.sample_until: SampleUntil | None = (
                lambda t0_ns, due_us, until_us: meter.sample_until(t0_ns, self.interval_us, due_us, until_us))
        else:
            self._queues, self.sample_until = self._ask(), None

    def open(self) -> None:
        try:
            self._queues.open()
        except OSError:
            if not isinstance(self._queues, _queue_meter.Meter):
                raise
            self._queues.give_up()
            self._queues, self.sample_until = self._ask(), None
            self._queues.open()

    def sample(self, t_us: int) -> None:
        self._queues.read(t_us)

    def close(self) -> dict[str, object]:
        self._queues.close()
        return {"counts_backlog": True} if isinstance(self._queues, _queue_meter.Meter) else {}


class _Asked:
    """Netlink's answers: those of bottlenecks each time, those of edges when they are due."""

    def __init__(self, bottlenecks: list[Link], edges: list[Link], edge_interval_us: int, network: "Network",
                 work_dir: str) -> None:
        self._edge_interval_us, self._edges_due_us = edge_interval_us, 0
        self._bottlenecks = _Queues(bottlenecks, network, f"{work_dir}/queue.bin")
        self._edges = _Queues(edges, network, f"{work_dir}/edge_queue.bin")

    def open(self) -> None:
        self._bottlenecks.open()
        self._edges.open()

    def read(self, t_us: int) -> None:
        self._bottlenecks.read(t_us)
        if t_us >= self._edges_due_us:
            self._edges.read(t_us)
            self._edges_due_us += self._edge_interval_us

    def close(self) -> None:
        self._bottlenecks.close()
        self._edges.close()


class _Queues:
    """Readings of some links' queues, and the file that they go to."""

    def __init__(self, links: list[Link], network: "Network", path: str) -> None:
        self._links, self._network = links, network
        self._file = open(path, "wb")
        self._rows = array("q")
        self._qdiscs: list[Qdisc] = []

    def open(self) -> None:
        """Open what is read; counters go on from the checks before the run, and start at zero here."""
        sockets: dict[str, socket.socket] = {}
        for link in self._links:
            with self._network.in_namespace(link.from_node):
                # those of bottlenecks were chosen when the network was built
                index = link.ifindex or socket.if_nametoindex(link.device)
                self._qdiscs.append(Qdisc(index, shared=sockets.get(link.from_node)))
            sockets[link.from_node] = self._qdiscs[-1].socket
        self._start = [qdisc.read()[:3] for qdisc in self._qdiscs]

    def read(self, t_us: int) -> None:
        """Note what every queue says now."""
        for number, qdisc in enumerate(self._qdiscs):
            sent_bytes, sent_packets, drops, backlog_bytes, backlog_packets = qdisc.read()
            start = self._start[number]
            self._rows.extend((t_us, number, sent_bytes - start[0], sent_packets - start[1],
                               (drops - start[2]) & 0xFFFFFFFF, backlog_bytes, backlog_packets))
        if len(self._rows) >= 1400:
            self._flush()

    def _flush(self) -> None:
        self._rows.tofile(self._file)
        del self._rows[:]

    def close(self) -> None:
        self._flush()
        self._file.close()
        for qdisc in self._qdiscs:
            qdisc.close()


def collect(work_dir: pathlib.Path, raw_dir: pathlib.Path, context: "Context[Options]") -> None:
    import numpy as np
    import pandas as pd

    from testbed.core import raw_tables
    from testbed.core.raw_files import write_table
    links = [_links(context.network, bottleneck) for bottleneck in (True, False)]
    metered = work_dir / _queue_meter.FILE
    both = _queue_meter.rows(metered, [len(some) for some in links], context.t0_ns) if metered.exists() else [
        np.fromfile(work_dir / f"{name}.bin", dtype="<i8").reshape(-1, _COLUMNS) for name in ("queue", "edge_queue")]
    for name, some, rows in zip(("queue", "edge_queue"), links, both):
        table = pd.DataFrame(rows, columns=raw_tables.TABLES[name].names())
        table["link"] = np.array([link.name for link in some], dtype=object)[table["link"]]
        write_table(table, raw_dir, name)
    if metered.exists():
        rows = _queue_meter.held(metered, sum(map(len, links)), len(links[0]), context.t0_ns)
        table = pd.DataFrame(rows, columns=raw_tables.TABLES["backlog"].names())
        table["link"] = np.array([link.name for link in links[0]], dtype=object)[table["link"]]
        write_table(table, raw_dir, "backlog")


def _links(description: Description, bottleneck: bool) -> list[Link]:
    return [link for link in description.links if link.bottleneck == bottleneck]
