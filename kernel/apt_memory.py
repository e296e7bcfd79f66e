# SPDX-License-Identifier: GPL-2.0-only
"""What the user's own apt said of a package, for as long as nothing that it reads has changed.

Every command asks which version of linux-source apt would install. Where apt keeps no cache of its own, as in most
containers, reading all lists for that takes more CPU time than the imports of the testbed.
"""
from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Iterator

_CONFIGURATION = pathlib.Path("/etc/apt")
_READ = (pathlib.Path("/var/lib/apt/lists"), pathlib.Path("/var/lib/dpkg/status"))
#: a configuration with this may have apt look elsewhere
_ELSEWHERE = re.compile(r"^\s*Dir\s*(\{|::\s*(Etc|State)\b|\")", re.M | re.I)


def remembered(memory: pathlib.Path, package: str, ask: Callable[[], str | None]) -> str | None:
    """ask(), or what it returned when everything that apt reads was as it is now; `memory`: the file for that."""
    state = _state()
    try:
        known = json.loads(memory.read_text(encoding="utf-8"))[package]
        if state and known["state"] == state and isinstance(known["answer"], str):
            return str(known["answer"])
    except (OSError, ValueError, KeyError, TypeError):
        pass                                # nothing yet, or nothing of use
    answer = ask()
    if state and answer:
        _note(memory, package, {"state": state, "answer": answer})
    return answer


def _note(memory: pathlib.Path, package: str, entry: dict[str, str]) -> None:
    """One entry more. A memory that cannot be kept costs time only."""
    try:
        known = json.loads(memory.read_text(encoding="utf-8"))
        known = known if isinstance(known, dict) else {}
    except (OSError, ValueError):
        known = {}
    part = memory.with_name(f"{memory.name}.{os.getpid()}.part")
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps({**known, package: entry}, indent=1) + "\n", encoding="utf-8")
        os.replace(part, memory)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()


def _state() -> str | None:
    """Digest of which files apt reads and when they were changed; None if that cannot be told."""
    program = shutil.which("apt-cache")
    if program is None or "APT_CONFIG" in os.environ:
        return None
    digest = hashlib.sha256()
    try:
        for path in _files(pathlib.Path(program)):
            if path.parent.name == "apt.conf.d" or path.name == "apt.conf":
                if _ELSEWHERE.search(path.read_text(encoding="utf-8", errors="replace")):
                    return None
            facts = path.stat()
            digest.update(f"{path}\0{facts.st_ino} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    except OSError:
        return None
    return digest.hexdigest()


def _files(program: pathlib.Path) -> Iterator[pathlib.Path]:
    yield program
    for root in (_CONFIGURATION, *_READ):
        yield root
        yield from sorted(root.rglob("*"))
