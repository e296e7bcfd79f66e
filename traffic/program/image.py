# SPDX-License-Identifier: GPL-2.0-only
"""The file system of a container image as the root of a program (docs/howto/quic-interop.md).

unpack() runs before the run, the rest inside it, as root. A program sees the files of the image, /dev and /proc.
"""
from __future__ import annotations

import ctypes
import os
import subprocess

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

#: that of Docker
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# include/uapi/linux/mount.h, include/uapi/linux/sched.h
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_CLONE_NEWNS = 0x00020000
_NEEDED = ("dev", "proc", "tmp")

_libc = ctypes.CDLL(None, use_errno=True)


def unpack(archive: pathlib.Path, folder: pathlib.Path) -> str:
    """Unpack a tar archive of an image's file system, without its devices and owners: all of it may be changed by the
    program. What is wrong in a line, '' if nothing is."""
    folder.mkdir()
    for command in (["tar", "--extract", "--file", str(archive), "--directory", str(folder), "--no-same-owner",
                     "--no-same-permissions", "--exclude=dev/*", "--exclude=./dev/*"],
                    ["chmod", "-R", "a+rwX", str(folder)]):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              check=False)
        if done.returncode:
            return f"{command[0]}: {' '.join(done.stderr.split())[-300:]}"
    for name in _NEEDED:
        path = folder / name
        path.mkdir(exist_ok=True)
        path.chmod(0o777)
    return ""


def open_to_all(path: str) -> None:
    """Let a program change a file in its root, as it may those of the image."""
    mode = os.stat(path).st_mode
    os.chmod(path, mode | 0o666 | (0o111 if mode & 0o100 else 0))


def mount(folder: str) -> None:
    """Give a root folder /dev and /proc, which this process and its children alone see. OSError."""
    _check(_libc.unshare(_CLONE_NEWNS), "unshare")
    _check(_libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "/")
    for source, name, kind, flags in (("/dev", "dev", None, _MS_BIND | _MS_REC), ("proc", "proc", b"proc", 0)):
        target = os.path.join(folder, name)
        _check(_libc.mount(source.encode(), target.encode(), kind, flags, None), target)


def _check(failed: int, what: str) -> None:
    if failed:
        errno = ctypes.get_errno()
        raise OSError(errno, f"{what}: {os.strerror(errno)}")


def entering(folder: str, user: int, then: Callable[[], None]) -> Callable[[], None]:
    """What a child does before it becomes a program with this root and user: `then` comes last."""
    def enter() -> None:
        os.chroot(folder)
        os.chdir("/")
        os.umask(0)                     # files belong to nobody in particular
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        then()
    return enter


def pack(folder: str, archive: str) -> None:
    """A tar archive of a folder's files, the same for the same files: without owners and times."""
    import tarfile

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        member.mode = 0o755 if member.isdir() else 0o644
        return member if member.isdir() or member.isreg() else None
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as file:
        file.add(folder, os.path.basename(folder), filter=plain)
