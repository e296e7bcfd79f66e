# SPDX-License-Identifier: GPL-2.0-only
"""The running kernel, as modules are built for it: its headers, where distributions put them.

The variable KDIR names another folder, as it does for kernel-modules/Makefile.
"""
from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil

from kernel.source import KernelError


@dataclasses.dataclass(frozen=True)
class Headers:
    """key: what identifies the running kernel; release: such as 6.1.0-49-amd64; folder: its headers."""
    key: str
    release: str
    folder: pathlib.Path

    @classmethod
    def of_running(cls, key: str) -> Headers:
        """KernelError if they are not installed, or there is nothing to compile with."""
        release = os.uname().release
        folder = pathlib.Path(os.environ.get("KDIR") or f"/lib/modules/{release}/build")
        if not (folder / "Makefile").is_file():
            raise KernelError(f"no headers of the running kernel in {folder}: apt-get install linux-headers-{release}")
        missing = [name for name in ("make", "gcc") if not shutil.which(name)]
        if missing:
            raise KernelError(f"to build a module, first: apt-get install {' '.join(missing)}")
        return cls(key, release, folder)

    @property
    def takes_modules(self) -> bool:
        return True

    def make_command(self) -> list[str]:
        """make for this kernel, to be followed by its target."""
        return ["make", "-C", str(self.folder)]

    def make_reads(self) -> list[pathlib.Path]:
        """Folders that a build of a module has to read."""
        return [self.folder, self.folder.resolve()]
