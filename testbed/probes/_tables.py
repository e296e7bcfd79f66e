# SPDX-License-Identifier: GPL-2.0-only
"""Writing the CSV files of a run folder: complete or not at all, and the same bytes every time."""
import gzip
import os


def write_csv(table, path):
    """Write a pandas table as gzipped CSV through a temporary name."""
    temporary = path.with_name(path.name + ".part")
    with open(temporary, "wb") as raw:
        # no time stamp and no name in the gzip header: equal data give equal files
        with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=3, mtime=0, filename="") as packed:
            table.to_csv(packed, index=False)
    os.replace(temporary, path)
