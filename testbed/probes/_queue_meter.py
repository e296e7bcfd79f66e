# SPDX-License-Identifier: GPL-2.0-only
"""The module queues/ as the probe `queue` uses it: readings of queues taken in the kernel while the sampler sleeps."""
import fcntl
import os
import pathlib
import socket
import struct
from typing import TYPE_CHECKING

from topologies.links.records import Link

if TYPE_CHECKING:
    import numpy as np

    from topologies.linux.network import Network

DEVICE, FILE = "/dev/queue_meter", "queue_meter.bin"
# as in queues/meter.c: struct queue, struct sampling, _IOW('q', 1, u64), _IOWR('q', 2, struct sampling), EVERY
_QUEUE, _SAMPLING = struct.Struct("=IIQ"), struct.Struct("=QQQQQ")
_NOTE, _SAMPLE_UNTIL = 1 << 30 | 8 << 16 | ord("q") << 8 | 1, 3 << 30 | _SAMPLING.size << 16 | ord("q") << 8 | 2
_EVERY = 2**64 - 1
#: columns of struct reading
_READING = [("when", "<u8"), ("sent_bytes", "<u8"), ("sent_packets", "<u8"), ("packet_ns", "<u8"), ("byte_ns", "<u8"),
            ("drops", "<u4"), ("backlog_bytes", "<u4"), ("backlog_packets", "<u4"), ("most_bytes", "<u4"),
            ("most_packets", "<u4"), ("number", "<u4")]
_READING_BYTES = 64
#: read at once
_READ_BYTES = 1600 * _READING_BYTES


def there() -> bool:
    """True if the module is."""
    return os.path.exists(DEVICE)


class Meter:
    """Readings of queues, and the file that they go to: first one of each as it was before traffic began.

    intervals_us: (link of network.json, time between two readings; 0: all readings there are) of each queue.
    """

    def __init__(self, network: "Network", intervals_us: list[tuple[Link, int]], work_dir: str) -> None:
        self._network, self._intervals_us = network, intervals_us
        self._path = f"{work_dir}/{FILE}"
        self._file = open(self._path, "wb", buffering=0)
        self._device = -1
        self._buffer = bytearray(_READ_BYTES)
        self._view = memoryview(self._buffer)

    def open(self) -> None:
        """OSError if one of the queues is of a kind that the module does not read."""
        self._device = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
        for link, interval_us in self._intervals_us:
            with self._network.in_namespace(link.from_node):
                index = link.ifindex or socket.if_nametoindex(link.device)
                # of bottlenecks also what they hold between two readings
                os.write(self._device, _QUEUE.pack(index, not interval_us, interval_us * 1000))
        self._note(_EVERY)

    def read(self, t_us: int) -> None:
        """Note what the queues say now that are due."""
        self._note(t_us * 1000)

    def sample_until(self, t0_ns: int, interval_us: int, due_us: int, until_us: int) -> tuple[int, int]:
        """Take the readings that are due before until_us; (when the next one is, how late the latest was), in us."""
        asked = bytearray(_SAMPLING.pack(t0_ns, due_us * 1000, interval_us * 1000, until_us * 1000, 0))
        while True:
            try:
                fcntl.ioctl(self._device, _SAMPLE_UNTIL, asked)
                break
            except InterruptedError:        # `asked` says from where it goes on
                continue
        self._copy()
        _, next_ns, _, _, late_ns = _SAMPLING.unpack(asked)
        return next_ns // 1000, late_ns // 1000

    def _note(self, time_ns: int) -> None:
        fcntl.ioctl(self._device, _NOTE, struct.pack("=Q", time_ns))
        self._copy()

    def _copy(self) -> None:
        length = _READ_BYTES
        while length == _READ_BYTES:
            length = os.readv(self._device, [self._buffer])
            self._file.write(self._view[:length])

    def close(self) -> None:
        self._file.close()
        if self._device >= 0:
            os.close(self._device)

    def give_up(self) -> None:
        """Leave nothing behind."""
        self.close()
        os.unlink(self._path)


def rows(path: pathlib.Path, counts: list[int], t0_ns: int) -> "list[np.ndarray]":
    """Arrays of (t_us, number of the link, bytes and packets sent and drops since the start, backlog in bytes and in
    packets). counts: how many of the queues, in their order, belong into which array."""
    import numpy as np
    start, readings = _readings(path, sum(counts))
    number = readings["number"].astype(np.int64)
    columns = [_t_us(readings, t0_ns), number]
    columns += [(readings[name] - start[name][number]).astype(np.int64)
                for name in ("sent_bytes", "sent_packets", "drops")]
    columns += [readings[name].astype(np.int64) for name in ("backlog_bytes", "backlog_packets")]
    table, found, first = np.stack(columns, axis=1), [], 0
    for count in counts:
        some = table[(number >= first) & (number < first + count)]
        some[:, 1] -= first
        found.append(some)
        first += count
    return found


def held(path: pathlib.Path, queues: int, watched: int, t0_ns: int) -> "np.ndarray":
    """Array of (t_us, number of the link, integral of the backlog over time since the start in packets x us and in
    bytes x us, the most packets and bytes since the reading before) of the first queues, those that are watched."""
    import numpy as np
    start, readings = _readings(path, queues)
    readings = readings[readings["number"] < watched]
    order = np.argsort(readings["number"], kind="stable")
    number = readings["number"][order]
    integrals = []
    for name in ("packet_ns", "byte_ns"):
        values = readings[name][order]
        # counters of 64 bits that begin again: differences from one reading to the next are right
        before = np.where(np.diff(number, prepend=watched) != 0, start[name][number], np.roll(values, 1))
        steps, sums = (values - before) / 1000, np.empty(len(values))
        for one in range(watched):
            sums[number == one] = np.cumsum(steps[number == one])
        integral = np.empty(len(values))
        integral[order] = sums
        integrals.append(np.rint(integral).astype(np.int64))
    return np.stack([_t_us(readings, t0_ns), readings["number"].astype(np.int64), *integrals,
                     *(readings[name].astype(np.int64) for name in ("most_packets", "most_bytes"))], axis=1)


def rows_so_far(path: pathlib.Path, queues: int, watched: int) -> "np.ndarray":
    """The same as `rows` of the first queues, those that are watched, while the file is being written: time counts
    from the first reading of the run."""
    start, readings = _readings(path, queues)
    if not len(readings):
        return []
    found, = rows(path, [queues], int(readings["when"][0]))
    return found[found[:, 1] < watched]


def _readings(path: pathlib.Path, queues: int) -> "tuple[np.ndarray, np.ndarray]":
    """(those before traffic, one of each queue; those of the run)"""
    import numpy as np
    readings = np.fromfile(path, np.dtype(_READING))
    return readings[:queues], readings[queues:]


def _t_us(readings: "np.ndarray", t0_ns: int) -> "np.ndarray":
    return (readings["when"].astype("int64") - t0_ns) // 1000
