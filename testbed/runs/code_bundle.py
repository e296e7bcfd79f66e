# SPDX-License-Identifier: GPL-2.0-only
"""The code that runs inside, as a folder of its own that is the same everywhere.

    digest()    SHA-256 of all code that runs inside or decides what does
    ensure()    a folder in the cache with exactly that code, made if need be

Engines mount that folder at one fixed path, so that neither where a checkout lies, nor who owns it, nor
whether its byte code has been made reaches a run. Byte code in it is never checked against the sources: what
was compiled is what is there.
"""
from __future__ import annotations

import errno
import functools
import hashlib
import importlib.util
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Mapping

from kernel.source import cache_dir
from testbed import PROJECT_DIR
from testbed.core import c_libraries, cache_dirs, imports
from testbed.core.errors import EnvironmentProblem

#: where engines mount it: part of the byte code
MOUNTED_AT = "/run/project"
PYTHON = c_libraries.PYTHON
imports.remember_in(cache_dir)
#: what programs import at their start, a file for each (testbed/guest/start.py)
IMAGES = "images"
#: what process 1 of a guest imports
PROCESS_1 = "testbed.guest.main"
_IMAGE_OF = pathlib.Path(__file__).with_name("import_image.py")
#: of Python where it makes what must always be the same
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "PATH": "/usr/bin:/bin"}
#: prepares what runs inside, and needs the cache for it
_OUTSIDE = ("traffic/quic/programs.py",)
_FOLDERS = ("testbed/guest", "testbed/probes", "topologies", "traffic")
#: what else decides is what programs of QUIC stacks are made of
_SUFFIXES = (".py", ".c", ".h", ".rs", ".go", ".toml", ".lock", ".mod", ".sum", ".yaml")


def digest() -> str:
    """SHA-256 of all code that runs inside, and of the code that gives it its orders.

    A replay without its library leaves other bytes. Raises UsageError.
    """
    choice = {} if c_libraries.TMIX_CORE in c_libraries.wanted() else {f"without {c_libraries.TMIX_CORE}": b""}
    return _digest_of(_contents() | choice)


def ensure(report: Callable[[str], None] | None = None) -> pathlib.Path:
    """The folder in the cache that has this code, whole, with the libraries that can be made of it.

    report: gets the reason where a library that runs can go without cannot be made. Raises EnvironmentProblem.
    """
    target = folder_of(digest())
    if cache_dirs.whole(target):
        return target
    made, missing = c_libraries.make(_contents())
    if why := missing.get(c_libraries.TMIX_CORE):
        raise EnvironmentProblem(f"{c_libraries.TMIX_CORE} cannot be made: {why}; to replay Tmix traffic by epoll "
                                 "instead, set TESTBED_COMPILED=no")
    for name, why in missing.items():
        path = pathlib.PurePath(name)
        if report is not None:
            report(f"{path.name} is not made, which {c_libraries.WITHOUT[name]}: {why}")
        target = target.with_name(f"{target.name}-without-{path.stem}")     # once it can be made, it is not this folder
    cache_dirs.ensure(target, lambda folder: _make(folder, made))
    return target


def folder_of(code_sha256: str) -> pathlib.Path:
    """Where code with this digest is or will be, for the Python that is installed and how images are made."""
    made_by = importlib.util.MAGIC_NUMBER + sys.version.encode() + _IMAGE_OF.read_bytes()
    version = hashlib.sha256(made_by).hexdigest()[:4]
    return cache_dir() / "bundles" / f"{code_sha256[:16]}-{version}"


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
        if name not in found and name not in _OUTSIDE:
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


def _make(folder: pathlib.Path, built: Mapping[str, bytes]) -> None:
    """Write the code to `folder`, with byte code and these libraries, {path: content}."""
    for name, data in {**_contents(), **built}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    made = subprocess.run(
        [PYTHON, "-S", "-s", "-m", "compileall", "-q", "-s", str(folder), "-p", MOUNTED_AT,
         "--invalidation-mode", "unchecked-hash", str(folder)], env=_ENVIRONMENT,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if made.returncode:
        if cache_dirs.full(folder):                               # which is nothing that is wrong with the code
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        raise EnvironmentProblem(f"the testbed's code does not compile: {(made.stdout + made.stderr).strip()}")
    _make_images(folder)


def _make_images(folder: pathlib.Path) -> None:
    """Write what programs import at their start to a file each. One that cannot be imported here has none."""
    (folder / IMAGES).mkdir()
    programs = [".".join(path.relative_to(folder).with_suffix("").parts) for path in folder.glob("traffic/**/*.py")
                if '\nif __name__ == "__main__":' in path.read_text(encoding="utf-8")]
    for module in (*programs, PROCESS_1):
        made = subprocess.run([PYTHON, "-P", "-S", "-s", "-B", str(_IMAGE_OF), str(folder), module],
                              env=_ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if made.returncode == 0:
            (folder / IMAGES / module).write_bytes(made.stdout)
