# SPDX-License-Identifier: GPL-2.0-only
"""The bottleneck's queues, sampled: bytes and packets sent, drops, backlog (-> queue.csv.gz)."""
import dataclasses
import pathlib
from array import array
from typing import Any

from testbed import fields
from testbed.probes._netlink import Qdisc

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Options:
    """interval: time between two readings."""
    interval_us: int = fields.time(default=10_000, least=100)


class Sampler:
    """Reads the root qdisc of every bottleneck over netlink."""

    def __init__(self, settings: Json, network: Any, description: Json, work_dir: str) -> None:
        self.interval_us = settings.get("interval_us", 10_000)
        self._network = network
        self._links = [link for link in description["links"] if link["bottleneck"]]
        self._file = open(f"{work_dir}/queue.bin", "wb")
        self._rows = array("q")
        self._qdiscs: list[Qdisc] = []

    def open(self) -> None:
        for link in self._links:
            with self._network.in_namespace(link["from"]):
                self._qdiscs.append(Qdisc(link["ifindex"]))
        # counters go on from the checks before the run: start at zero
        self._start = [qdisc.read()[:3] for qdisc in self._qdiscs]

    def sample(self, t_us: int) -> None:
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

    def close(self) -> Json:
        self._flush()
        self._file.close()
        for qdisc in self._qdiscs:
            qdisc.close()
        return {}


def collect(work_dir: pathlib.Path, raw_dir: pathlib.Path, context: Json) -> None:
    import numpy as np
    import pandas as pd

    from testbed import raw_tables
    from testbed.raw_files import write_table
    columns = raw_tables.TABLES["queue"].names()
    rows = np.fromfile(work_dir / "queue.bin", dtype="<i8").reshape(-1, len(columns))
    table = pd.DataFrame(rows, columns=columns)
    links = [link["name"] for link in context["network"]["links"] if link["bottleneck"]]
    table["link"] = np.array(links)[table["link"]]
    write_table(table, raw_dir, "queue")
