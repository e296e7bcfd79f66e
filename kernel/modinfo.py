# SPDX-License-Identifier: GPL-2.0-only
"""The parameters a module has, read from what MODULE_PARM_DESC left in it."""
from __future__ import annotations

import pathlib

from kernel.build import Kernel


def of_module(file: pathlib.Path) -> dict[str, str]:
    """{parameter: description} of a .ko file."""
    return _parameters(pathlib.Path(file).read_bytes(), b"parm=")


def built_in(kernel: Kernel) -> list[str]:
    """Names of the modules that are part of the kernel."""
    entries = _of_builtins(kernel).split(b"\0")
    return sorted({entry.partition(b".")[0].decode("utf-8", "replace") for entry in entries if entry})


def of_builtin(kernel: Kernel, module: str) -> dict[str, str]:
    """{parameter: description} of a module that is part of the kernel; empty if it has none."""
    return _parameters(_of_builtins(kernel), f"{module}.parm=".encode())


def _of_builtins(kernel: Kernel) -> bytes:
    try:
        return (kernel.build_dir / "modules.builtin.modinfo").read_bytes()
    except OSError:
        return b""


def _parameters(data: bytes, prefix: bytes) -> dict[str, str]:
    found = {}
    for entry in data.split(b"\0"):
        if entry.startswith(prefix):
            name, _, text = entry[len(prefix):].decode("utf-8", "replace").partition(":")
            found[name] = text
    return dict(sorted(found.items()))
