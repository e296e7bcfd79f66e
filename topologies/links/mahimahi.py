# SPDX-License-Identifier: GPL-2.0-only
"""Traces of links in the format of mahimahi: a line for each opportunity to send a packet, its time in ms.

A trace begins anew when it has come to its end, whose time is that of its last line. An opportunity here is a full
frame (1514 bytes at layer 2); all of a millisecond can be used together, and what is not used at its time is lost.
"""
import os
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from testbed.core.fields import FieldError
from testbed.core.files import open_regular

#: what a run can keep in its plan, and how much of a file is read for it
MOST_INSTANTS, MOST_BYTES = 500_000, 64 << 20
FRAME_BYTES = 1514
_LONGEST_MS = 10**9
_LONGEST_LINE = 64


def read(path: str, until_us: int | None = None) -> tuple[list[tuple[int, int]], int | None]:
    """([(time in us, how many opportunities)], time after which it begins anew in us) of a run that ends at until_us.

    What comes later is not read. The second is None if the trace goes on after the run; without until_us the whole
    trace is meant. FieldError with file and line if the file is no such trace.
    """
    try:
        with open_regular(os.path.expanduser(path)) as file:
            return _read(path, file, until_us)
    except OSError as problem:
        raise FieldError("", f"{path}: {problem.strerror}") from None
    except ValueError as problem:
        if isinstance(problem, FieldError):
            raise
        raise FieldError("", f"{path!r} is not the name of a file") from None


def _read(path: str, file: BinaryIO, until_us: int | None) -> tuple[list[tuple[int, int]], int | None]:
    counts: dict[int, int] = {}
    last_ms, read_bytes = 0, 0
    for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), start=1):
        read_bytes += len(line)
        if len(counts) > MOST_INSTANTS or read_bytes > MOST_BYTES:
            raise FieldError("", f"{path}:{number}: a run takes at most {MOST_INSTANTS} instants with opportunities "
                                 f"from a trace, and {MOST_BYTES >> 20} MB; a shorter run or trace expected")
        text = line.strip()
        if not text:
            continue
        if not text.isdigit() or len(text) > 12 or int(text) > _LONGEST_MS:
            raise FieldError("", f"{path}:{number}: a time in whole milliseconds expected")
        at_ms = int(text)
        if at_ms < last_ms:
            raise FieldError("", f"{path}:{number}: a time that is not before the one above it expected")
        if until_us is not None and at_ms * 1000 > until_us:
            return list(counts.items()), None
        counts[at_ms * 1000] = counts.get(at_ms * 1000, 0) + 1
        last_ms = at_ms
    if not last_ms:
        raise FieldError("", f"{path}: opportunities after 0 ms expected")
    return list(counts.items()), last_ms * 1000


def last_line(times_ms: list[int], end_ms: int) -> list[int]:
    """What has to follow so that a trace does not begin anew before end_ms: it does so at its last line, and has no
    other way to say that nothing is offered at its end."""
    return [] if times_ms and times_ms[-1] and times_ms[-1] + times_ms[0] > end_ms else [end_ms + 1]


def text(times_ms: Iterable[int]) -> str:
    """A trace as its file has it."""
    return "".join(f"{ms}\n" for ms in times_ms)


def of_rates(spans: Iterable[tuple[float, float, int]]) -> Iterator[int]:
    """The opportunities that rates offer, in ms: each when another full frame has been sent.

    spans: (begin in us, end in us, rate in bit/s) one after the other.
    """
    bits, sent = 0.0, 0
    for begin_us, end_us, rate_bps in spans:
        bits += (end_us - begin_us) * rate_bps / 1e6
        while rate_bps and (sent + 1) * FRAME_BYTES * 8 <= bits + 1e-6:
            sent += 1
            left_us = (bits - sent * FRAME_BYTES * 8) / rate_bps * 1e6
            yield -(-round(end_us - left_us) // 1000)
