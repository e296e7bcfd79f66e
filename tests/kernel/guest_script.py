# SPDX-License-Identifier: GPL-2.0-only
"""A script of a test as process 1 of a guest.

    result_of(program, script, folder, *words)      boot the kernel `program` with it, and what its main returned
    answer(main)                                    inside: call main(*words), say its result, switch off
"""
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import traceback

_PROJECT_DIR = pathlib.Path(__file__).parents[2]
_POWER_OFF = 0x4321FEDC
_MEMORY_MB = 256


def result_of(program, script, folder, *words, options=()):
    """folder: an empty one; options: of the kernel. AssertionError with all that was said if there is no result."""
    from kernel.guest import memory_dir  # not inside
    done = subprocess.run(
        ["setarch", "-R", str(program), f"mem={_MEMORY_MB}M", "root=none", "rootfstype=hostfs", "rootflags=/", "ro",
         # what the kernel draws is the same each time
         "time-travel=inf-cpu", "time-travel-start=1700000000000000000", "norandmaps",
         "quiet", "con=null", "con0=null,fd:2", f"uml_dir={folder}", "umid=script",
         *options,
         "init=/usr/bin/python3", "--", "-I", "-S", str(script), *map(str, words)],
        env={"PATH": os.environ["PATH"], "UML_RANDOM_SEED": "1", "TMPDIR": memory_dir(_MEMORY_MB)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("result ")]
    assert lines, done.stdout + done.stderr
    return json.loads(lines[0].removeprefix("result "))


def answer(main):
    """To be called by the script; main may import what is the project's. The kernel adds words of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        for source, target in (("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("devpts", "/dev/pts")):
            os.makedirs(target, exist_ok=True)
            libc.mount(source.encode(), target.encode(), source.encode(), 0, None)
        os.environ.update(PATH="/usr/sbin:/usr/bin:/sbin:/bin", PYTHONDONTWRITEBYTECODE="1")
        sys.path[:0] = [str(_PROJECT_DIR), "/usr/lib/python3/dist-packages"]
        os.write(2, f"result {json.dumps(main(*sys.argv[1:1 + main.__code__.co_argcount]))}\n".encode())
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        libc.reboot(_POWER_OFF)
