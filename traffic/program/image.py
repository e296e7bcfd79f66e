# SPDX-License-Identifier: GPL-2.0-only
"""The file system of a container image as the root of a program (docs/howto/quic-interop.md).

It is unpacked into memory, in a mount namespace of the program's own, and belongs to the program's user. A program sees
the files of the image, /proc, and a few devices.
"""
from __future__ import annotations

import ctypes
import os
import shutil
import stat
import subprocess

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from collections.abc import Callable

#: that of Docker
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: where it lies, as the namespace sees it: a folder that every system has and no run uses
ROOT = "/mnt"
# include/uapi/linux/mount.h, include/uapi/linux/sched.h
_MS_NOSUID, _MS_REC, _MS_PRIVATE = 2, 16384, 1 << 18
_CLONE_NEWNS = 0x00020000
#: Documentation/admin-guide/devices.txt
_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}

#: of programs of glibc, on x86-64
_LOADER = "/lib64/ld-linux-x86-64.so.2"

_libc = ctypes.CDLL(None, use_errno=True)


class ImageError(Exception):
    """An image that cannot be a root; the message is one line."""


def unpack(archive: str, user: int) -> None:
    """Unpack a tar archive to ROOT, which this process and its children alone see. ImageError."""
    _do("unshare", _libc.unshare(_CLONE_NEWNS))
    _do("mount /", _libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None))
    _do(f"mount {ROOT}", _libc.mount(b"image", ROOT.encode(), b"tmpfs", _MS_NOSUID, b"size=100%,mode=755"))
    done = subprocess.run(["tar", "--extract", "--file", archive, "--directory", ROOT, "--no-same-owner",
                           "--exclude=dev/*", "--exclude=./dev/*"], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, errors="replace", check=False)
    if done.returncode:
        raise ImageError(f"tar: {' '.join(done.stderr.split())[-300:]}")
    give(ROOT, user)
    for name in ("dev", "proc", "tmp"):
        os.makedirs(f"{ROOT}/{name}", exist_ok=True)
    os.chmod(f"{ROOT}/tmp", 0o1777)
    for name, (major, minor) in _DEVICES.items():
        os.mknod(f"{ROOT}/dev/{name}", stat.S_IFCHR, os.makedev(major, minor))
        os.chmod(f"{ROOT}/dev/{name}", 0o666)
    _do(f"mount {ROOT}/proc", _libc.mount(b"proc", f"{ROOT}/proc".encode(), b"proc", _MS_NOSUID, None))


def _do(what: str, failed: int) -> None:
    if failed:
        raise ImageError(f"{what}: {os.strerror(ctypes.get_errno())}")


def lend(library: str) -> str:
    """Put a library of ours among the devices; where the program sees it.

    '' where it could not be loaded: the image does not have the C library that it was made for, or there is no library.
    """
    if not os.path.exists(library) or not os.path.exists(ROOT + _LOADER):
        return ""
    path = f"/dev/{os.path.basename(library)}"
    shutil.copyfile(library, ROOT + path)
    os.chmod(ROOT + path, 0o644)
    return path


def give(folder: str, user: int) -> None:
    """Let a folder with all that is in it belong to a user."""
    os.chown(folder, user, user)
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(os.path.join(path, name), user, user, follow_symlinks=False)


def entering(user: int, then: Callable[[], None]) -> Callable[[], None]:
    """What a child does before it becomes a program with this root and user: `then` comes last."""
    def enter() -> None:
        os.chroot(ROOT)
        os.chdir("/")
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
