# SPDX-License-Identifier: GPL-2.0-only
"""Compiling somebody's kernel module: within bounds of time, memory and output, and changing nothing else.

A source is a program: `#include "/dev/zero"` never ends, and a Kbuild file runs any command. The compiler
may write into the folder of the copy only, and read the system's folders and the kernel's, where the host
has Landlock.
"""
from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Protocol

from kernel import guest
from kernel.make import make_environment

_LAUNCH = pathlib.Path(__file__).with_name("launch.py")
#: for each of the processes: seconds of CPU time, bytes of memory, bytes of a file
_LIMITS = {"CPU": 30, "AS": 3 << 30, "FSIZE": 256 << 20, "CORE": 0}
#: for all together, in seconds of wall time
_LONGEST_S = 300
_MOST_LINES = 200


class Target(Protocol):
    """A kernel that modules are built for: what it is known by, how to build for it."""
    @property
    def key(self) -> str: ...

    @property
    def release(self) -> str: ...

    def make_command(self) -> list[str]: ...

    def make_reads(self) -> list[pathlib.Path]: ...


class CompileError(Exception):
    """The compiler's words, to be put behind the name of the source."""


def make_module(kernel: Target, folder: pathlib.Path, readable: Callable[[str], str]) -> tuple[pathlib.Path, str]:
    """The .ko that is built of the sources in `folder`, and the compiler's warnings, as `readable` shows them."""
    (folder / ".tmp").mkdir()
    launcher = [sys.executable, "-I", "-S", str(_LAUNCH), "--write", str(folder)]
    for path in (*guest.SYSTEM, *kernel.make_reads()):
        launcher += ["--read", str(path)]
    for name, most in _LIMITS.items():
        launcher += ["--limit", f"{name}={most}"]
    command = [*launcher, "--", "/usr/bin/env", *kernel.make_command(), f"M={folder}", "modules"]
    log_path = folder / ".tmp" / "errors"
    with open(log_path, "wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, stdin=subprocess.DEVNULL, cwd=folder,
                                   env={**make_environment(), "TMPDIR": str(folder / ".tmp")}, start_new_session=True)
        try:
            process.wait(timeout=_LONGEST_S)
        except subprocess.TimeoutExpired:
            raise CompileError(f": compiling takes more than {_LONGEST_S} s") from None
        finally:
            guest.kill_session(process)
    with open(log_path, encoding="utf-8", errors="replace") as log_file:
        text = log_file.read(1 << 20)
    words = _words(readable(text))
    if process.returncode:
        raise CompileError(f" does not build:{_bound_hit(text)}\n{words}")
    built = sorted(folder.rglob("*.ko"))
    if len(built) != 1:
        names = ", ".join(ko.name for ko in built) or "is there an obj-m line?"
        raise CompileError(f" builds {len(built)} modules ({names}): one expected")
    if built[0].parent != folder:
        built[0] = built[0].rename(folder / built[0].name)
    return built[0], words


def _bound_hit(text: str) -> str:
    """Says it if the compiler was stopped by one of the limits."""
    if re.search(r"out of memory|cannot allocate|virtual memory exhausted", text, re.I):
        return f" the compiler needs more than {_LIMITS['AS'] >> 30} GB of memory"
    if re.search(r"CPU time limit exceeded|signal terminated program|Killed|Error 137|Error 152", text):
        return f" the compiler was stopped after {_LIMITS['CPU']} s of CPU time"
    if "File size limit exceeded" in text or "File too large" in text:
        return f" the compiler writes files of more than {_LIMITS['FSIZE'] >> 20} MB"
    return ""


def _words(text: str) -> str:
    """What the compiler said, without make's own words."""
    noise = r"make(\[\d+\])?: (Entering|Leaving|\*\*\*)|WARNING: Module.symvers|\s*Symbol info of vmlinux|Skipping BTF"
    lines = [line for line in text.splitlines() if not re.match(noise, line)]
    if any("modpost" in line and "undefined!" in line for line in lines):
        lines.append("(a kernel exports to modules only what is marked EXPORT_SYMBOL)")
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"({len(lines) - _MOST_LINES} more lines)"]
    return "\n".join(line[:2000] for line in lines).strip()
