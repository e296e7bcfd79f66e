# SPDX-License-Identifier: GPL-2.0-only
"""Writing the CSV files of a run folder: complete or not at all, and the same bytes every time."""
import gzip
import os


def write_csv(tables, path):
    """Write a pandas table, or several of the same columns one after the other, as gzipped CSV
    through a temporary name."""
    if hasattr(tables, "to_csv"):
        tables = [tables]
    temporary = path.with_name(path.name + ".part")
    with open(temporary, "wb") as raw:
        # no time stamp and no name in the gzip header: equal data give equal files
        with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=3, mtime=0, filename="") as packed:
            for number, table in enumerate(tables):
                table.to_csv(packed, index=False, header=number == 0)
    os.replace(temporary, path)
