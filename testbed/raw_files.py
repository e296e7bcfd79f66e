# SPDX-License-Identifier: GPL-2.0-only
"""Writing the compressed files of raw/: complete or not at all, and the same bytes every time."""
import contextlib
import gzip
import os
import pathlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def packed(path: pathlib.Path) -> Iterator[Any]:
    """A gzip file to write bytes to, which is at `path` when the block has ended without an error."""
    temporary = path.with_name(path.name + ".part")
    with open(temporary, "wb") as raw:
        # no time stamp and no name in the gzip header: equal data give equal files
        with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=3, mtime=0, filename="") as file:
            yield file
    os.replace(temporary, path)


def write_table(tables: Any, raw_dir: pathlib.Path, name: str) -> None:
    """Write a pandas table, or several one after the other, as raw/<name>.csv.gz with exactly its columns."""
    from testbed import raw_tables
    columns = raw_tables.TABLES[name].names()
    with packed(raw_dir / f"{name}.csv.gz") as file:
        file.write((",".join(columns) + "\n").encode())
        for table in [tables] if hasattr(tables, "to_csv") else tables:
            if set(table.columns) != set(columns):
                wrong = ", ".join(sorted(set(table.columns) ^ set(columns)))
                raise ValueError(f"{name}: columns {wrong} are not as in testbed/raw_tables.py")
            table[columns].to_csv(file, index=False, header=False)
