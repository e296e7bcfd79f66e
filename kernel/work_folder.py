# SPDX-License-Identifier: GPL-2.0-only
"""Builds of a tree that changes, each from what the one before left.

make compiles what is newer than its objects. So files that are the same as before must keep their times, also those
that were fetched and patched again in between.

    tree/       the patched source        build/      what make made of it
    at          the key of the build that both are at: modules can be built for it, and for no other

What runs need of a build is put beside the other kernels of the cache (12 MB). The first build begins from that of the
nearest kernel in the cache.
"""
from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence

from kernel import make, patching, source as sources
from kernel.make import Report
from kernel.source import KernelError

#: what runs need, and what people look up
_KEPT = ("linux", "System.map", ".config", "modules.builtin.modinfo", "testbed.json")
BUILD, _AT, _PATCHED = "build", "at", "patched"
#: what of a build names its folders in full
_NAMES_FOLDERS = ("**/.*.cmd", "**/*.d", "Makefile")

#: fill(tree, patched): writes the source into the folder, and leaves files alone that are the same; patched: paths that
#: patches may have changed
Fill = Callable[[pathlib.Path, Sequence[str]], None]


@dataclasses.dataclass(frozen=True)
class Base:
    """A finished build that another one can begin from."""
    tree: pathlib.Path
    build: pathlib.Path


@dataclasses.dataclass(frozen=True)
class WorkFolder:
    """folder: where tree and build are kept."""
    folder: pathlib.Path

    @property
    def tree(self) -> pathlib.Path:
        return self.folder / "tree"

    @property
    def build(self) -> pathlib.Path:
        return self.folder / BUILD

    @property
    def at(self) -> str:
        """The key of the build that the tree is at, '' if it is at none."""
        try:
            return (self.folder / _AT).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return ""

    def fetch(self, fill: Fill, report: Report, options: Sequence[str]) -> tuple[int, ...]:
        """Fill and patch the tree -> its version. KernelError if it is no kernel tree or patches do not fit."""
        (self.folder / _AT).unlink(missing_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        patched = sorted({*patching.touched(), *self._patched_before()})
        before = {path: _content(self.tree / path) for path in patched}
        (self.folder / _PATCHED).write_text("\n".join(patched), encoding="utf-8")
        fill(self.tree, patched)
        version = sources.tree_version(self.tree)
        if version is None:
            raise KernelError("no kernel tree")
        patching.put_all(self.tree, report, options)
        for path, (data, time_ns) in before.items():
            if data is not None and _content(self.tree / path)[0] == data:
                os.utime(self.tree / path, ns=(time_ns, time_ns))
        return version

    def compile(self, target: pathlib.Path, base: Base | None, report: Report, hz: int, options: Sequence[str]) -> None:
        """Build the tree, and put what runs need into the new folder `target`, which becomes what the tree is at.

        base: what the first build begins from.
        """
        if base and not self.build.exists():
            keep_times(base.tree, self.tree)
            begin_from(base, self.tree, self.build)
        make.build_once(self.tree, self.build, report, hz, options)
        partial = target.with_name(f"{target.name}.part")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for name in _KEPT:
            if (self.build / name).exists():
                shutil.copy2(self.build / name, partial / name)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(partial, target)
        (self.folder / _AT).write_text(target.name, encoding="utf-8")

    def _patched_before(self) -> list[str]:
        """Files that earlier versions of the testbed patched, too."""
        try:
            return (self.folder / _PATCHED).read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError):
            return []


def keep_times(earlier: pathlib.Path, tree: pathlib.Path) -> None:
    """Give files of a tree that are the same in an earlier one their times there."""
    for folder, _, names in os.walk(tree):
        other = earlier / os.path.relpath(folder, tree)
        for name in names:
            path, old = os.path.join(folder, name), other / name
            try:
                status = os.lstat(old)
                if os.path.islink(path) or status.st_size != os.lstat(path).st_size:
                    continue
            except OSError:                         # not there, or no file
                continue
            if _content(old)[0] == _content(pathlib.Path(path))[0]:
                os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))


def begin_from(base: Base, tree: pathlib.Path, build: pathlib.Path) -> None:
    """Make the new folder `build` as if the build of `base` had been made there, of `tree`."""
    partial = build.with_name(f"{build.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["cp", "-a", "--reflink=auto", str(base.build), str(partial)], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        shutil.rmtree(partial, ignore_errors=True)
        raise KernelError(f"copying {base.build}: {done.stderr.strip()[-500:]}")
    for name in ("testbed.json", "linux", "build.log", "source"):
        (partial / name).unlink(missing_ok=True)
    folders = {os.fsencode(base.build): os.fsencode(build), os.fsencode(base.tree): os.fsencode(tree)}
    if base.tree != tree:
        for path in _matching(partial, _NAMES_FOLDERS):
            status, text = path.stat(), path.read_bytes()
            for old, new in folders.items():
                text = text.replace(old + b"/", new + b"/")
            path.write_bytes(text)
            os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))
    os.replace(partial, build)


def _matching(folder: pathlib.Path, patterns: Iterable[str]) -> list[pathlib.Path]:
    return [path for pattern in patterns for path in folder.glob(pattern) if path.is_file() and not path.is_symlink()]


def _content(path: pathlib.Path) -> tuple[bytes | None, int]:
    """(what a file says, its time in ns); None if there is no such file."""
    try:
        return path.read_bytes(), path.stat().st_mtime_ns
    except OSError:
        return None, 0
