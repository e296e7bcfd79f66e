# SPDX-License-Identifier: GPL-2.0-only
"""Removing kernels that nobody uses any more from the cache: a source tree alone takes 1.6 GB."""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import time
from collections.abc import Callable, Iterable

from kernel import build, make, source as sources
from kernel.source import KernelError

#: of a folder that is being removed; one that is found was not removed completely
_GONE = ".gone"


def prune(keep: Iterable[str | None] = (None,), days: float = 30, report: Callable[[str], None] = print) -> int:
    """Remove builds and source trees that are of no use; the number of bytes that are free then.

    Of no use are builds that were not finished, builds with other patches, another configuration
    or another compiler than a build of today, builds that no run has used for `days`, and source
    trees of which no build is left. The kernels that the specs in `keep` stand for stay, and
    those that run at this moment. Work folders of trees go with the last kernel that was built in them. Copies of
    the code for guests go when they were not used for as long, as does what older versions of the testbed compiled.
    Waits for builds that are under way.
    """
    cache = sources.cache_dir()
    with make.lock(report):
        kept = _needed(keep) | _running(cache / "kernels")
        used_trees, doomed = set(), []
        for folder in _folders(cache / "kernels"):
            facts = make.facts_of(folder)
            if folder in kept or facts and _of_today(folder, facts) and _unused_days(folder) <= days:
                if facts:
                    used_trees.add(pathlib.Path(facts.source_dir))
            else:
                doomed.append(_out_of_sight(folder))
        doomed += [_out_of_sight(folder) for folder in _folders(cache / "sources") if folder not in used_trees]
        doomed += [_out_of_sight(folder) for kind in (build.TREES, "bisect") for folder in _folders(cache / kind)
                   if (folder / "tree").is_dir() and folder / "tree" not in used_trees]
        doomed += [_out_of_sight(folder) for kind in ("bundles", "compiled") for folder in _folders(cache / kind)
                   if not _being_made(folder) and not _lately_used(folder, days)]
    return sum(_remove(folder, report) for folder in doomed)


def _needed(specs: Iterable[str | None]) -> set[pathlib.Path]:
    """The builds that kernel specs stand for today."""
    found = set()
    for spec in specs:
        try:
            found.add(build.build_dir(spec, sources.identify(spec)[1]))
        except KernelError:
            pass                                # there is no such source: nothing to keep
    return found


def _running(kernels: pathlib.Path) -> set[pathlib.Path]:
    """The builds whose kernel is being run now."""
    found = set()
    for link in pathlib.Path("/proc").glob("[0-9]*/exe"):
        try:
            program = pathlib.Path(os.readlink(link))
        except OSError:
            continue                            # it has ended, or is none of our business
        if program.parent.parent == kernels.resolve():
            found.add(kernels / program.parent.name)
    return found


def _folders(parent: pathlib.Path) -> list[pathlib.Path]:
    return sorted(p for p in parent.glob("*") if p.is_dir() and not p.is_symlink())


def _of_today(folder: pathlib.Path, facts: make.Facts) -> bool:
    """True if a build of the same source would be this one."""
    identity = re.sub(r"-[0-9a-f]{12}$", "", folder.name)
    debian = re.match(r"debian-(\d+)\.(\d+)-", identity)
    version: tuple[int, ...] | None
    version = (int(debian.group(1)), int(debian.group(2))) if debian else \
        sources.tree_version(pathlib.Path(facts.source_dir))
    more = facts.hz, facts.options
    try:
        # the version of a tarball was not known when its key was made
        return folder in {build.build_dir_of(identity, version, *more), build.build_dir_of(identity, None, *more)}
    except KernelError:
        return False                            # it has options that there are no more


def _unused_days(folder: pathlib.Path) -> float:
    return (time.time() - (folder / "testbed.json").stat().st_mtime) / 86400


def _being_made(folder: pathlib.Path) -> bool:
    """Whether a command may be filling it at this moment; one that was killed leaves it behind for a day."""
    return folder.name.startswith(".new-") and time.time() - folder.stat().st_mtime < 86400


def _lately_used(folder: pathlib.Path, days: float) -> bool:
    """Its manifest, beside it, is touched by every run."""
    manifest = folder.with_name(folder.name + ".json")
    try:
        if (time.time() - manifest.stat().st_mtime) / 86400 <= days:
            return True
        manifest.unlink()
    except OSError:
        pass
    return False


def _out_of_sight(folder: pathlib.Path) -> pathlib.Path:
    """Rename a folder that is to be removed: that takes no time, and never leaves half of one under its name."""
    if folder.name.endswith(_GONE):
        return folder
    gone = folder.with_name(folder.name + _GONE)
    shutil.rmtree(gone, ignore_errors=True)
    return folder.rename(gone)


def _remove(folder: pathlib.Path, report: Callable[[str], None]) -> int:
    """Remove a folder; its size in bytes."""
    size = sum(os.lstat(os.path.join(where, name)).st_blocks * 512
               for where, _, files in os.walk(folder) for name in files)
    report(f"removing {folder.parent.name}/{folder.name.removesuffix(_GONE)} ({size >> 20} MB)")
    shutil.rmtree(folder)
    return size
