# SPDX-License-Identifier: GPL-2.0-only
"""The library that lets a guest kernel say where it divided by zero (fault_signals.c), made once by gcc.

It is no patch of the kernel: a patch would change every kernel's key, and everybody would have to build again. It
works with any kernel, and a run without a fault is the same to the byte with and without it.
"""
from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

from kernel.source import cache_dir

_SOURCE = pathlib.Path(__file__).with_suffix(".c")
_COMPILE = ("gcc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror")
#: gcc takes a second
_PATIENCE_S = 120


def library() -> pathlib.Path | None:
    """Its path in the cache; None where it is not there and cannot be made: crashes by such signals say less then."""
    digest = hashlib.sha256(_SOURCE.read_bytes() + "\0".join(_COMPILE).encode()).hexdigest()[:16]
    path = cache_dir() / "libraries" / f"fault_signals-{digest}.so"
    if path.is_file():
        return path
    if not shutil.which(_COMPILE[0]):
        return None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as folder:
            made = pathlib.Path(folder) / path.name
            subprocess.run([*_COMPILE, "-o", str(made), str(_SOURCE), "-ldl"], stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=_PATIENCE_S)
            os.replace(made, path)
    except (OSError, subprocess.SubprocessError):
        return None                             # somebody else's cache, a full disk, another machine's gcc
    return path
