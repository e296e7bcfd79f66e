# SPDX-License-Identifier: GPL-2.0-only
"""Traces of links in the format of mahimahi: a line for each opportunity to send a packet, its time in ms.

A trace begins anew when it has come to its end, whose time is that of its last line. An opportunity here is a full
frame (1514 bytes at layer 2); all of a millisecond can be used together, and what is not used at its time is lost.
"""
import itertools
import os
from collections.abc import Iterable, Iterator

from testbed.fields import FieldError
from testbed.files import read_regular

#: what a run can keep in its plan
MOST_LINES, MOST_BYTES = 500_000, 8 << 20
FRAME_BYTES = 1514
_LONGEST_MS = 10**9


def read(path: str) -> tuple[list[tuple[int, int]], int]:
    """([(time in us, how many opportunities)], time after which it begins anew in us).

    FieldError with file and line if the file is no such trace.
    """
    try:
        data = read_regular(os.path.expanduser(path), MOST_BYTES)
    except OSError as problem:
        raise FieldError("", f"{path}: {problem.strerror}") from None
    except ValueError:
        raise FieldError("", f"{path!r} is not the name of a file") from None
    if len(data) > MOST_BYTES:
        raise FieldError("", f"{path}: more than {MOST_BYTES >> 20} MB")
    times: list[int] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        text = line.strip()
        if not text:
            continue
        if not text.isdigit() or len(text) > 12 or int(text) > _LONGEST_MS:
            raise FieldError("", f"{path}:{number}: a time in whole milliseconds expected")
        if times and int(text) < times[-1]:
            raise FieldError("", f"{path}:{number}: a time that is not before the one above it expected")
        times.append(int(text))
        if len(times) > MOST_LINES:
            raise FieldError("", f"{path}:{number}: more than {MOST_LINES} opportunities")
    if not times or not times[-1]:
        raise FieldError("", f"{path}: opportunities after 0 ms expected")
    return [(ms * 1000, len(list(group))) for ms, group in itertools.groupby(times)], times[-1] * 1000


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
