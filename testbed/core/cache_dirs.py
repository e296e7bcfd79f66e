# SPDX-License-Identifier: GPL-2.0-only
"""Folders of the cache that are made once, and then are whole or made again: FOLDER.json says what is in FOLDER."""
from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import stat
import tempfile
from collections.abc import Callable

from kernel.source import cache_dir
from testbed.core.errors import EnvironmentProblem
from testbed.core.files import existing, why_unwritable

#: 14 November 2023, as the guest's clock
_MTIME_S = 1_700_000_000
#: what of the cache is somebody else's, or cannot be written by anybody
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL = (errno.ENOSPC, errno.EDQUOT)


def ensure(target: pathlib.Path, make: Callable[[pathlib.Path], None]) -> None:
    """Have `make` fill the folder `target` unless it is there and whole.

    Raises EnvironmentProblem where that is not possible, and what `make` raises; then nothing is left of it.
    """
    if whole(target):
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # one at a time: what somebody has just made and uses is not taken for damaged while it is put there
        parent = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(parent, fcntl.LOCK_EX)
            if not whole(target):
                _make(target, make)
        finally:
            os.close(parent)
    except OSError as problem:
        raise EnvironmentProblem(unusable(problem) or f"{problem.filename or target}: {problem.strerror}") from None
    if not whole(target):
        raise EnvironmentProblem(f"{target}: what was put there has changed")


def unusable(problem: OSError) -> str:
    """Why the cache cannot be used, and what to do, in a line; '' if that is not what an error is about."""
    if problem.filename is None and problem.errno in _FULL:
        return unusable(OSError(problem.errno, problem.strerror, str(cache_dir()))) if full(cache_dir()) else ""
    if not isinstance(problem.filename, str):
        return ""
    cache, path = pathlib.Path(os.path.abspath(cache_dir())), pathlib.Path(os.path.abspath(problem.filename))
    # above it, only what keeps the cache from being made
    if not (path.is_relative_to(cache) or cache.is_relative_to(path) and not os.path.isdir(path)):
        return ""
    why = why_unwritable(cache).removeprefix(f"{cache}: ")
    if not why and problem.errno in (*_FORBIDDEN, *_FULL):
        why = f"{path}: {problem.strerror}"
    return f"the cache folder {cache} cannot be used: {why}; set TESTBED_CACHE to a folder of yours" if why else ""


def full(folder: pathlib.Path) -> bool:
    """True if a file of a page cannot be written there any more."""
    try:
        with tempfile.TemporaryFile(dir=existing(folder)) as file:
            file.write(bytes(4096))
    except OSError as problem:
        return problem.errno in _FULL
    return False


def _make(target: pathlib.Path, make: Callable[[pathlib.Path], None]) -> None:
    partial = pathlib.Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        (partial / "made").mkdir()
        make(partial / "made")
        (partial / "manifest").write_text(json.dumps(_settled(partial / "made"), indent=1), encoding="utf-8")
        (partial / "manifest").chmod(0o644)                 # whatever the umask: others may read the folder, too
        _put(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def whole(folder: pathlib.Path) -> bool:
    """True if `folder` is as it was made. What has been read before is only looked at."""
    manifest = _manifest(folder)
    try:
        made = manifest.read_text(encoding="utf-8")
        there = _files(folder)
        if _found_whole.get(folder) != (made, there):
            hashes = {os.path.relpath(path, folder): hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
                      for path in there}
            if json.loads(made) != hashes:
                return False
            _found_whole[folder] = made, there
    except (OSError, ValueError):
        return False
    with contextlib.suppress(OSError):                      # somebody else's cache, or one that cannot be written
        os.utime(manifest)                                  # for `testbed kernel --prune`: it is still used
    return True


#: {folder: its manifest, and the files, in the state in which they were when they were read}
_found_whole: dict[pathlib.Path, tuple[str, dict[str, tuple[int, ...]]]] = {}


def _files(folder: pathlib.Path) -> dict[str, tuple[int, ...]]:
    """{path: what changes when the file does}"""
    found: dict[str, tuple[int, ...]] = {}
    for where, _, names in os.walk(folder):
        for name in names:
            file = os.stat(path := f"{where}/{name}")
            if stat.S_ISREG(file.st_mode):
                found[path] = file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns
    return found


def _manifest(folder: pathlib.Path) -> pathlib.Path:
    return folder.with_name(folder.name + ".json")


def _put(partial: pathlib.Path, target: pathlib.Path) -> None:
    if target.exists():                                     # a damaged one
        target.rename(partial / "damaged")
    os.replace(partial / "manifest", _manifest(target))
    (partial / "made").rename(target)


def _settled(folder: pathlib.Path) -> dict[str, str]:
    """{path: SHA-256} of all files, which get modes and times that are the same everywhere."""
    made = {}
    for where, _, files in os.walk(folder, topdown=False):
        for name in files:
            path = pathlib.Path(where, name)
            made[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
            path.chmod(0o644)
            os.utime(path, (_MTIME_S, _MTIME_S))
        os.chmod(where, 0o755)
        os.utime(where, (_MTIME_S, _MTIME_S))
    return made
