# SPDX-License-Identifier: GPL-2.0-only
"""Process 1 of the UML guest: mount what is needed, do the job, switch off.

The root file system is the host's, read-only (hostfs). The testbed's code is the folder that the UML
process has open as descriptor 9 (kernel/guest.py), the one writable folder its working directory: both are
reached through the host's /proc/self, so that no path of the host's is seen here.
"""
from __future__ import annotations

import ctypes
import os
import signal
import sys

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from testbed.guest.job import Job

_libc = ctypes.CDLL(None, use_errno=True)
_MS_RDONLY = 1
_POWER_OFF = 0x4321FEDC

WORK_DIR = "/run/testbed"
PROJECT_DIR = "/run/project"
#: where somebody talks to the guest, if anybody does
TERMINAL = "/dev/tty1"
#: file in the work folder: rows and columns of it
SIZE = "terminal-size"
_LOOK_EVERY_S = 0.2
#: where the code's folder has what makes programs start faster (testbed/runs/code_bundle.py)
_PRELOAD = f"{PROJECT_DIR}/testbed/guest/preload.so"
#: byte code of what is imported from here on (testbed/guest/start.py); without it modules are found one by one
_IMAGE = f"{PROJECT_DIR}/images/testbed.guest.main"

#: as the host sees them
_HOST_PROJECT_DIR, _HOST_WORK_DIR = "/proc/self/fd/9", "/proc/self/cwd"


def _mount(source: str, target: str, kind: str, flags: int = 0, data: str | None = None) -> None:
    os.makedirs(target, exist_ok=True)
    if _libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode() if data else None):
        errno = ctypes.get_errno()
        raise OSError(errno, f"mount {kind} on {target}: {os.strerror(errno)}")


def _mount_all() -> None:
    _mount("proc", "/proc", "proc")
    _mount("sysfs", "/sys", "sysfs")
    _mount("tracefs", "/sys/kernel/tracing", "tracefs")
    _mount("devtmpfs", "/dev", "devtmpfs")
    _mount("devpts", "/dev/pts", "devpts")
    for folder in ("/tmp", "/run", "/var/tmp", "/dev/shm"):
        _mount("tmpfs", folder, "tmpfs")
    # by host path: /tmp and /run of the host are hidden from here on
    _mount("none", PROJECT_DIR, "hostfs", _MS_RDONLY, _HOST_PROJECT_DIR)
    _mount("none", WORK_DIR, "hostfs", 0, _HOST_WORK_DIR)


def _import_from_image() -> None:
    if os.path.exists(_IMAGE):
        sys.path.insert(0, f"{PROJECT_DIR}/testbed/guest")
        import start  # type: ignore[import]
        del sys.path[0]
        start.load(_IMAGE)


def _note_status(status: "dict[str, object]") -> None:
    import json
    path = os.path.join(WORK_DIR, "status.json")
    with open(path + ".part", "w", encoding="utf-8") as f:
        json.dump(status, f)
    os.replace(path + ".part", path)


def _note_failure(problem: BaseException) -> None:
    import traceback
    traceback.print_exc()
    sys.stderr.flush()
    try:
        _note_status({"ok": False, "error": f"{type(problem).__name__}: {problem}"})
    except OSError as second:
        print("status.json:", second, file=sys.stderr)


def main() -> None:
    os.umask(0o022)
    os.environ.clear()
    os.environ.update(PATH="/usr/sbin:/usr/bin:/sbin:/bin", HOME="/tmp", LANG="C.UTF-8",
                      PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1")
    _mount_all()
    if hasattr(_libc, "use_virtual_clock"):         # testbed/guest/preload.c
        _libc.use_virtual_clock()
    # Mininet's node shells must not stop us when they go
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _import_from_image()
    sys.path[:0] = [PROJECT_DIR, "/usr/lib/python3/dist-packages"]
    import json
    with open(os.path.join(WORK_DIR, "job.json"), encoding="utf-8") as f:
        job = json.load(f)
    job["project_dir"] = PROJECT_DIR
    if os.path.exists(_PRELOAD):
        job["preload"] = _PRELOAD
    if "session" in job:
        from testbed.guest.job import Job
        _in_session(Job(job, "job.json"))
        return
    # Mininet does without it, and so nobody waits for it
    sys.modules["pexpect"] = None                                               # type: ignore[assignment]
    from testbed.guest.job import Job
    from testbed.guest.main import run
    _libc.munlockall()                  # testbed/guest/preload.c: memory comes as usual from here on
    run(Job(job, "job.json"), WORK_DIR)
    _note_status({"ok": True})


def _in_session(job: "Job") -> None:
    """Let a process of its own talk to the user: process 1 hears of no signal."""
    import fcntl
    import struct
    import termios
    import time
    pid = os.fork()
    if not pid:
        try:
            from testbed.guest import session
            _note_status({"ok": True, "failed": session.serve(job, WORK_DIR, TERMINAL)})
        except BaseException as problem:
            _note_failure(problem)
        finally:
            os._exit(0)
    terminal, size = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY), ""
    while True:
        there, ended = os.waitpid(pid, os.WNOHANG)
        if there:
            break
        now = _read(SIZE)
        if now != size:
            size, (rows, columns) = now, map(int, now.split())
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        time.sleep(_LOOK_EVERY_S)
    if os.WIFSIGNALED(ended):
        raise RuntimeError(f"the shell was killed by {signal.Signals(os.WTERMSIG(ended)).name}")


def _read(name: str) -> str:
    """What a file in the work folder says; nothing if it is not there."""
    try:
        with open(os.path.join(WORK_DIR, name), encoding="ascii") as file:
            return file.read()
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    try:
        main()
    except BaseException as problem:        # process 1 must not end: the kernel would panic
        _note_failure(problem)
    finally:
        sys.stdout.flush()
        os.sync()
        _libc.reboot(_POWER_OFF)
