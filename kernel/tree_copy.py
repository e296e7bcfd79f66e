# SPDX-License-Identifier: GPL-2.0-only
"""A copy of somebody's kernel tree that follows it: what has not changed there is not written again."""
from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator

from kernel import source as sources

#: what builds leave in a tree
_MADE = re.compile(r"(.*/)?(.*\.(o|ko|a|cmd|mod|mod\.c|order|symvers|dtb|dtbo)|\.config(\.old)?|System\.map|"
                   r"vmlinux.*|\.tmp_.*|\.version|linux|Module\.symvers)")
_MADE_FOLDERS = re.compile(r"\.git|include/(config|generated)|arch/[^/]+/include/generated|\.tmp_versions")
_BUILT_IN_PLACE = (".config", "include/config", "arch/um/include/generated", "arch/x86/include/generated")


def follow(tree: pathlib.Path, copy: pathlib.Path, record: pathlib.Path, patched: Collection[str]) -> None:
    """Make the folder `copy` what `tree` is, without what no guest kernel is built from.

    record: a file with the size and the time that each file had when it was copied. patched: paths that patches have
    changed in the copy; they are copied again in any case. A file of the same content keeps its time in the copy.
    """
    known = _read(record)
    found: dict[str, tuple[int, int]] = {}
    for name in _names(tree):
        try:
            status = os.lstat(tree / name)
        except OSError:                             # git still has it, the folder does not
            continue
        found[name] = status.st_size, status.st_mtime_ns
        is_same = known.get(name) == found[name] and os.path.lexists(copy / name)
        if name in patched or not is_same:
            _copy(tree / name, copy / name)
    record.unlink(missing_ok=True)
    _remove_others(copy, found)
    if any((tree / name).exists() for name in _BUILT_IN_PLACE) and not _is_git(tree):
        sources.make_target(copy, "mrproper")
    partial = record.with_name(record.name + ".part")
    partial.write_text(json.dumps(found), encoding="utf-8")
    os.replace(partial, record)


def _names(tree: pathlib.Path) -> Iterator[str]:
    """Files of a tree that a guest kernel may be built from."""
    listed = _git_names(tree)
    for name in _walk(tree) if listed is None else listed:
        if sources.is_needed(name):
            yield name


def _is_git(tree: pathlib.Path) -> bool:
    return (tree / ".git").exists()


def _git_names(tree: pathlib.Path) -> list[str] | None:
    """What git has and what is new; None if it is no git tree, or one that ignores the kernel."""
    if not _is_git(tree):
        return None
    done = subprocess.run(["git", "-C", str(tree), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                          capture_output=True, check=False)
    names = [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]
    return names if "Makefile" in names and not done.returncode else None


def _walk(tree: pathlib.Path) -> Iterator[str]:
    top = os.fspath(tree)
    for folder, folders, files in os.walk(top):
        inside = "" if folder == top else f"{os.path.relpath(folder, top)}/"
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = [name for name in folders if name not in links and not _MADE_FOLDERS.fullmatch(inside + name)]
        yield from (inside + name for name in (*files, *links) if not _MADE.fullmatch(inside + name))


def _copy(source: pathlib.Path, target: pathlib.Path) -> None:
    if source.is_symlink():
        if not (target.is_symlink() and os.readlink(target) == os.readlink(source)):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.symlink_to(os.readlink(source))
        return
    if not source.is_file():                        # a socket, a submodule
        return
    data = source.read_bytes()
    if target.is_symlink() or not target.is_file() or target.read_bytes() != data:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.write_bytes(data)
    shutil.copymode(source, target)
    os.chmod(target, target.stat().st_mode | 0o200)             # patches have to write, too


def _remove_others(copy: pathlib.Path, names: Collection[str]) -> None:
    top = os.fspath(copy)
    for folder, folders, files in os.walk(top, topdown=False):
        inside = "" if folder == top else f"{os.path.relpath(folder, top)}/"
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in (*files, *links):
            if inside + name not in names:
                os.unlink(os.path.join(folder, name))
        if folder != top and not os.listdir(folder):
            os.rmdir(folder)


def _read(record: pathlib.Path) -> dict[str, tuple[int, int]]:
    try:
        said = json.loads(record.read_text(encoding="utf-8"))
        return {str(name): (int(size), int(time_ns)) for name, (size, time_ns) in said.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
