# SPDX-License-Identifier: GPL-2.0-only
"""Writing the compressed files of a run folder: complete or not at all, and the same bytes every time."""
import contextlib
import gzip
import os


@contextlib.contextmanager
def packed(path):
    """A gzip file to write bytes to, which is at `path` when the block has ended without an error."""
    temporary = path.with_name(path.name + ".part")
    with open(temporary, "wb") as raw:
        # no time stamp and no name in the gzip header: equal data give equal files
        with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=3, mtime=0, filename="") as file:
            yield file
    os.replace(temporary, path)


def write_csv(tables, path):
    """Write a pandas table, or several of the same columns one after the other, as gzipped CSV."""
    if hasattr(tables, "to_csv"):
        tables = [tables]
    with packed(path) as file:
        for number, table in enumerate(tables):
            table.to_csv(file, index=False, header=number == 0)
