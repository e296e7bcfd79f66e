# SPDX-License-Identifier: GPL-2.0-only
"""Try what a User-Mode-Linux kernel will do on this host, and say as JSON what does not work.

    host_probe.py MEMORY_DIR MEMORY_MB
"""
from __future__ import annotations

import ctypes
import json
import mmap
import os
import signal
import sys
from collections.abc import Callable

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_TRACEME, _KILL, _SETOPTIONS, _GETREGSET, _SYSEMU = 0, 8, 0x4200, 0x4204, 31
_O_TRACESYSGOOD = 1
_NT_PRSTATUS = 1
_ADDR_NO_RANDOMIZE = 0x0040000
_MAP_FIXED_NOREPLACE = 0x100000
_LOW = 0x100000


class _Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def _errno() -> str:
    return os.strerror(ctypes.get_errno())


def _trace(found: dict[str, str]) -> None:
    """Trace a child as UML traces the processes of its user space."""
    pid = os.fork()
    if pid == 0:
        if _libc.ptrace(_TRACEME, 0, None, None):
            os._exit(ctypes.get_errno() & 127)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.getppid()
        os._exit(0)
    try:
        _, status = os.waitpid(pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            why = os.strerror(os.WEXITSTATUS(status)) if os.WIFEXITED(status) else \
                signal.Signals(os.WTERMSIG(status)).name
            found["ptrace"] = f"a process cannot have itself traced: {why}"
            return
        if _libc.ptrace(_SETOPTIONS, pid, None, _O_TRACESYSGOOD):
            found["ptrace"] = f"a child cannot be traced: {_errno()}"
            return
        buffer = ctypes.create_string_buffer(1024)
        iovec = _Iovec(ctypes.addressof(buffer), len(buffer))
        if _libc.ptrace(_GETREGSET, pid, _NT_PRSTATUS, ctypes.addressof(iovec)):
            found["registers"] = f"a child's registers cannot be read: {_errno()}"
        elif _libc.ptrace(_SYSEMU, pid, None, None):
            found["sysemu"] = f"a child's system calls cannot be emulated: {_errno()}"
        else:
            _, status = os.waitpid(pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status) or os.WSTOPSIG(status) != signal.SIGTRAP | 0x80:
                found["sysemu"] = "a child's system calls are not stopped at"
    finally:
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ChildProcessError, ProcessLookupError):
            pass                                # it has ended by itself


def _memory(folder: str, size: int, found: dict[str, str]) -> None:
    """A file of the guest's memory, mapped to be read, written and run."""
    try:
        fd = os.open(folder, os.O_RDWR | os.O_EXCL | os.O_TMPFILE, 0o700)
    except OSError:
        path = os.path.join(folder, f".testbed-{os.getpid()}")
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o700)
            os.unlink(path)
        except OSError as problem:
            found["memory"] = f"no file can be made in {folder}: {problem.strerror}"
            return
    try:
        os.ftruncate(fd, size)
        mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE).close()
    except OSError as problem:
        found["memory"] = f"{size >> 20} MB of {folder} cannot be mapped: {problem.strerror}"
    else:
        try:
            mmap.mmap(fd, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
        except OSError as problem:
            found["executable"] = f"memory in {folder} cannot be mapped to run programs: {problem.strerror}"
    os.close(fd)


def _low_addresses(found: dict[str, str]) -> None:
    """Programs of the guest lie where programs of the host do not, at addresses that are low."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED_NOREPLACE
    if _libc.mmap(_LOW, mmap.PAGESIZE, mmap.PROT_READ, flags, -1, 0) != _LOW:
        found["low_addresses"] = f"nothing can be mapped at {_LOW:#x}: {_errno()}"


def main() -> None:
    folder, memory_mb = sys.argv[1], int(sys.argv[2])
    found: dict[str, str] = {}
    if folder:
        steps: list[Callable[[], None]] = [lambda: _trace(found), lambda: _memory(folder, memory_mb << 20, found),
                                           lambda: _low_addresses(found)]
        for step in steps:
            step()
    fixed = _libc.personality(ctypes.c_ulong(_ADDR_NO_RANDOMIZE)) != -1
    json.dump({"problems": found, "fixed_addresses": fixed}, sys.stdout)


if __name__ == "__main__":
    main()
