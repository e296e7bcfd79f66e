# SPDX-License-Identifier: GPL-2.0-only
"""Libraries in C that programs inside have, made by gcc.

    testbed/guest/preload.so            makes the start of programs cheaper, and nothing else
    traffic/program/random_device.so    gives C++ programs random numbers that depend on the seed only
    traffic/replay/core.so              replays Tmix traffic by io_uring (docs/explanation/replay.md)

TESTBED_COMPILED=no goes without the last. Tmix traffic is replayed by epoll then.
"""
from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import tempfile
from collections.abc import Mapping

from testbed.core.errors import UsageError

#: the interpreter inside
PYTHON = "/usr/bin/python3"
PRELOAD = "testbed/guest/preload.so"
RANDOM_DEVICE = "traffic/program/random_device.so"
TMIX_CORE = "traffic/replay/core.so"
#: what they are made of: files, and all of folders
_SOURCES = {PRELOAD: ("testbed/guest/preload.c",), RANDOM_DEVICE: ("traffic/program/random_device.c",),
            TMIX_CORE: ("traffic/replay/core/", "traffic/io/ring.h")}
_OPTIONS = {PRELOAD: ("-nostartfiles",), RANDOM_DEVICE: ("-Wall", "-Wextra"), TMIX_CORE: ("-Wall", "-Wextra")}
_LINKED = {PRELOAD: (), RANDOM_DEVICE: (), TMIX_CORE: ("-lm",)}
#: what is called in them
_CALLED = {PRELOAD: ("use_virtual_clock",), RANDOM_DEVICE: ("_ZNSt13random_device9_M_getvalEv",),
           TMIX_CORE: ("tmix_run", "tmix_close")}
#: what is different in runs that go without one
WITHOUT = {PRELOAD: "makes runs slower and changes nothing else",
           RANDOM_DEVICE: "makes runs of C++ programs differ from one time to the next"}
#: Loads a library as it will be loaded inside, but from memory: temporary files may be where nothing is executed.
_LOAD = """import ctypes, os, sys
memory = os.memfd_create("library.so")
with open(memory, "wb", closefd=False) as file:
    file.write(sys.stdin.buffer.read())
try:
    library = ctypes.PyDLL(f"/proc/self/fd/{memory}")
    for name in sys.argv[1:]:
        getattr(library, name)
except (OSError, AttributeError) as problem:
    sys.exit(str(problem).partition(": ")[2] or str(problem))
"""
#: gcc takes a second
_PATIENCE_S = 120


class _NotMade(Exception):
    """The message says why, in a line."""


def wanted() -> list[str]:
    """Their paths in the code. Raises UsageError."""
    choice = os.environ.get("TESTBED_COMPILED") or "yes"
    if choice not in ("yes", "no"):
        raise UsageError(f"TESTBED_COMPILED={choice}: yes or no")
    return [name for name in _SOURCES if name != TMIX_CORE or choice == "yes"]


def make(code: Mapping[str, bytes]) -> tuple[dict[str, bytes], dict[str, str]]:
    """({path: content} of those that could be made of the code, {path: content}; {path: why not} of the others)."""
    made, missing = {}, {}
    for name in wanted():
        sources = {path: data for path, data in code.items() if path.startswith(_SOURCES[name])}
        try:
            made[name] = _compiled(name, sources)
        except _NotMade as problem:
            missing[name] = str(problem)
    return made, missing


def _compiled(name: str, sources: Mapping[str, bytes]) -> bytes:
    """Raises _NotMade."""
    try:
        with tempfile.TemporaryDirectory(prefix="testbed-") as scratch:
            for path, data in sources.items():
                file = pathlib.Path(scratch, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
            _run_gcc(name, scratch)
            made = pathlib.Path(scratch, "library.so")
            if not made.exists():
                raise _NotMade("gcc said nothing and made nothing")
            library = made.read_bytes()
    except OSError as problem:
        raise _NotMade(f"{problem.filename or tempfile.gettempdir()}: {problem.strerror}") from None
    _try_to_load(name, library)
    return library


def _run_gcc(name: str, scratch: str) -> None:
    files = sorted(str(path.relative_to(scratch)) for path in pathlib.Path(scratch).rglob("*.c"))
    try:
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-s", "-Wl,--build-id=none", *_OPTIONS[name],
                        "-o", "library.so", *files, *_LINKED[name]], cwd=scratch, stdin=subprocess.DEVNULL,
                       env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C"}, capture_output=True,
                       check=True, timeout=_PATIENCE_S)
    except FileNotFoundError:
        raise _NotMade("there is no gcc in PATH") from None
    except OSError as problem:
        raise _NotMade(f"gcc: {problem.strerror}") from None
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as problem:
        lines = (problem.stderr or b"").decode(errors="replace").splitlines()
        why = next((line for line in lines if "error" in line), f"gcc: {_ending(problem)}")
        raise _NotMade(why) from None


def _try_to_load(name: str, library: bytes) -> None:
    """What cannot be loaded would only show inside, where it breaks runs or makes them slow."""
    try:
        subprocess.run([PYTHON, "-I", "-S", "-c", _LOAD, *_CALLED[name]], input=library, capture_output=True,
                       check=True, timeout=_PATIENCE_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as problem:
        lines = (problem.stderr or b"").decode(errors="replace").splitlines()
        raise _NotMade(f"what gcc made cannot be loaded: {lines[-1] if lines else _ending(problem)}") from None


def _ending(problem: subprocess.CalledProcessError | subprocess.TimeoutExpired) -> str:
    if isinstance(problem, subprocess.TimeoutExpired):
        return f"no end after {problem.timeout:g} s"
    if problem.returncode < 0:
        return f"ended by {signal.Signals(-problem.returncode).name}"
    return f"exit code {problem.returncode}"
