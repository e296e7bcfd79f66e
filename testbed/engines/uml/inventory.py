# SPDX-License-Identifier: GPL-2.0-only
"""Hashes of what reaches a run from outside the project: programs, libraries, Python's modules.

Hashing them takes a second, so that the cache remembers what the hash of a file was for as long as
neither its size nor its times nor its place on the disk have changed.
"""
from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable

from kernel.source import cache_dir
from testbed.core.files import write_text
from testbed.runs.code_bundle import PYTHON

_PROGRAMS = {"python": PYTHON, "ip": "/usr/sbin/ip", "tc": "/usr/sbin/tc", "ss": "/usr/bin/ss", "bash": "/usr/bin/bash",
             "mnexec": "/usr/bin/mnexec", "iperf3": "/usr/bin/iperf3"}
_FOLDERS = {"python_standard_library": f"/usr/lib/python3.{sys.version_info.minor}",
            "mininet": "/usr/lib/python3/dist-packages/mininet"}
_NO_CODE = {"__pycache__", "test", "dist-packages", "site-packages", "idlelib", "tkinter", "ensurepip"}


def hashes(kernel_program: pathlib.Path) -> dict[str, str]:
    """{what: SHA-256} for environment.json; what is not installed is left out."""
    memory = _Memory(cache_dir() / "file-hashes.json")
    found: dict[str, str] = {}
    programs = {"kernel": str(kernel_program), **_PROGRAMS}
    for name, path in programs.items():
        memory.note(found, name, path)
    for path in memory.libraries([path for name, path in _PROGRAMS.items() if name in found]):
        memory.note(found, os.path.basename(path), path)
    for name, path in _FOLDERS.items():
        digest = memory.of_folder(pathlib.Path(path))
        if digest:
            found[name] = digest
    memory.save()
    return dict(sorted(found.items()))


class _Memory:
    """What was found before, by the state of the files it was found in."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path, self._changed = path, False
        self._known: dict[str, object] = {}
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(known, dict):
                self._known = known
        except (OSError, ValueError):
            pass

    def note(self, found: dict[str, str], name: str, path: str) -> None:
        """Put the hash of the file at `path`, if there is one, into `found`."""
        try:
            real = os.path.realpath(path)
            state = _state(real)
            found[name] = self._remembered(real, state, lambda: _sha256(pathlib.Path(real)))
        except OSError:
            pass

    def libraries(self, programs: list[str]) -> list[str]:
        """Paths of the shared libraries that programs are linked with."""
        state = "|".join(_state(path) for path in [*programs, "/etc/ld.so.cache"] if os.path.exists(path))
        return self._remembered("libraries", state, lambda: _linked(programs)).split("\n")

    def of_folder(self, folder: pathlib.Path) -> str | None:
        """One digest over names and contents of the code in a folder."""
        files = []
        for where, folders, names in os.walk(folder):
            folders[:] = sorted(set(folders) - _NO_CODE)
            files += [f"{where}/{name}" for name in sorted(names) if name.endswith((".py", ".so"))]
        if not files:
            return None
        try:
            state = hashlib.sha256("\n".join(f"{path} {_state(path)}" for path in files).encode()).hexdigest()
            return self._remembered(str(folder), state, lambda: _sha256_of_all(folder, files))
        except OSError:
            return None

    def save(self) -> None:
        """Keep it for the next run, where that is possible."""
        if self._changed:
            try:
                write_text(self._path, json.dumps(self._known, indent=1))
            except OSError:
                pass

    def _remembered(self, key: str, state: str, find: Callable[[], str]) -> str:
        known = self._known.get(key)
        if isinstance(known, list) and len(known) == 2 and known[0] == state and isinstance(known[1], str):
            return known[1]
        value = find()
        self._known[key], self._changed = [state, value], True
        return value


def _state(path: str) -> str:
    status = os.stat(path)
    return f"{status.st_dev}-{status.st_ino}-{status.st_size}-{status.st_mtime_ns}-{status.st_ctime_ns}"


def _sha256(path: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _sha256_of_all(folder: pathlib.Path, files: list[str]) -> str:
    lines = [f"{os.path.relpath(path, folder)} {_sha256(pathlib.Path(path))}\n" for path in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _linked(programs: list[str]) -> str:
    """What the dynamic linker says it loads for programs, the linker itself included."""
    found: set[str] = set()
    for program in programs:
        said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        found.update(re.findall(r"(/\S+) \(0x", said.stdout))
    return "\n".join(sorted(found))
