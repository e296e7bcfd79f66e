# SPDX-License-Identifier: GPL-2.0-only
"""Process 1 of a guest that runs one of a kernel tree's own tests: mount what it needs, run it, switch off.

    selftest_boot.py COLLECTION TEST LONGEST_S      (the installed collection is the folder `tests` of the work folder)

Leaves in the work folder: output.txt, and result.json with its exit code (null: stopped after LONGEST_S) and the
seconds of virtual time that it took.
"""
import ctypes
import json
import os
import subprocess
import sys
import time
import traceback

_libc = ctypes.CDLL(None, use_errno=True)
_WORK = "/run/work"
# read before anything is mounted over the folder of this file
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "built-in"), encoding="utf-8") as _file:
    _BUILT_IN = _file.read()
_HOST_WORK = "/proc/self/cwd"
#: starting takes no virtual time, and TCP takes a segment that was sent in the clock's first microsecond for one that
#: was not sent (it warns in tcp_clean_rtx_queue)
_BEFORE_S = 10
#: scripts call it for what is built in here; the machine's own, if there is one, looks for files of modules
_MODPROBE = """#!/bin/sh
for name; do
    case $name in
    -r | --remove) exit 0 ;;
    -*) continue ;;
    esac
    grep -qx "$(echo "$name" | tr - _)" "$BUILT_IN" && exit 0
    echo "modprobe: FATAL: Module $name not found: this kernel has only what is built in" >&2
    exit 1
done
"""
_PROGRAMS = "/run/testbed-programs"


def _put_modprobe() -> None:
    """A modprobe that knows what is built in: the file `built-in` beside this one."""
    os.makedirs(_PROGRAMS)
    with open(f"{_PROGRAMS}/modprobe", "w", encoding="ascii") as file:
        file.write(_MODPROBE.replace("$BUILT_IN", f"{_PROGRAMS}/built-in"))
    os.chmod(f"{_PROGRAMS}/modprobe", 0o755)
    with open(f"{_PROGRAMS}/built-in", "w", encoding="utf-8") as file:
        file.write(_BUILT_IN)


def _mount(source: str, target: str, kind: str, data: str = "") -> None:
    os.makedirs(target, exist_ok=True)
    if _libc.mount(source.encode(), target.encode(), kind.encode(), 0, data.encode() or None):
        errno = ctypes.get_errno()
        raise OSError(errno, f"mount {kind} on {target}: {os.strerror(errno)}")


def _run(collection: str, test: str, longest_s: float) -> None:
    with open(f"{_WORK}/output.txt", "wb") as output:
        began = time.monotonic()
        process = subprocess.Popen([f"./{test}"], cwd=f"{_WORK}/tests/{collection}", stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(longest_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            code = None
        taken_s = time.monotonic() - began
    with open(f"{_WORK}/result.json", "w", encoding="utf-8") as file:
        json.dump({"exit_code": code, "virtual_s": round(taken_s, 6)}, file)


def main() -> None:
    collection, test, longest_s = sys.argv[1:4]
    os.environ.clear()
    os.environ.update(PATH=f"{_PROGRAMS}:/usr/sbin:/usr/bin:/sbin:/bin", HOME="/tmp", LANG="C.UTF-8",
                      PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1")
    _mount("proc", "/proc", "proc")
    _mount("sysfs", "/sys", "sysfs")
    _mount("devtmpfs", "/dev", "devtmpfs")
    _mount("devpts", "/dev/pts", "devpts")
    for folder in ("/tmp", "/run", "/var/tmp", "/dev/shm"):
        _mount("tmpfs", folder, "tmpfs")
    for kind, folder in (("tracefs", "/sys/kernel/tracing"), ("debugfs", "/sys/kernel/debug"), ("bpf", "/sys/fs/bpf")):
        if os.path.isdir(folder):
            _mount(kind, folder, kind)
    _mount("none", _WORK, "hostfs", _HOST_WORK)
    _put_modprobe()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    time.sleep(_BEFORE_S)
    _run(collection, test, float(longest_s))


try:
    main()
except Exception:
    traceback.print_exc()           # before the kernel is gone, and what it printed with it
finally:
    sys.stderr.flush()
    os.sync()
    _libc.reboot(0x4321FEDC)
