# SPDX-License-Identifier: GPL-2.0-only
"""Writing files whole or not at all."""
import json
import os
import pathlib
from typing import Any


def write_text(path: pathlib.Path, text: str) -> None:
    """Write through a temporary name next to `path`. A file name that is no text is shown escaped."""
    temporary = path.with_name(path.name + ".part")
    try:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: pathlib.Path, value: Any) -> None:
    """Write JSON through a temporary name."""
    write_text(path, json.dumps(value, indent=1) + "\n")
