# SPDX-License-Identifier: GPL-2.0-only
"""What programs share with the libraries that do some of their work in C (testbed/core/c_libraries.py)."""
from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from collections.abc import Sequence


def words(*names: str) -> list[tuple[str, type]]:
    """Fields of a struct: of 64 bits each, addresses too."""
    return [(name, ctypes.c_int64) for name in names]


class SharedRing(ctypes.Structure):
    """struct shared_ring of ring.h, from `Ring.places`."""
    _fields_ = words("fd", "entries", "completions", "words", "sq_head", "sq_tail", "cq_head", "cq_tail", "cqes",
                     "sqes", "arguments", "sink", "end", "wait", "wait_size", "clock_fd", "tail")


def beside(file: str, name: str) -> str | None:
    """The path of a library beside a file; None where it was not made."""
    path = os.path.join(os.path.dirname(file), name)
    return path if os.path.exists(path) else None


def load(path: str, sizes: str, structs: Sequence[type[ctypes.Structure]], by: str) -> ctypes.PyDLL:
    """A library, in which an array with this name has the sizes of these structs. by: the file that declares them.

    Raises ImportError, also if it was made of other code: that is no reason to go without.
    """
    try:
        made = ctypes.PyDLL(path)
        found = (ctypes.c_int64 * len(structs)).in_dll(made, sizes)
    except (OSError, ValueError) as error:
        raise ImportError(str(error) if path in str(error) else f"{path}: {error}") from error
    if list(found) != [ctypes.sizeof(struct) for struct in structs]:
        raise ImportError(f"{path} and {by} do not agree about what they share")
    return made
