# SPDX-License-Identifier: GPL-2.0-only
"""Plan files: one source's connections, ready for the replay.

A line `tmixplan 1`, a line of JSON with the counts and whatever the maker wants to say, and
the columns of `COLUMNS` as little-endian int64 in that order, one after the other.
Connections are sorted by start time. The ops of connection i are rows
`init_first[i]:init_first[i + 1]` of the `init_*` columns and the same for `acc_*`; their
meaning is that of `vectors.Op`.

Standard library only: the replay runs where importing numpy costs more than reading a plan.
"""

from __future__ import annotations

import json
import os
import sys
from array import array

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    Column = bytes | memoryview | array[int]        # and a numpy array, which type checkers do not know

MAGIC = b"tmixplan 1\n"
MAX_HEADER_BYTES = 1 << 20

# name, and its number of rows in terms of the header's counts
COLUMNS = (("start_us", "connections", 0), ("conn_id", "connections", 0),
           ("mss_init", "connections", 0), ("mss_acc", "connections", 0),
           ("prefill", "connections", 0),
           ("init_first", "connections", 1), ("acc_first", "connections", 1),
           ("init_need", "init_ops", 0), ("init_wait_us", "init_ops", 0),
           ("init_bytes", "init_ops", 0),
           ("acc_need", "acc_ops", 0), ("acc_wait_us", "acc_ops", 0), ("acc_bytes", "acc_ops", 0))
# behind them where the header has `windows`
WINDOW_COLUMNS = (("window_init", "connections", 0), ("window_acc", "connections", 0))


class PlanError(ValueError):
    """A file that is not a complete, consistent plan."""


class Plan:
    """The columns of a plan as `array('q')` attributes, and its `header` dict.

    start_us: experiment time at which to connect. conn_id: number of the connection in its
    source. mss_init, mss_acc: value for TCP_MAXSEG, 0 for none. prefill: 1 if the prefill
    rule moved the connection. window_init, window_acc: receive windows in bytes, 0 for none;
    empty if the sockets are to have their own.
    """

    start_us: array[int]
    conn_id: array[int]
    mss_init: array[int]
    mss_acc: array[int]
    prefill: array[int]
    init_first: array[int]
    acc_first: array[int]
    window_init: array[int]
    window_acc: array[int]

    def __init__(self, header: dict[str, object], columns: Sequence[array[int]]) -> None:
        self.header = header
        self.window_init = self.window_acc = array("q")
        for (name, _, _), values in zip((*COLUMNS, *WINDOW_COLUMNS), columns):
            setattr(self, name, values)

    def __len__(self) -> int:
        return len(self.start_us)


def write_plan(path: str | Path, columns: Mapping[str, Column], **metadata: object) -> None:
    """Write a plan; it appears under its name only when complete.

    columns: name -> buffer of native int64 (array('q') or numpy), as in COLUMNS, and WINDOW_COLUMNS if wanted.
    metadata: further JSON-able entries of the header.
    """
    counts = {"connections": len(columns["start_us"]), "init_ops": len(columns["init_need"]),
              "acc_ops": len(columns["acc_need"])}
    has_windows = {"windows": True} if "window_init" in columns else {}
    header = json.dumps({**metadata, **counts, **has_windows}, sort_keys=True).encode("ascii") + b"\n"
    if len(header) > MAX_HEADER_BYTES:
        raise PlanError(f"{path}: header of {len(header)} bytes; at most {MAX_HEADER_BYTES}")
    from pathlib import Path  # replays only read
    path = Path(path)
    part = path.with_name(path.name + ".part")
    try:
        with open(part, "wb") as file:
            file.write(MAGIC + header)
            for name, count, extra in (*COLUMNS, *(WINDOW_COLUMNS if has_windows else ())):
                values = memoryview(columns[name]).cast("B")
                rows = counts[count] + extra
                if len(values) != 8 * rows:
                    raise PlanError(f"{path}: column {name} has {len(values) / 8:g} rows, "
                                    f"{rows} are right")
                if sys.byteorder == "big":
                    swapped = array("q", bytes(values))
                    swapped.byteswap()
                    values = memoryview(swapped).cast("B")
                file.write(values)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def read_plan(path: str | Path) -> Plan:
    """The `Plan` in a file. Raises PlanError if it is not complete and consistent."""
    with open(path, "rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise PlanError(f"{path}: does not begin with '{MAGIC.decode().strip()}'")
        try:
            header = json.loads(file.readline(MAX_HEADER_BYTES))
            counts = {name: header[name] for name in ("connections", "init_ops", "acc_ops")}
        except (ValueError, KeyError, TypeError) as error:
            raise PlanError(f"{path}: header line: {error!r}") from error
        if not all(type(value) is int and 0 <= value < 1 << 40 for value in counts.values()):
            raise PlanError(f"{path}: counts {counts} are not sizes")
        size = os.fstat(file.fileno()).st_size
        wanted = (*COLUMNS, *(WINDOW_COLUMNS if header.get("windows") else ()))
        right = file.tell() + 8 * sum(counts[count] + extra for _, count, extra in wanted)
        if size != right:
            raise PlanError(f"{path}: {size} bytes, its header says {right}")
        columns: list[array[int]] = []
        for _, count, extra in wanted:
            values: array[int] = array("q")
            values.fromfile(file, counts[count] + extra)
            if sys.byteorder == "big":
                values.byteswap()
            columns.append(values)
    plan = Plan(header, columns)
    for first, ops in ((plan.init_first, counts["init_ops"]), (plan.acc_first, counts["acc_ops"])):
        if first[0] != 0 or first[-1] != ops or any(a > b for a, b in zip(first, first[1:])):
            raise PlanError(f"{path}: op offsets do not rise from 0 to {ops}")
    if any(min(column, default=0) < 0 for column in (plan.mss_init, plan.mss_acc)):
        raise PlanError(f"{path}: a segment size is negative")
    if any(a > b for a, b in zip(plan.start_us, plan.start_us[1:])):
        raise PlanError(f"{path}: connections are not sorted by start time")
    return plan
