# SPDX-License-Identifier: GPL-2.0-only
"""Start a program (a User-Mode-Linux kernel, a compiler) with as little freedom and as little chance as possible.

    launch.py [OPTION...] -- PROGRAM ARGUMENT...

    --cpu N            on this CPU only: ptrace round trips within a CPU cost half
    --fixed            without address space randomisation, which would leak into the guest
    --folder N=PATH    with PATH open as descriptor N: /proc/self/fd/N is the same name everywhere
    --write PATH       what it may change; everything else is read-only
    --read PATH        what it may read and run besides; without any, whatever the user may
    --limit NAME=N     a resource limit, such as FSIZE
    --preload PATH     with this library

It dies with its parent, so that `kill -9` of the testbed leaves nothing running, and gets no new
privileges. What it may change and read is enforced by Landlock, where the host's kernel has it, even
against root. In a session of its own it is as nice to other sessions as its parent is within its own.
"""
from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
import sys

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_ADDR_NO_RANDOMIZE = 0x0040000
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_LANDLOCK_CREATE_RULESET_VERSION = 1
_LANDLOCK_RULE_PATH_BENEATH = 1
# include/uapi/linux/landlock.h
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_READS = _EXECUTE | _READ_FILE | _READ_DIR
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_CHANGES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))
#: rights that a file can have; the others are those of folders
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_DEVICES = ("/dev/null", "/dev/zero", "/dev/ptmx", "/dev/pts", "/dev/tty")


def landlock_version() -> int:
    """Version of the host kernel's Landlock; 0 if it has none."""
    return max(0, int(_libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_CREATE_RULESET_VERSION)))


def confine(writable: list[str], readable: list[str]) -> bool:
    """Forbid changing anything but `writable` and, if there are any, reading anything but `readable` besides.

    False if this kernel cannot.
    """
    version = landlock_version()
    if not version:
        return False
    changes = _CHANGES | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    reads = _READS if readable else 0
    attributes = struct.pack("=Q", changes | reads)
    ruleset = _libc.syscall(_LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return False
    for path in writable:
        _allow(ruleset, path, changes | reads)
    for path in _DEVICES:
        if os.path.exists(path):
            _allow(ruleset, path, changes | reads)
    for path in readable:
        if os.path.exists(path):
            _allow(ruleset, path, reads)
    return not _libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0)


def _allow(ruleset: int, path: str, rights: int) -> None:
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    rule = struct.pack("=Qi", rights if os.path.isdir(path) else rights & _OF_FILES, fd)
    if _libc.syscall(_LANDLOCK_ADD_RULE, ruleset, _LANDLOCK_RULE_PATH_BENEATH, rule, 0):
        raise OSError(ctypes.get_errno(), f"landlock: {os.strerror(ctypes.get_errno())}: {path}")
    os.close(fd)


def main() -> None:
    at = sys.argv.index("--")
    options, command = sys.argv[1:at], sys.argv[at + 1:]
    parent = os.getppid()
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the testbed ended before what it wanted to start")
    _be_nice()
    writable: list[str] = []
    readable: list[str] = []
    words = iter(options)
    for option in words:
        if option == "--fixed":
            _libc.personality(ctypes.c_ulong(_ADDR_NO_RANDOMIZE))
            continue
        value = next(words)
        name, _, content = value.partition("=")
        if option == "--cpu":
            os.sched_setaffinity(0, {int(value)})
        elif option == "--folder":
            fd = os.open(content, os.O_PATH | os.O_DIRECTORY)
            os.dup2(fd, int(name))
            os.close(fd)
        elif option == "--preload":
            os.environ["LD_PRELOAD"] = value
        elif option == "--limit":
            _limit(getattr(resource, f"RLIMIT_{name}"), int(content))
        else:
            {"--write": writable, "--read": readable}[option].append(value)
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if writable or readable:
        confine(writable, readable)
    os.execv(command[0], [os.path.basename(command[0]), *command[1:]])


def _be_nice() -> None:
    """To Linux's scheduler a session is one group (sched(7), autogroup), and niceness counts inside it only."""
    if (nice := os.nice(0)) > 0 and os.getsid(0) == os.getpid():
        try:
            with open("/proc/self/autogroup", "w", encoding="ascii") as file:
                file.write(str(nice))
        except OSError:
            pass                        # this kernel has no such groups, and niceness counts everywhere


def _limit(which: int, most: int) -> None:
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(which, (most, most))


if __name__ == "__main__":
    main()
