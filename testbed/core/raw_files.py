# SPDX-License-Identifier: GPL-2.0-only
"""Writing the compressed files of raw/: complete or not at all, and the same bytes every time."""
import contextlib
import gzip
import io
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, cast

from testbed.core import raw_tables

if TYPE_CHECKING:
    import pandas as pd

    from _typeshed import ReadableBuffer

#: rows written at once: as Python objects they take much more memory than in a table
_ROWS_AT_ONCE = 4096
#: words that need no quotes in a CSV file
_PLAIN = re.compile(r'[^,"\r\n]*')


@contextlib.contextmanager
def packed(path: pathlib.Path) -> Iterator[BinaryIO]:
    """A gzip file to write bytes to, which is at `path` when the block has ended without an error."""
    temporary = path.with_name(path.name + ".part")
    with open(temporary, "wb") as raw:
        # no time stamp and no name in the gzip header: equal data give equal files
        with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=3, mtime=0, filename="") as file:
            yield cast(BinaryIO, file)
    os.replace(temporary, path)


class _Unflushed(io.BufferedIOBase):
    """Passes on what is written, but not that it is to be flushed, which leaves a mark in compressed data."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer") -> int:
        return int(self._file.write(cast(bytes, data)))


def _write_rows(table: "pd.DataFrame", file: BinaryIO) -> None:
    """What `table.to_csv(file, index=False, header=False)` writes; numbers and plain words in half the time."""
    for begin in range(0, len(table), _ROWS_AT_ONCE):
        piece = table.iloc[begin:begin + _ROWS_AT_ONCE]
        columns = [_plain(piece.iloc[:, place]) for place in range(piece.shape[1])]
        known = [column for column in columns if column]
        if len(known) < max(2, len(columns)):
            piece.to_csv(_Unflushed(file), index=False, header=False)
            continue
        line = ",".join(code for code, _ in known) + "\n"
        file.write("".join([line % row for row in zip(*(values for _, values in known))]).encode())


def _plain(column: "pd.Series") -> tuple[str, Sequence[object]] | None:
    """(a code for %, values) that give what pandas writes, None for what had better be left to it."""
    import numpy as np
    kind = column.dtype
    if kind.kind in "iu":
        if isinstance(kind, np.dtype):
            return "%d", column.tolist()
        return "%s", column.to_numpy(object, na_value="").tolist()
    if kind == np.float64:
        values = [*map(repr, column.tolist())]
        for place in np.flatnonzero(np.isnan(column.to_numpy())):
            values[place] = ""
        return "%s", values
    words = column.tolist() if kind == object else []
    if set(map(type, words)) == {str} and all(map(_PLAIN.fullmatch, set(words))):
        return "%s", words
    return None


@contextlib.contextmanager
def table_file(raw_dir: pathlib.Path, name: str,
               flush_each: bool = False) -> Iterator[Callable[["pd.DataFrame"], None]]:
    """raw/<name>.csv.gz, to which a function appends pandas tables that have exactly its columns, in any order.

    The bytes are the same in however many pieces they come, but for flush_each: then they are flushed after each.
    """
    columns = raw_tables.TABLES[name].names()
    with packed(raw_dir / f"{name}.csv.gz") as file:
        file.write((",".join(columns) + "\n").encode())

        def append(table: "pd.DataFrame") -> None:
            if set(table.columns) != set(columns):
                wrong = ", ".join(sorted(set(table.columns) ^ set(columns)))
                raise ValueError(f"{name}: columns {wrong} are not as in testbed/core/raw_tables.py")
            _write_rows(table[columns], file)
            if flush_each:
                file.flush()
        yield append
        if not flush_each:
            file.flush()


def write_table(tables: "pd.DataFrame | Iterable[pd.DataFrame]", raw_dir: pathlib.Path, name: str) -> None:
    """Write a pandas table, or several one after the other, as raw/<name>.csv.gz with exactly its columns."""
    with table_file(raw_dir, name, flush_each=True) as append:
        for table in [tables] if hasattr(tables, "to_csv") else tables:
            append(table)
