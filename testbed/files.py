# SPDX-License-Identifier: GPL-2.0-only
"""Writing files whole or not at all."""
import json
import os


def write_text(path, text):
    """Write through a temporary name next to `path`."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def write_json(path, value):
    """Write JSON through a temporary name."""
    write_text(path, json.dumps(value, indent=1) + "\n")
