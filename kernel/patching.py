# SPDX-License-Identifier: GPL-2.0-only
"""Which patches a kernel gets, and putting them in.

    patches/series              every patch, in order, and the kernels that get it
    patches/NAME.patch          runs depend on it: a kernel that it does not fit is refused
    patches/speed/NAME.patch    left out where it does not fit, and from kernels with the option `stock`
"""
from __future__ import annotations

import hashlib
import pathlib
import re
import subprocess
from collections.abc import Callable, Collection
from typing import NamedTuple

from kernel.source import KernelError, tree_version

FOLDER = pathlib.Path(__file__).parent / "patches"
_SPEED = "speed"
#: the kernel option that leaves the patches of speed/ out
STOCK = "stock"


class Patch(NamedTuple):
    """A line of the series: a file, and the first and last version (6, 12) that get it, None without such a bound."""

    path: pathlib.Path
    first: tuple[int, ...] | None
    last: tuple[int, ...] | None

    @property
    def for_speed(self) -> bool:
        return self.path.parent.name == _SPEED

    def concerns(self, version: tuple[int, ...] | None) -> bool:
        """Whether a kernel of this version gets it, or may get it where the version is not known yet."""
        return not version or ((not self.first or version[:2] >= self.first)
                               and (not self.last or version[:2] <= self.last))


def series() -> list[Patch]:
    """All patches in order. KernelError with the line that cannot be read."""
    found = []
    for number, line in enumerate((FOLDER / "series").read_text(errors="replace").splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        bounds = re.fullmatch(r"all|(\d+\.\d+)?-(\d+\.\d+)?", words[0])
        if not bounds or words[0] == "-" or len(words) != 2 or not (FOLDER / words[1]).is_file():
            raise KernelError(f"{FOLDER / 'series'}:{number}: versions (all, 6.3-6.12, -6.2 or 6.13-) and a patch "
                              f"file expected, not {line.strip()!r}")
        first, last = (tuple(map(int, bound.split("."))) if bound else None for bound in bounds.groups())
        if first and last and first > last:
            raise KernelError(f"{FOLDER / 'series'}:{number}: {words[0]} holds no version; the lower one first")
        found.append(Patch(FOLDER / words[1], first, last))
    return found


def digest(version: tuple[int, ...] | None, options: Collection[str] = ()) -> str:
    """Digest of the patches that a kernel of this version with these options may get (None: the version is not known
    yet), so that patches for other kernels do not make anybody build again."""
    state = hashlib.sha256()
    for patch in series():
        if patch.concerns(version) and not (patch.for_speed and STOCK in options):
            state.update(patch.path.read_bytes())
    return state.hexdigest()


def touched() -> list[str]:
    """Paths of the files that any patch changes or adds."""
    return sorted({path for patch in series() for path in re.findall(
        r"^(?:---|\+\+\+) [ab]/([^\t\n]+)", patch.path.read_text(encoding="utf-8", errors="replace"), re.M)})


def put_all(tree: pathlib.Path, report: Callable[[str], None], options: Collection[str] = ()) -> None:
    """Patch the kernel in `tree`, which is to have these options. KernelError if it cannot be done."""
    version = tree_version(tree)
    if version is None:
        raise KernelError(f"{tree}: no kernel tree, its Makefile has no VERSION and PATCHLEVEL")
    for patch in series():
        if not patch.concerns(version) or patch.for_speed and STOCK in options:
            continue
        refused = _put_one(patch.path, tree)
        if refused and not patch.for_speed:
            raise KernelError(f"{patch.path.name} does not apply to this kernel:\n{refused}")
        if refused:
            report(f"{patch.path.name} does not apply to this kernel: built without it, runs will be slower")
    if STOCK in options:
        report(f"option {STOCK}: built without kernel/patches/{_SPEED}, runs will be slower")


def _put_one(patch: pathlib.Path, tree: pathlib.Path) -> str | None:
    """Apply a patch unless the tree has it; what `patch` complained of, or None."""
    if _apply(patch, tree, "--reverse", "--dry-run") is None:
        return None
    return _apply(patch, tree, "--dry-run") or _apply(patch, tree)


def _apply(patch: pathlib.Path, tree: pathlib.Path, *options: str) -> str | None:
    """What `patch` complained of, or None if it had nothing to complain of."""
    with open(patch, "rb") as f:
        done = subprocess.run(["patch", "-p1", "--force", "--no-backup-if-mismatch", *options], cwd=tree,
                              stdin=f, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode else None
