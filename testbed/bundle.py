# SPDX-License-Identifier: GPL-2.0-only
"""The code that runs inside."""
from __future__ import annotations

import hashlib
import pathlib

from testbed import PROJECT_DIR

_FOLDERS = ("testbed/guest", "testbed/probes", "topologies", "traffic")


def digest() -> str:
    """SHA-256 of all code that runs inside."""
    found = hashlib.sha256()
    for path in sorted(path for folder in _FOLDERS for path in pathlib.Path(PROJECT_DIR, folder).rglob("*.[pc]*") if path.suffix in (".py", ".c")):
        data = path.read_bytes()
        found.update(f"{path.relative_to(PROJECT_DIR)}\0{len(data)}\0".encode() + data)
    return found.hexdigest()
