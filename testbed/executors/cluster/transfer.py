# SPDX-License-Identifier: GPL-2.0-only
"""Files on their way between client and workers: known by their hash, in pieces, believed only when verified."""
from __future__ import annotations

import hashlib
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator

#: how much of a file is one message: Dask warns of arguments above 1 MB
PIECE_BYTES = 768 << 10


class Damaged(Exception):
    """What came is not what was sent."""


def sha256_of(path: pathlib.Path) -> str:
    """Of the bytes as they are, also of a .gz file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pieces(path: pathlib.Path) -> Iterator[bytes]:
    """The content of a file, piece by piece; one empty piece of an empty file."""
    with open(path, "rb") as file:
        piece = file.read(PIECE_BYTES)
        yield piece
        while piece := file.read(PIECE_BYTES):
            yield piece


def receive(path: pathlib.Path, size: int, sha256: str, piece_at: Callable[[int], bytes]) -> None:
    """Fill a new file from the pieces that begin at 0, PIECE_BYTES ... Damaged unless it is what was promised."""
    digest = hashlib.sha256()
    with open(path, "xb") as file:
        offset = 0
        while offset < size:
            piece = piece_at(offset)
            if not piece or offset + len(piece) > size:
                raise Damaged(f"a piece of {len(piece)} bytes at {offset} of {size}")
            file.write(piece)
            digest.update(piece)
            offset += len(piece)
    if digest.hexdigest() != sha256:
        raise Damaged(f"SHA-256 {digest.hexdigest()[:16]}, not {sha256[:16]}")


class Blobs:
    """A folder of files that are called by their hashes."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder

    def path(self, sha256: str) -> pathlib.Path:
        return self._folder / sha256

    def lacks(self, wanted: dict[str, str]) -> list[str]:
        """Those of the hashes {name: hash} that are not here, each once."""
        return sorted({sha256 for sha256 in wanted.values() if not self.path(sha256).is_file()})

    def put(self, sha256: str, upload: str, offset: int, piece: bytes, last: bool) -> None:
        """Take a piece of an upload. With the last one the file is verified and has its name, or it is Damaged."""
        self._folder.mkdir(parents=True, exist_ok=True)
        partial = self._folder / f".{upload}.part"
        with open(partial, "wb" if offset == 0 else "r+b") as file:
            file.seek(0, os.SEEK_END)
            if file.tell() != offset:
                raise Damaged(f"a piece at {offset} of a file of {file.tell()} bytes")
            file.write(piece)
        if last:
            found = sha256_of(partial)
            if found != sha256:
                partial.unlink()
                raise Damaged(f"SHA-256 {found[:16]}, not {sha256[:16]}")
            os.chmod(partial, 0o755)
            os.replace(partial, self.path(sha256))

    def lay_out(self, wanted: dict[str, str], folder: pathlib.Path) -> None:
        """Make a folder that has these files, {relative path: hash}, unless it is there: whole or not at all."""
        if folder.is_dir():
            return
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=folder.parent) as name:
            made = pathlib.Path(name) / "made"
            made.mkdir()
            for relative, sha256 in wanted.items():
                target = made / relative
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(self.path(sha256), target)
            try:
                os.rename(made, folder)
            except OSError:
                if not folder.is_dir():             # else somebody else has made it meanwhile
                    raise
