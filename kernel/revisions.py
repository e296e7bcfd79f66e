# SPDX-License-Identifier: GPL-2.0-only
"""Kernels of one revision of a tree after the other, each built from what the one before left.

A work tree and a build folder are kept, so that make compiles what changed only. What runs need of a build is put into
the cache beside other kernels, under the commit's name; the spec `build:KEY` stands for it (kernel/build.py). Modules
can be built for it as long as the work tree is at its commit, which is until the next one is built.
"""
from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Callable, Sequence

from kernel import build as builds, configuration, patching
from kernel.source import KernelError, missing_tools, tree_version

#: what runs need, and what people look up
_KEPT = ("linux", "System.map", ".config", "modules.builtin.modinfo", "testbed.json")

Report = Callable[[str], None]


def key(commit: str, version: tuple[int, ...] | None, hz: int = builds.USUAL_HZ, options: Sequence[str] = ()) -> str:
    """What the kernel of a commit is known by: this, the configuration, patches and compiler."""
    return builds.build_dir_of(f"commit-{commit[:16]}", version, hz, options).name


def find(commit: str, version: tuple[int, ...] | None, hz: int = builds.USUAL_HZ, options: Sequence[str] = ()) \
        -> builds.Kernel | None:
    """The kernel of a commit if it was built before, else None."""
    return builds.find(f"{builds.BUILT}{key(commit, version, hz, options)}")


def build(commit: str, check_out: Callable[[pathlib.Path], None], folder: pathlib.Path, report: Report = print,
          hz: int = builds.USUAL_HZ, options: Sequence[str] = ()) -> builds.Kernel:
    """Build the kernel of a commit, `build:KEY` from here on. KernelError if it cannot be built or does not boot.

    check_out(tree): makes the folder `tree` the commit's, and leaves alone what is the same; folder: where tree and
    build are kept.
    """
    options = configuration.ordered(options)
    missing = missing_tools()
    if missing:
        raise KernelError(f"to build a kernel, first: apt-get install {' '.join(package for _, package in missing)}")
    with builds.lock(report):
        tree, work = folder / "tree", folder / "build"
        (folder / builds.STATE).unlink(missing_ok=True)
        report(f"checking out {commit[:12]}")
        check_out(tree)
        version = tree_version(tree)
        if version is None:
            raise KernelError(f"{commit[:12]}: no kernel tree")
        patching.put_all(tree, report, options)
        builds.build_once(tree, work, report, hz, options)
        target = builds.build_dir_of(f"commit-{commit[:16]}", version, hz, options)
        partial = target.with_name(f"{target.name}.part")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for name in _KEPT:
            if (work / name).exists():
                shutil.copy2(work / name, partial / name)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(partial, target)
        (folder / builds.STATE).write_text(target.name, encoding="utf-8")
    built = builds.find(f"{builds.BUILT}{target.name}")
    if built is None:
        raise KernelError(f"{target}: what was built has gone")
    return built
