# SPDX-License-Identifier: GPL-2.0-only
"""The Python that a Tmix replay spends its time in, compiled by mypyc.

There is one source: what runs inside are extension modules made of the same files, which its Python prefers to them
where they are. They make the same system calls in the same order, so that a run leaves the same bytes with and without
(docs/replay.md). TESTBED_COMPILED=no goes without.
"""
from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import os
import pathlib
import re
import shutil
import subprocess
import sysconfig
import tempfile
import time
from typing import Any

from kernel import build
from kernel.source import Report, cache_dir
from testbed import bundle, kept
from testbed.errors import EnvironmentProblem

#: what is compiled, into one library: calls among these are calls of C
MODULES = (*(f"traffic/{name}.py" for name in ("clock", "sockets", "uring")), *(f"traffic/tmix/{name}.py" for name in (
    "buffers", "chain", "chained", "endpoint", "flow", "notes", "options", "records", "ringloop")))
#: what the compiler reads besides. They stay Python: they compute large numbers, or name their attributes at run time
_READ = ("traffic/payload.py", "traffic/tmix/plan.py")
#: packages: empty while it compiles. What they offer to others is not there, which newer compilers complain of
_EMPTY = ("traffic/__init__.py", "traffic/tmix/__init__.py")
#: the library that does what is done for each event, and the folder of its sources
CORE = "traffic/tmix/core.so"
_CORE_SOURCES = "traffic/tmix/core/"
_CORE_COMPILER = ("gcc", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-s", "-Wl,--build-id=none")
_SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
_PACKAGES = pathlib.Path("/usr/lib/python3/dist-packages")
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "PYTHONHASHSEED": "0", "MYPY_CACHE_DIR": os.devnull,
                "MYPYC_OPT_LEVEL": "2", "MYPYC_DEBUG_LEVEL": "0", "CFLAGS": "-O2 -g0"}
_IMPORT = """import importlib, sys
for name in sys.argv[1:]:
    file = importlib.import_module(name).__file__
    if file.endswith(".py"):
        sys.exit(f"{file} is used")
"""
_LIMIT_S = 600
#: not the one of kernels, whose building takes minutes
_LOCK = "compiled.lock"
#: what the compiler refused is tried again after so long: the disk was full, or somebody interrupted it
_REMEMBERED_S = 86_400


def ensure(report: Report) -> pathlib.Path | None:
    """find(), after compiling if need be; says in one line why there is nothing."""
    if not _wanted() or find():
        return find()
    why = _lacking() or _refused()
    if not why:
        try:
            with build.lock(report, _LOCK):
                why = "" if find() else _compile(report)
        except (EnvironmentProblem, OSError) as problem:
            why = str(problem)
    if why:
        report(f"Tmix replays go without compiled code, which makes them slower and changes nothing else: {why}")
    return find()


def find() -> pathlib.Path | None:
    """The folder in the cache with the extension modules of this code, None if they were not made."""
    folder = cache_dir() / "compiled" / _key()
    return folder if _wanted() and kept.whole(folder) else None


def provenance() -> dict[str, Any] | None:
    """What environment.json says of them."""
    found = find()
    return {"key": found.name, **_tools()} if found else None


def _wanted() -> bool:
    return os.environ.get("TESTBED_COMPILED") != "no"


def _key() -> str:
    state = hashlib.sha256(repr((sorted(_tools().items()), _SUFFIX, sorted(_ENVIRONMENT.items()))).encode())
    for name in (*MODULES, *_READ, *_core()):
        data = bundle.source(name)
        state.update(f"{name}\0{len(data)}\0".encode() + data)
    return state.hexdigest()[:16]


def _core() -> list[str]:
    """The sources of the library."""
    return bundle.names(_CORE_SOURCES)


@functools.cache
def _tools() -> dict[str, str]:
    """Versions of what compiles; "" for what is not there."""
    versions = [match[1] for path in _PACKAGES.glob("mypy-*-info") if (match := re.match(r"mypy-(.*)\.", path.name))]
    gcc = subprocess.run(["gcc", "-dumpfullversion"], env=_ENVIRONMENT, capture_output=True, text=True,
                         check=False).stdout.strip() if shutil.which("gcc", path=_ENVIRONMENT["PATH"]) else ""
    return {"mypyc": max(versions, default=""), "gcc": gcc, "python": sysconfig.get_python_version()}


def _lacking() -> str:
    """The Debian packages that compiling needs and this machine lacks, in words."""
    header = pathlib.Path(sysconfig.get_path("platinclude"), "Python.h")
    missing = [package for package, there in (
        ("gcc", _tools()["gcc"]), ("python3-mypy", (_PACKAGES / "mypyc").exists()),
        ("python3-setuptools", (_PACKAGES / "setuptools").exists()), ("libpython3-dev", header.exists())) if not there]
    return f"missing: {', '.join(missing)} (make setup)" if missing else ""


def _failed() -> pathlib.Path:
    """Has what the compiler said when it refused."""
    return cache_dir() / "compiled" / f"{_key()}.failed"


def _refused() -> str:
    """Why it did not work lately, "" if nothing is known."""
    try:
        if time.time() - _failed().stat().st_mtime < _REMEMBERED_S:
            return _failed().read_text(encoding="utf-8")
    except (OSError, ValueError):
        pass
    return ""


def _compile(report: Report) -> str:
    """Why it did not work, in a line, "" if it did. What the compiler refused is not tried again with the same one for
    a day.

    Raises EnvironmentProblem, OSError.
    """
    why = _refused()
    if why:                                                 # somebody else tried meanwhile
        return why
    report("compiling the Tmix replay (once, some 15 s)")
    try:
        kept.ensure(cache_dir() / "compiled" / _key(), _make)
    except _Refused as problem:
        why = f"{problem} (tried again after a day, or without {_failed()})"
        _failed().write_text(why, encoding="utf-8")
    return why


class _Refused(Exception):
    """The compiler does not take it."""


def _make(folder: pathlib.Path) -> None:
    """Put the extension modules into `folder`. Raises _Refused, OSError."""
    # beside it: what is made is tried at once, and a folder for temporary files may be mounted noexec
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        scratch = pathlib.Path(name)
        core = _core()
        (folder / CORE).parent.mkdir(parents=True)
        for file in (*MODULES, *_READ, *core):
            (scratch / file).parent.mkdir(parents=True, exist_ok=True)
            (scratch / file).write_bytes(bundle.source(file))
        for file in _EMPTY:
            (scratch / file).touch()
        _run(scratch, bundle.PYTHON, "-s", "-m", "mypyc", *MODULES)
        _run(scratch, bundle.PYTHON, "-s", "-S", "-c", _IMPORT, *(file.removesuffix(".py").replace("/", ".") for file in MODULES))
        _run(scratch, *_CORE_COMPILER, "-o", str(folder / CORE), *(name for name in core if name.endswith(".c")))
        for path in [*scratch.glob(f"*{_SUFFIX}"), *(scratch / "traffic").rglob(f"*{_SUFFIX}")]:
            (folder / path.relative_to(scratch)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / path.relative_to(scratch))


def _run(scratch: pathlib.Path, *words: str) -> None:
    try:
        done = subprocess.run(words, cwd=scratch, env={**_ENVIRONMENT, "HOME": str(scratch)},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise _Refused(f"no end after {_LIMIT_S} s") from None
    if done.returncode:
        lines = done.stdout.strip().splitlines() or [f"exit code {done.returncode}"]
        raise _Refused(next((line for line in lines if "error" in line.lower()), lines[-1])[:300])
