# SPDX-License-Identifier: GPL-2.0-only
"""A host that forbids some system calls, as containers do.

    forbidding.py NUMBER[:FIRST_ARGUMENT],... COMMAND...      these fail with EPERM in the command
"""
import ctypes
import os
import struct
import sys

PTRACE, PERSONALITY, MMAP, LANDLOCK = 101, 135, 9, 444
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ERRNO_EPERM, _ALLOW = 0x00050001, 0x7fff0000


def _program(calls):
    """A classic BPF program over struct seccomp_data: nr at 0, the low half of the first argument at 16."""
    lines = []
    for number, argument in calls:
        body = [(_RETURN, 0, 0, _ERRNO_EPERM)]
        if argument is not None:
            body = [(_LOAD, 0, 0, 16), (_EQUAL, 0, 1, argument), *body]
        lines += [(_LOAD, 0, 0, 0), (_EQUAL, 0, len(body), number), *body]
    return [*lines, (_RETURN, 0, 0, _ALLOW)]


def main():
    words = [word.split(":") for word in sys.argv[1].split(",")]
    lines = _program([(int(word[0]), int(word[1]) if len(word) > 1 else None) for word in words])
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in lines))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(lines), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
