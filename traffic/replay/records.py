# SPDX-License-Identifier: GPL-2.0-only
"""Records: what one end of one source did, row by row beside its plan.

A file is a line `tmixrecords 1`, a line of JSON (source, role, node, addresses, counts) and
the columns of `COLUMNS` as little-endian int64, one after the other. Times are microseconds
of experiment time; NEVER where the moment did not come. Standard library only.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from array import array

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO, Final, Literal, TypedDict

    class RecordsHeader(TypedDict):
        """Of a file of records; own_ops, peer_ops: how many there are; ports: the first one, their number."""
        source: int
        role: str
        node: str
        local: str
        peer: str
        port: int
        ports: list[int]
        connections: int
        own_ops: int
        peer_ops: int

MAGIC = b"tmixrecords 1\n"
NEVER: Final = -1

# Values of `status`; a connection that failed has its negative errno.
NOT_STARTED: Final = 0     # the initiator's time had not come, or the acceptor never saw it
UNFINISHED: Final = 1      # alive when the replay stopped
FINISHED: Final = 2        # every byte written and read, closed

# name, what it has one row for, value until something happens
COLUMNS: tuple[tuple[str, Literal["connections", "own_ops", "peer_ops"], int], ...] = (
    ("start_us", "connections", NEVER),      # connect() called; initiator only
    ("connected_us", "connections", NEVER),  # established; initiator only
    ("end_us", "connections", NEVER),        # closed or failed
    ("status", "connections", NOT_STARTED),
    ("read_bytes", "connections", 0),
    ("sent_us", "own_ops", NEVER),           # began to write the op's first byte, or FIN
    ("delivered_us", "peer_ops", NEVER))     # read the last byte of the peer's op

ROLES = INITIATOR, ACCEPTOR = "initiator", "acceptor"


class RecordsError(ValueError):
    """A file that is not a complete records file."""


class Records:
    """The columns as `array('q')` attributes, and the `header` dict."""

    start_us: array[int]
    connected_us: array[int]
    end_us: array[int]
    status: array[int]
    read_bytes: array[int]
    sent_us: array[int]
    delivered_us: array[int]

    def __init__(self, header: RecordsHeader, columns: Sequence[array[int]]) -> None:
        self.header = header
        for (name, _, _), values in zip(COLUMNS, columns):
            setattr(self, name, values)

    @classmethod
    def empty(cls, header: RecordsHeader) -> "Records":
        """Records in which nothing has happened; `header` has the three counts."""
        return cls(header, [array("q", [initial]) * header[count]
                            for _, count, initial in COLUMNS])

    def write(self, path: str) -> None:
        """Write the file; it appears under its name only when complete."""
        part = f"{path}.part"
        try:
            with open(part, "wb") as file:
                file.write(MAGIC + json.dumps(self.header, sort_keys=True).encode() + b"\n")
                for name, _, _ in COLUMNS:
                    values = getattr(self, name)
                    if sys.byteorder == "big":
                        values = array("q", values)
                        values.byteswap()
                    values.tofile(file)
            os.replace(part, path)
        except BaseException:
            if os.path.exists(part):
                os.unlink(part)
            raise


def status_text(status: int) -> str:
    """A status as docs/reference/run-folder.md has it; what did not start is unfinished, too."""
    if status < 0:
        return f"failed: {errno.errorcode.get(-status, -status)}"
    return "finished" if status == FINISHED else "unfinished"


def records_name(name: str, role: str) -> str:
    """The file name of the records of one end; `name` is that of its plan, without suffix."""
    return f"{name}.{role}.records"


def read_header(file: BinaryIO, path: str) -> RecordsHeader:
    """The header of an open records file, which is left at its columns.

    Raises RecordsError if it is no such file or not of the right size.
    """
    if file.read(len(MAGIC)) != MAGIC:
        raise RecordsError(f"{path}: does not begin with '{MAGIC.decode().strip()}'")
    try:
        header: RecordsHeader = json.loads(file.readline())
        right = file.tell() + 8 * sum(header[count] for _, count, _ in COLUMNS)
    except (ValueError, KeyError, TypeError) as error:
        raise RecordsError(f"{path}: header line: {error!r}") from error
    size = os.fstat(file.fileno()).st_size
    if size != right:
        raise RecordsError(f"{path}: {size} bytes, its header says {right}")
    return header
