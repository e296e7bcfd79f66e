# SPDX-License-Identifier: GPL-2.0-only
"""What radios did, sampled: frames, attempts, losses, time on the air, what waits (-> air.csv.gz, air_busy.csv.gz).

    air: {interval: 100 ms}     time between two readings

The counters are those of the radio modules (kernel-modules/air/), all stations of a cell in one reading;
docs/howto/wireless.md says what they count. Frames that wait in a queue of the device are added.
"""
import dataclasses
import os
import pathlib
import socket
from array import array
from typing import TYPE_CHECKING

from testbed.core import fields
from testbed.probes._netlink import Qdisc
from topologies import standards
from topologies.links.records import Cell, Network as Description
from topologies.wireless import air_accounts

if TYPE_CHECKING:
    from testbed.probes._context import Context
    from topologies.linux.network import Network

#: (of each station the counters of COUNTED and what waits, ns in which anybody was on the air)
Reading = tuple[list[list[int]], int]

#: what modules count, as they call it; `queued` is no counter
COUNTED = ("frames", "attempts", "retries", "acknowledged", "given_up", "no_access", "received", "garbled", "chance",
           "delivered", "duplicates", "lost", "airtime_ns")
_BUSY = "busy_ns"
#: of what Qdisc.read() returns
_BACKLOG_PACKETS = 4
_MOST_BYTES = 1 << 16


@dataclasses.dataclass(frozen=True)
class Options:
    """interval: time between two readings."""
    interval_us: int = fields.time(default=100_000, least=1000)


def validate(_options: Options, network: Description) -> None:
    """FieldError in a network without radios."""
    if not network.cells:
        raise fields.FieldError("", "this network has no radios: leave the probe out")


class Sampler:
    """Reads the file of each cell's module."""

    def __init__(self, options: Options, network: "Network", description: Description, work_dir: str) -> None:
        self.interval_us = options.interval_us
        self._paths = [air_accounts.path(cell) for cell in description.cells]
        self._queues = [_queues(network, cell) for cell in description.cells]
        self._file = open(f"{work_dir}/air.bin", "wb")

    def open(self) -> None:
        self._counters = [os.open(path, os.O_RDONLY) for path in self._paths]
        self._start = [read(file) for file in self._counters]

    def sample(self, t_us: int) -> None:
        """Note what every station has done since `open`, and what waits."""
        rows = array("q")
        for number, (file, (before, busy_before)) in enumerate(zip(self._counters, self._start)):
            stations, busy_ns = read(file)
            queues = self._queues[number]
            for place, (counts, first) in enumerate(zip(stations, before)):
                waiting = counts[-1] + (queues[place].read()[_BACKLOG_PACKETS] if queues else 0)
                rows.extend((t_us, number, place, *(now - then for now, then in zip(counts[:-1], first[:-1])),
                             waiting, busy_ns - busy_before))
        rows.tofile(self._file)

    def close(self) -> dict[str, object]:
        self._file.close()
        for file in self._counters:
            os.close(file)
        for queue in (queue for queues in self._queues for queue in queues):
            queue.close()
        return {}


def _queues(network: "Network", cell: Cell) -> list[Qdisc]:
    """Of all stations what waits at their devices; [] where it waits in the stack, which the module counts."""
    standard, found = standards.of(cell), []
    for station in cell.stations if standard.QUEUE_AT_DEVICE else ():
        with network.in_namespace(station.node):
            found.append(Qdisc(socket.if_nametoindex(standard.queue_device(station))))
    return found


def read(file: int) -> Reading:
    """What the module of a cell says now."""
    parts, at = [], 0
    while part := os.pread(file, _MOST_BYTES, at):      # a reading of /proc may end at a page
        parts.append(part)
        at += len(part)
    return parse(b"".join(parts).decode("ascii"))


def parse(text: str) -> Reading:
    """Of a text of a module: see `read`."""
    rows, busy_ns = air_accounts.parse(text)
    return [[row[name] for name in (*COUNTED, "queued")] for row in rows], busy_ns


def collect(work_dir: pathlib.Path, raw_dir: pathlib.Path, context: "Context[Options]") -> None:
    import numpy as np
    import pandas as pd

    from testbed.core.raw_files import write_table
    columns = ["t_us", "cell", "node", *COUNTED, "queued", _BUSY]
    rows = np.fromfile(work_dir / "air.bin", dtype="<i8").reshape(-1, len(columns))
    table = pd.DataFrame(rows, columns=columns)
    cells = context.network.cells
    owners = {(number, place): station.node for number, cell in enumerate(cells)
              for place, station in enumerate(cell.stations)}
    names = [cell.name for cell in cells]
    table["node"] = [owners[number, place] for number, place in zip(table["cell"], table["node"])]
    table["cell"] = [names[number] for number in table["cell"]]
    table["airtime_us"], table["busy_us"] = table.pop("airtime_ns") / 1000, table.pop(_BUSY) / 1000
    write_table(table[["t_us", "cell", "busy_us"]].drop_duplicates(["t_us", "cell"]), raw_dir, "air_busy")
    write_table(table.drop(columns="busy_us"), raw_dir, "air")
