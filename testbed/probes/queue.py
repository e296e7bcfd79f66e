# SPDX-License-Identifier: GPL-2.0-only
"""The bottleneck's queues, sampled: bytes and packets sent, drops, backlog (-> queue.csv.gz).

Those of all other links, too, less often (-> edge_queue.csv.gz): a bottleneck that the scenario does not know of
would show there.
"""
import dataclasses
import pathlib
import socket
from array import array
from typing import Any

from testbed import fields
from testbed.probes._netlink import Qdisc

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Options:
    """interval: time between two readings; edge_interval: of the links that are no bottlenecks."""
    interval_us: int = fields.time(default=10_000, least=100)
    edge_interval_us: int = fields.time(default=1_000_000, least=100)


class Sampler:
    """Reads the root qdisc of every link over netlink."""

    def __init__(self, settings: Json, network: Any, description: Json, work_dir: str) -> None:
        self.interval_us = settings.get("interval_us", 10_000)
        self._edge_interval_us = settings.get("edge_interval_us", 1_000_000)
        self._edges_due_us = 0
        links = description["links"]
        self._bottlenecks = _Queues([link for link in links if link["bottleneck"]], network, f"{work_dir}/queue.bin")
        self._edges = _Queues([link for link in links if not link["bottleneck"]], network,
                              f"{work_dir}/edge_queue.bin")

    def open(self) -> None:
        self._bottlenecks.open()
        self._edges.open()

    def sample(self, t_us: int) -> None:
        self._bottlenecks.read(t_us)
        if t_us >= self._edges_due_us:
            self._edges.read(t_us)
            self._edges_due_us += self._edge_interval_us

    def close(self) -> Json:
        self._bottlenecks.close()
        self._edges.close()
        return {}


class _Queues:
    """Readings of some links' queues, and the file that they go to."""

    def __init__(self, links: list[Json], network: Any, path: str) -> None:
        self._links, self._network = links, network
        self._file = open(path, "wb")
        self._rows = array("q")
        self._qdiscs: list[Qdisc] = []

    def open(self) -> None:
        """Open what is read; counters go on from the checks before the run, and start at zero here."""
        sockets: dict[str, socket.socket] = {}
        for link in self._links:
            with self._network.in_namespace(link["from"]):
                # those of bottlenecks were chosen when the network was built
                index = link["ifindex"] or socket.if_nametoindex(link["device"])
                self._qdiscs.append(Qdisc(index, shared=sockets.get(link["from"])))
            sockets[link["from"]] = self._qdiscs[-1].socket
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


def collect(work_dir: pathlib.Path, raw_dir: pathlib.Path, context: Json) -> None:
    import numpy as np
    import pandas as pd

    from testbed import raw_tables
    from testbed.raw_files import write_table
    for name, bottleneck in (("queue", True), ("edge_queue", False)):
        columns = raw_tables.TABLES[name].names()
        rows = np.fromfile(work_dir / f"{name}.bin", dtype="<i8").reshape(-1, len(columns))
        table = pd.DataFrame(rows, columns=columns)
        links = [link["name"] for link in context["network"]["links"] if link["bottleneck"] == bottleneck]
        table["link"] = np.array(links, dtype=object)[table["link"]]
        write_table(table, raw_dir, name)
