# SPDX-License-Identifier: GPL-2.0-only
"""Which patches a kernel gets, and putting them in.

    patches/NAME.patch                    runs depend on it: a kernel that it does not fit is refused
    patches/speed/NAME.patch              left out where it does not fit
    patches/[speed/]until-6.2/NAME.patch  the same patch as made for kernels up to 6.2
    patches/[speed/]from-6.13/NAME.patch  and for kernels from 6.13 on

One that was made for a kernel's version is tried before the one in the folder above. One without
changes says why kernels of these versions do not need it. Kernels with the option `stock` get none of speed/.
"""
from __future__ import annotations

import hashlib
import pathlib
import re
import subprocess
from collections.abc import Callable, Collection

from kernel.source import KernelError, tree_version

FOLDER = pathlib.Path(__file__).parent / "patches"
_SPEED = "speed"
#: the kernel option that leaves the patches of speed/ out
STOCK = "stock"


def digest(version: tuple[int, ...] | None, options: Collection[str] = ()) -> str:
    """Digest of the patches that a kernel of this version with these options may get (None: the version is not known
    yet), so that patches for other kernels do not make anybody build again."""
    state = hashlib.sha256()
    for patch in sorted(FOLDER.rglob("*.patch")):
        left_out = STOCK in options and _SPEED in patch.relative_to(FOLDER).parts
        if _concerns(patch.parent.name, version) and not left_out:
            state.update(patch.read_bytes())
    return state.hexdigest()


def put_all(tree: pathlib.Path, report: Callable[[str], None], options: Collection[str] = ()) -> None:
    """Patch the kernel in `tree`, which is to have these options. KernelError if it cannot be done."""
    version = tree_version(tree)
    for choices in _choices(FOLDER, version):
        refused = _put_one(choices, tree)
        if refused:
            raise KernelError(f"{choices[0].name} does not apply to this kernel:\n{refused}")
    if STOCK in options:
        report(f"option {STOCK}: built without kernel/patches/{_SPEED}, runs will be slower")
        return
    for choices in _choices(FOLDER / _SPEED, version):
        if _put_one(choices, tree):
            report(f"{choices[0].name} does not apply to this kernel: built without it, runs will be slower")


def _concerns(folder: str, version: tuple[int, ...] | None) -> bool:
    """True if patches in the folder of this name may be for kernels of this version."""
    bounds = re.fullmatch(r"(from|until)-(\d+)\.(\d+)", folder)
    if not bounds or not version:
        return True
    bound = int(bounds.group(2)), int(bounds.group(3))
    return version >= bound if bounds.group(1) == "from" else version <= bound


def _choices(folder: pathlib.Path, version: tuple[int, ...] | None) -> list[list[pathlib.Path]]:
    """The patches to be put in from a folder, each as the files to be tried one after the other."""
    special = [f for f in sorted(folder.iterdir())
               if re.match("from-|until-", f.name) and version and _concerns(f.name, version)]
    names = sorted({patch.name for f in [folder, *special] for patch in f.glob("*.patch")})
    return [[f / name for f in [*special, folder] if (f / name).is_file()] for name in names]


def _put_one(choices: list[pathlib.Path], tree: pathlib.Path) -> str | None:
    """Apply the first of these patches that fits, unless the tree has one; what `patch` complained of, or None."""
    if "\n+++ " not in choices[0].read_text():
        return None
    if any(_apply(patch, tree, "--reverse", "--dry-run") is None for patch in choices):
        return None
    refused = None
    for patch in choices:
        refused = _apply(patch, tree, "--dry-run") or _apply(patch, tree)
        if not refused:
            return None
    return refused


def _apply(patch: pathlib.Path, tree: pathlib.Path, *options: str) -> str | None:
    """What `patch` complained of, or None if it had nothing to complain of."""
    with open(patch, "rb") as f:
        done = subprocess.run(["patch", "-p1", "--force", "--no-backup-if-mismatch", *options], cwd=tree,
                              stdin=f, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode else None
