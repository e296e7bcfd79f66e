# SPDX-License-Identifier: GPL-2.0-only
"""Trace events without their text: recording the kernel's ring buffer pages as they are,
and decoding them afterwards, all pages side by side.

Format: kernel/trace/ring_buffer.c (struct buffer_data_page, struct ring_buffer_event) and
each event's `format` file in tracefs.
"""
import glob
import os
import pathlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import numpy as np

#: (timestamps in ns, ids, byte offsets, bytes)
_Batch = tuple["np.ndarray", "np.ndarray", "np.ndarray", "np.ndarray"]

_TRACING = "/sys/kernel/tracing"
PAGE_BYTES = 4096
_PAGE_HEADER_BYTES = 16

#: offset in the event, size, signed
Field = tuple[int, int, bool]


def forget_cached(file: BinaryIO) -> None:
    """Write a file's buffer out and let go of its pages: nobody reads it here, and a guest's memory
    would fill with gigabytes of what it has written."""
    file.flush()
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class TraceInstance:
    """A trace buffer of its own in tracefs, recording some events (runs in the guest)."""

    def __init__(self, name: str, events: dict[str, str], buffer_kb: int, work_dir: str) -> None:
        """events: {'qdisc/qdisc_enqueue': filter expression or ''}."""
        self._dir = f"{_TRACING}/instances/{name}"
        os.mkdir(self._dir)
        self._write("trace_clock", "mono")       # the default clock has 1 ms steps here
        # command names per process: a global option, costs a little on every event
        with open(f"{_TRACING}/options/record-cmd", "w") as f:
            f.write("0")
        self._write("buffer_size_kb", str(buffer_kb))
        for event, expression in events.items():
            if expression:
                self._write(f"events/{event}/filter", expression)
            with open(f"{self._dir}/events/{event}/format") as f:
                text = f.read()
            with open(f"{work_dir}/{event.replace('/', '-')}.format", "w") as f:
                f.write(text)
        self._events = list(events)
        # each CPU has a buffer of its own: (its folder, pipe, file)
        self._cpus = [(folder, os.open(f"{folder}/trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK),
                       open(f"{work_dir}/{name}.{os.path.basename(folder)}.pages", "wb", buffering=1 << 20))
                      for folder in sorted(glob.glob(f"{self._dir}/per_cpu/cpu[0-9]*"))]

    def _write(self, name: str, value: str) -> None:
        with open(f"{self._dir}/{name}", "w") as f:
            f.write(value)

    def start(self) -> None:
        for event in self._events:
            self._write(f"events/{event}/enable", "1")

    def drain(self) -> None:
        """Move what has been recorded to the file, in pages of PAGE_BYTES."""
        for _, pipe, out in self._cpus:
            while page := _next_page(pipe):
                out.write(page.ljust(PAGE_BYTES, b"\0"))
            forget_cached(out)

    def close(self) -> int:
        """Stop recording; returns the number of events the kernel lost or overwrote."""
        for event in self._events:
            self._write(f"events/{event}/enable", "0")
        self.drain()
        lost = 0
        for folder, pipe, out in self._cpus:
            out.close()
            os.close(pipe)
            with open(f"{folder}/stats") as f:
                counts = dict(line.split(":", 1) for line in f if ":" in line)
            lost += int(counts["overrun"]) + int(counts["commit overrun"]) + int(counts["dropped events"])
        os.rmdir(self._dir)
        return lost


def _next_page(pipe: int) -> bytes:
    try:
        return os.read(pipe, PAGE_BYTES)
    except BlockingIOError:
        return b""


class TraceSampler:
    """What a probe that records tracepoints does: subclasses set `self._trace` to their TraceInstance."""

    _trace: TraceInstance

    def open(self) -> None:
        self._trace.start()

    def sample(self, t_us: int) -> None:
        self._trace.drain()

    def close(self) -> dict[str, object]:
        return {"lost_events": self._trace.close()}


def read_format(path: pathlib.Path) -> tuple[int, dict[str, Field]]:
    """An event's `format` file -> (event id, {field: (offset, size, signed)})."""
    with open(path) as f:
        text = f.read()
    fields = {}
    for line in re.finditer(r"field:([^;]+);\s*offset:(\d+);\s*size:(\d+);\s*signed:(\d)", text):
        declaration, offset, size, signed = line.groups()
        name = re.sub(r"\[.*\]", "", declaration).split()[-1].lstrip("*")
        fields[name] = (int(offset), int(size), signed == "1")
    number = re.search(r"^ID: (\d+)", text, re.M)
    if number is None:
        raise ValueError(f"{path}: not the format of an event")
    return int(number.group(1)), fields


def decode(work_dir: pathlib.Path, name: str, pages_at_once: int = 1 << 14) -> Iterator[_Batch]:
    """Yield (timestamps in ns, ids, byte offsets, bytes) of a TraceInstance per batch of pages, in the order of time.

    offsets are where each event's fields start in `bytes` (a numpy uint8 array). The events of several CPUs
    are brought into one order, as one batch: among equal times the CPU with the lower number comes first.
    """
    files = sorted(work_dir.glob(f"{name}.cpu*.pages"), key=lambda path: int(path.name.split(".")[-2][3:]))
    filled = [path for path in files if path.stat().st_size]
    if len(filled) < 2:
        for path in filled:
            yield from _batches(path, pages_at_once)
        return
    import numpy as np
    times, ids, starts, raws, offset = [], [], [], [], 0
    for path in filled:
        for batch in _batches(path, pages_at_once):
            times.append(batch[0])
            ids.append(batch[1])
            starts.append(batch[2] + offset)
            raws.append(batch[3])
            offset += batch[3].size
    order = np.argsort(np.concatenate(times), kind="stable")
    yield (np.concatenate(times)[order], np.concatenate(ids)[order], np.concatenate(starts)[order],
           np.concatenate(raws))


def _batches(path: pathlib.Path, pages_at_once: int) -> Iterator[_Batch]:
    """The batches of one CPU's file."""
    import numpy as np
    with open(path, "rb") as f:
        while True:
            data = f.read(PAGE_BYTES * pages_at_once)
            if not data:
                return
            if len(data) % PAGE_BYTES:
                raise ValueError(f"{path}: ends in the middle of a page")
            yield _decode_pages(np.frombuffer(data, dtype=np.uint8))


def _decode_pages(raw: "np.ndarray") -> _Batch:
    import numpy as np
    words = raw.view("<u4")
    pages = raw.size // PAGE_BYTES
    page_words = PAGE_BYTES // 4
    first = np.arange(pages, dtype=np.int64) * page_words
    clock = words[first].astype(np.uint64) | (words[first + 1].astype(np.uint64) << np.uint64(32))
    # the low bits of `commit` are the length; the highest ones flag lost events
    end = first + 4 + (words[first + 2].astype(np.int64) & 0xFFFFFF) // 4
    at = first + _PAGE_HEADER_BYTES // 4
    order: "list[np.ndarray]" = []
    times: "list[np.ndarray]" = []
    found: "list[np.ndarray]" = []
    alive = np.flatnonzero(at < end)
    step = 0
    while alive.size:
        position = at[alive]
        head = words[position]
        kind = head & 31
        delta = (head >> 5).astype(np.uint64)
        second = words[np.minimum(position + 1, words.size - 1)].astype(np.uint64)
        extended = kind == 30
        absolute = kind == 31
        time = clock[alive] + delta
        time = np.where(extended, clock[alive] + (second << np.uint64(27)) + delta, time)
        time = np.where(absolute, (second << np.uint64(27)) | delta, time)
        padding = kind == 29
        clock[alive] = time
        long = kind == 0
        event = ~(extended | absolute | padding)
        # type_len counts words of data; 0 means that the first word is the length in bytes
        length = np.where(long, 1 + (second.astype(np.int64) + 3) // 4, 1 + kind.astype(np.int64))
        length = np.where(extended | absolute, 2, length)
        # padding without a delta fills the rest of the page; with one it is an event taken back
        length = np.where(padding, np.where(delta == 0, page_words, 1 + (second.astype(np.int64) + 3) // 4), length)
        picked = np.flatnonzero(event)
        order.append(alive[picked] * page_words + step)
        times.append(time[picked])
        found.append((position + np.where(long, 2, 1))[picked] * 4)
        at[alive] = position + length
        alive = alive[at[alive] < end[alive]]
        step += 1
    if not order:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), raw
    sequence = np.argsort(np.concatenate(order), kind="stable")
    starts = np.concatenate(found)[sequence]
    ids = raw[starts].astype(np.int64) | raw[starts + 1].astype(np.int64) << 8
    return np.concatenate(times)[sequence].astype(np.int64), ids, starts, raw


def column(raw: "np.ndarray", starts: "np.ndarray", field: Field) -> "np.ndarray":
    """One field of all events at `starts` as an integer array; field = (offset, size, signed)."""
    import numpy as np
    offset, size, signed = field
    gathered = raw[(starts + offset)[:, None] + np.arange(size)]
    return np.ascontiguousarray(gathered).view(f"<{'i' if signed else 'u'}{size}")[:, 0]
