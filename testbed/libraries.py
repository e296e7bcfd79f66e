# SPDX-License-Identifier: GPL-2.0-only
"""Libraries in C that programs inside have, made by gcc where it is: without them everything is the same, only later.

    testbed/guest/preload.so    makes the start of programs cheaper
    traffic/tmix/core.so        does what a Tmix replay does for each event (docs/replay.md)

TESTBED_COMPILED=no goes without the second.
"""
from __future__ import annotations

import os
import pathlib
import subprocess
import tempfile
from collections.abc import Mapping

PRELOAD = "testbed/guest/preload.so"
TMIX_CORE = "traffic/tmix/core.so"
#: what they are made of: a file, or all of a folder
_SOURCES = {PRELOAD: "testbed/guest/preload.c", TMIX_CORE: "traffic/tmix/core/"}
_OPTIONS = {PRELOAD: ("-nostartfiles",), TMIX_CORE: ("-Wall", "-Wextra")}
_LINKED = {PRELOAD: (), TMIX_CORE: ("-lm",)}


def wanted() -> list[str]:
    """Their paths in the code."""
    return [name for name in _SOURCES if name != TMIX_CORE or os.environ.get("TESTBED_COMPILED") != "no"]


def make(code: Mapping[str, bytes], report_to: list[str] | None = None) -> dict[str, bytes]:
    """{path: content} of those that could be made of the code, {path: content}.

    report_to: gets a line on each that could not: no compiler, no headers of the C library.
    """
    made = {}
    for name in wanted():
        sources = {path: data for path, data in code.items() if path.startswith(_SOURCES[name])}
        try:
            made[name] = _compiled(name, sources)
        except OSError as problem:
            why = problem.strerror
        except subprocess.CalledProcessError as problem:
            lines = (problem.stderr or b"").decode(errors="replace").splitlines()
            why = next((line for line in lines if "error" in line), f"gcc: exit code {problem.returncode}")
        if name not in made and report_to is not None:
            report_to.append(f"{pathlib.PurePath(name).name} is not made, which makes runs slower and changes nothing "
                             f"else: {why}")
    return made


def _compiled(name: str, sources: Mapping[str, bytes]) -> bytes:
    """Raises OSError, CalledProcessError."""
    with tempfile.TemporaryDirectory(prefix="testbed-") as scratch:
        for path, data in sources.items():
            pathlib.Path(scratch, pathlib.PurePath(path).name).write_bytes(data)
        files = sorted(pathlib.PurePath(path).name for path in sources if path.endswith(".c"))
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-s", "-Wl,--build-id=none", *_OPTIONS[name],
                        "-o", "library.so", *files, *_LINKED[name]], cwd=scratch, stdin=subprocess.DEVNULL,
                       env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C"}, capture_output=True,
                       check=True)
        return pathlib.Path(scratch, "library.so").read_bytes()
