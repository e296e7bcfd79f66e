# SPDX-License-Identifier: GPL-2.0-only
"""The code that runs inside, as a folder of its own that is the same everywhere.

    digest()    SHA-256 of all code that runs inside or decides what does
    ensure()    a folder in the cache with exactly that code, made if need be

Engines mount that folder at one fixed path, so that neither where a checkout lies, nor who owns it, nor
whether its byte code has been made reaches a run. Byte code in it is never checked against the sources: what
was compiled is what is there.
"""
from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from kernel.source import cache_dir
from testbed import PROJECT_DIR, imports, kept
from testbed.errors import EnvironmentProblem

#: where engines mount it: part of the byte code
MOUNTED_AT = "/run/project"
#: the interpreter inside
PYTHON = "/usr/bin/python3"
imports.remember_in(cache_dir)
#: what makes the start of programs cheaper inside, if there is a compiler; where it is missing nothing else differs
PRELOAD = "testbed/guest/preload.so"
#: what programs import at their start, a file for each (testbed/guest/start.py)
IMAGES = "images"
_IMAGE_OF = pathlib.Path(__file__).with_name("image_of.py")
#: of Python where it makes what must always be the same
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "PATH": "/usr/bin:/bin"}
_FOLDERS = ("testbed/guest", "testbed/probes", "topologies", "traffic")
_SUFFIXES = (".py", ".c", ".h")


def digest() -> str:
    """SHA-256 of all code that runs inside, and of that which decides what it is told to do."""
    return _digest_of(_contents())


def ensure(compiled: pathlib.Path | None = None) -> pathlib.Path:
    """The folder in the cache that has this code, whole. Raises EnvironmentProblem.

    compiled: a folder of extension modules to lay beside the sources they were made of (testbed/compiled.py).
    """
    target = folder_of(digest())
    if compiled:
        target = target.with_name(f"{target.name}-{compiled.name}")
    if kept.whole(target):
        return target
    library = _preload()
    if library is None:                                     # where it can be made later, it is not this folder
        target = target.with_name(f"{target.name}-without-preload")
    kept.ensure(target, lambda folder: _make(folder, compiled, library))
    return target


def folder_of(code_sha256: str) -> pathlib.Path:
    """Where code with this digest is or will be, for the Python that is installed and how images are made."""
    made_by = importlib.util.MAGIC_NUMBER + sys.version.encode() + _IMAGE_OF.read_bytes()
    version = hashlib.sha256(made_by).hexdigest()[:4]
    return cache_dir() / "bundles" / f"{code_sha256[:16]}-{version}"


def source(name: str) -> bytes:
    """What the file `name` of the code has in it."""
    return _contents()[name]


def names(folder: str) -> list[str]:
    """The files of the code whose path begins so."""
    return [name for name in _contents() if name.startswith(folder)]


@functools.cache
def _contents() -> dict[str, bytes]:
    """{path in the checkout: content}: of whole folders, where files are found by listing, and of what they import."""
    wanted = ["testbed/__init__.py"]
    wanted += [str(path.relative_to(PROJECT_DIR)) for path in PROJECT_DIR.glob("testbed/engines/*/init.py")]
    for folder in _FOLDERS:
        wanted += [str(path.relative_to(PROJECT_DIR)) for path in pathlib.Path(PROJECT_DIR, folder).rglob("*")
                   if (path.suffix in _SUFFIXES or path.name == "Kbuild") and path.is_file()]
    found: dict[str, bytes] = {}
    asked: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = (PROJECT_DIR / name).read_bytes()
            if name.endswith(".py"):
                modules = imports.modules_of(found[name], name.split("/")[:-1]) - asked
                asked |= modules
                for module in modules:
                    wanted += imports.files_of(module, PROJECT_DIR)
    imports.save()
    return dict(sorted(found.items()))


def _digest_of(contents: dict[str, bytes]) -> str:
    state = hashlib.sha256()
    for name, data in contents.items():
        state.update(f"{name}\0{len(data)}\0".encode() + data)
    return state.hexdigest()


def _make(folder: pathlib.Path, compiled: pathlib.Path | None, library: bytes | None) -> None:
    """Write the code to `folder`, with byte code. library: what PRELOAD has in it."""
    for name, data in _contents().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    made = subprocess.run(
        [PYTHON, "-S", "-s", "-m", "compileall", "-q", "-s", str(folder), "-p", MOUNTED_AT,
         "--invalidation-mode", "unchecked-hash", str(folder)], env=_ENVIRONMENT,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if made.returncode:
        raise EnvironmentProblem(f"the testbed's code does not compile: {(made.stdout + made.stderr).strip()}")
    if library is not None:
        (folder / PRELOAD).write_bytes(library)
    if compiled:
        shutil.copytree(compiled, folder, dirs_exist_ok=True)
    _make_images(folder)


def _make_images(folder: pathlib.Path) -> None:
    """Write what programs import at their start to a file each. One that cannot be imported here has none."""
    (folder / IMAGES).mkdir()
    for path in folder.glob("traffic/**/*.py"):
        module = ".".join(path.relative_to(folder).with_suffix("").parts)
        if '\nif __name__ == "__main__":' in path.read_text(encoding="utf-8"):
            made = subprocess.run([PYTHON, "-P", "-S", "-s", "-B", str(_IMAGE_OF), str(folder), module],
                                  env=_ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, check=False)
            if made.returncode == 0:
                (folder / IMAGES / module).write_bytes(made.stdout)


def _preload() -> bytes | None:
    """The library that PRELOAD is, None where it cannot be made: no compiler, no headers of the C library."""
    source_name = pathlib.PurePath(PRELOAD).with_suffix(".c")
    try:
        with tempfile.TemporaryDirectory(prefix="testbed-") as scratch:
            pathlib.Path(scratch, source_name.name).write_bytes(source(str(source_name)))
            subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-nostartfiles", "-s", "-Wl,--build-id=none", "-o",
                            "preload.so", source_name.name], cwd=scratch, stdin=subprocess.DEVNULL,
                           env={"PATH": os.environ.get("PATH", "/usr/bin:/bin")}, capture_output=True, check=True)
            return pathlib.Path(scratch, "preload.so").read_bytes()
    except (OSError, subprocess.CalledProcessError):
        return None
