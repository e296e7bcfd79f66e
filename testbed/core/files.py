# SPDX-License-Identifier: GPL-2.0-only
"""Reading files of users, writing files whole or not at all, and their hashes."""
from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import json
import os
import pathlib
import stat
import tempfile
from collections.abc import Iterator
from typing import BinaryIO

from testbed.core.record import plain


@contextlib.contextmanager
def open_regular(path: str | pathlib.Path) -> Iterator[BinaryIO]:
    """A file to read. OSError with .strerror, also of a folder, of a device, which may have no end, and of a pipe, of
    which nobody knows when anybody writes to it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(kind := os.fstat(descriptor).st_mode):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path)) if stat.S_ISDIR(kind) else \
                OSError(errno.EINVAL, "not a regular file", str(path))
        with open(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def read_regular(path: str | pathlib.Path, most_bytes: int) -> bytes:
    """A file's content, as far as one byte beyond `most_bytes`. OSError as of `open_regular`."""
    with open_regular(path) as file:
        return file.read(most_bytes + 1)


def existing(wanted: pathlib.Path) -> pathlib.Path:
    """A path, or the nearest one above it that is there."""
    while not os.path.lexists(wanted) and wanted != wanted.parent:
        wanted = wanted.parent
    return wanted


def why_unwritable(wanted: pathlib.Path) -> str:
    """Why nothing can be written into a folder that is there or is to be made, in words; '' if it can."""
    folder = existing(wanted)
    if not os.path.isdir(folder):
        return f"{folder} is not a folder"
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".try-", dir=folder))
    except OSError as problem:
        return f"{wanted}: cannot write in {folder}: {problem.strerror}"
    return ""


def write_text(path: pathlib.Path, text: str) -> None:
    """Write through a temporary name next to `path`. A file name that is no text is shown escaped."""
    write_bytes(path, text.encode("utf-8", errors="backslashreplace"))


def write_bytes(path: pathlib.Path, content: bytes) -> None:
    """Write through a temporary name next to `path`."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as problem:
        temporary.unlink(missing_ok=True)
        # of what does not fit onto a disk the error names no file
        raise OSError(problem.errno, problem.strerror, str(path)) from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_output(path: pathlib.Path, text: str) -> None:
    """Write what a user asked for to the file that he named: through a symbolic link, and as it is to what is no
    regular file, such as /dev/stdout. Raises OSError."""
    path = path.resolve()
    if path.exists() and not path.is_file():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        write_text(path, text)


def write_json(path: pathlib.Path, value: object) -> None:
    """Write JSON, also records, through a temporary name."""
    write_text(path, json.dumps(value, indent=1, default=plain) + "\n")


def sha256_of(path: pathlib.Path) -> str:
    """SHA-256 of a file's content; of a .gz file, of what is in it, since compression is no data."""
    digest = hashlib.sha256()
    with (gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")) as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def hash_raw(run_dir: pathlib.Path) -> tuple[dict[str, str], str]:
    """{file: SHA-256} of a run's raw folder, and one hash over all of them."""
    hashes = {path.name: sha256_of(path) for path in sorted((run_dir / "raw").iterdir())}
    total = hashlib.sha256("".join(f"{name} {value}\n" for name, value in hashes.items()).encode())
    return hashes, total.hexdigest()
