# SPDX-License-Identifier: GPL-2.0-only
"""Which files of its own folder a .c file includes: they belong to the sources of a module that is given as a file."""
from __future__ import annotations

import os
import pathlib
import re

#: quotes only: what is in angle brackets is the kernel's
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.M)
_MOST_FILES = 200


class TooMuch(Exception):
    """More is included than belongs to a module."""


def beside(source: pathlib.Path, most_bytes: int) -> list[pathlib.Path]:
    """Paths of these files, relative to the folder of `source`, in order; not `source` itself.

    Only regular files within the folder, and what these include: for others the compiler has words. TooMuch.
    """
    folder = pathlib.Path(os.path.realpath(source.parent))
    found: set[pathlib.Path] = set()
    waiting, size = [pathlib.Path(os.path.realpath(source))], 0
    while waiting:
        file = waiting.pop()
        try:
            size += file.stat().st_size
            if size > most_bytes:
                raise TooMuch(f"it and what it includes have more than {most_bytes >> 20} MB")
            text = file.read_bytes()
        except OSError:
            continue                                        # gone, or not to be read: the compiler says so
        for name in _INCLUDE.findall(text):
            # gcc looks in the folder of the file that includes; a name with a NUL is none
            path = os.path.normpath(file.parent / os.fsdecode(name)) if b"\0" not in name else ""
            if not path or os.path.realpath(path) != path or not os.path.isfile(path):
                continue
            other = pathlib.Path(path)
            if not other.is_relative_to(folder) or other == source or other.relative_to(folder) in found:
                continue
            found.add(other.relative_to(folder))
            if len(found) > _MOST_FILES:
                raise TooMuch(f"it includes more than {_MOST_FILES} files of its folder: give the folder, with a "
                              "Kbuild")
            waiting.append(other)
    return sorted(found)
