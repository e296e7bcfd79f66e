# SPDX-License-Identifier: GPL-2.0-only
"""Become a User-Mode-Linux kernel: with as little freedom and as little chance as possible.

    launch.py CPU WRITABLE_DIR[:WRITABLE_DIR...] PROGRAM ARGUMENT...

* dies with its parent, so that `kill -9` of the testbed leaves nothing running;
* one CPU for the kernel and all its processes: ptrace round trips within a CPU cost half;
* no address space randomisation, which would leak into the guest;
* no new privileges, and Landlock (where this kernel has it) allows writing only below the
  given folders: the host is read-only for the guest even if root runs the testbed.
"""
import ctypes
import os
import signal
import struct
import sys

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_ADDR_NO_RANDOMIZE = 0x0040000
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_LANDLOCK_RULE_PATH_BENEATH = 1
# include/uapi/linux/landlock.h, ABI 1: everything that changes the file system
_WRITE_FILE, _READ_FILE, _READ_DIR, _EXECUTE = 1 << 1, 1 << 2, 1 << 3, 1 << 0
_CHANGES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))


def _confine_writes(folders):
    """Landlock: forbid changing files outside `folders`. False if this kernel cannot."""
    ruleset_attr = struct.pack("=Q", _CHANGES)
    ruleset = _libc.syscall(_LANDLOCK_CREATE_RULESET, ruleset_attr, len(ruleset_attr), 0)
    if ruleset < 0:
        return False
    for folder in folders:
        fd = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", _CHANGES if os.path.isdir(folder) else _WRITE_FILE, fd)
        if _libc.syscall(_LANDLOCK_ADD_RULE, ruleset, _LANDLOCK_RULE_PATH_BENEATH, rule, 0):
            raise OSError(ctypes.get_errno(), f"landlock: {os.strerror(ctypes.get_errno())}: {folder}")
        os.close(fd)
    if _libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0):
        return False
    return True


def main():
    cpu, writable, program, *arguments = sys.argv[1:]
    parent = os.getppid()
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the testbed ended before its kernel was started")
    os.sched_setaffinity(0, {int(cpu)})
    _libc.personality(ctypes.c_ulong(_ADDR_NO_RANDOMIZE))
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    devices = [path for path in ("/dev/null", "/dev/zero", "/dev/ptmx", "/dev/pts") if os.path.exists(path)]
    _confine_writes(writable.split(":") + devices)
    os.execv(program, [program, *arguments])


if __name__ == "__main__":
    main()
