# SPDX-License-Identifier: GPL-2.0-only
"""Kernels of one revision of a tree after the other, each built from what the one before left (kernel/work_folder.py).

They are known by the commit's name; the spec `build:KEY` stands for one (kernel/build.py).
"""
from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence

from kernel import build as builds, configuration, make
from kernel.make import USUAL_HZ, Report
from kernel.source import KernelError, missing_tools
from kernel.work_folder import WorkFolder


def key(commit: str, version: tuple[int, ...] | None, hz: int = USUAL_HZ, options: Sequence[str] = ()) -> str:
    """What the kernel of a commit is known by: this, the configuration, patches and compiler."""
    return builds.build_dir_of(f"commit-{commit[:16]}", version, hz, options).name


def find(commit: str, version: tuple[int, ...] | None, hz: int = USUAL_HZ, options: Sequence[str] = ()) \
        -> builds.Kernel | None:
    """The kernel of a commit if it was built before, else None."""
    return builds.find(f"{builds.BUILT}{key(commit, version, hz, options)}")


def build(commit: str, check_out: Callable[[pathlib.Path], None], folder: pathlib.Path, report: Report = print,
          hz: int = USUAL_HZ, options: Sequence[str] = ()) -> builds.Kernel:
    """Build the kernel of a commit, `build:KEY` from here on. KernelError if it cannot be built or does not boot.

    check_out(tree): makes the folder `tree` the commit's, and leaves alone what is the same; folder: where tree and
    build are kept.
    """
    options = configuration.ordered(options)
    missing = missing_tools()
    if missing:
        raise KernelError(f"to build a kernel, first: apt-get install {' '.join(package for _, package in missing)}")
    work = WorkFolder(folder)
    with make.lock(report, folder.name):
        report(f"checking out {commit[:12]}")
        try:
            version = work.fetch(lambda tree, patched: check_out(tree), report, options)
        except KernelError as problem:
            raise KernelError(f"{commit[:12]}: {problem}") from None
        target = builds.build_dir_of(f"commit-{commit[:16]}", version, hz, options)
        with builds.nearest(version, hz, options, work.build.exists()) as base:
            work.compile(target, base, report, hz, options)
    built = builds.find(f"{builds.BUILT}{target.name}")
    if built is None:
        raise KernelError(f"{target}: what was built has gone")
    return built
