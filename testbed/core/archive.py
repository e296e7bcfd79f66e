# SPDX-License-Identifier: GPL-2.0-only
"""Folders as streams: plain files and folders, whatever the other side sends."""
from __future__ import annotations

import pathlib
import shutil
import tarfile
from typing import IO

_MOST_FILES = 100_000


class BadArchive(Exception):
    """What came is no archive of plain files; the message says why."""


def pack(folder: pathlib.Path, stream: IO[bytes]) -> None:
    """Write everything below a folder; links are followed."""
    with tarfile.open(fileobj=stream, mode="w|", dereference=True) as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, arcname=path.name)


def unpack(stream: IO[bytes], folder: pathlib.Path, most_bytes: int | None = None) -> None:
    """Fill a new folder. BadArchive for anything but files and folders inside of it, or more than most_bytes in all;
    owners and modes are ours."""
    folder.mkdir(parents=True)
    total = 0
    try:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for number, member in enumerate(tar):
                name = pathlib.PurePosixPath(member.name)
                if number >= _MOST_FILES or name.is_absolute() or ".." in name.parts:
                    raise BadArchive(f"too many files, or a name that leads outside: {member.name[:200]!r}")
                target = folder / name
                if member.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                elif member.isreg():
                    total += member.size
                    if most_bytes is not None and total > most_bytes:
                        raise BadArchive(f"more than {most_bytes} bytes")
                    target.parent.mkdir(parents=True, exist_ok=True)
                    content = tar.extractfile(member)
                    assert content is not None
                    with open(target, "xb") as file:
                        shutil.copyfileobj(content, file)
                else:
                    raise BadArchive(f"neither a file nor a folder: {member.name[:200]!r}")
    except (tarfile.TarError, FileExistsError, NotADirectoryError, EOFError) as problem:
        raise BadArchive(str(problem)) from None
