# SPDX-License-Identifier: GPL-2.0-only
"""Process 1 of a guest that carries out packet scripts, each in a network namespace of its own; then it switches off.

    init.py             job.json is beside this folder; results go to results.jsonl in the working folder

The root file system is the host's, read-only (hostfs). Folders of scripts are mounted by their paths on the host.
"""
from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import traceback

TYPE_CHECKING = False       # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from testbed.packet_scripts.inside import Job

_libc = ctypes.CDLL(None, use_errno=True)
_MS_RDONLY, _CLONE_NEWNET, _POWER_OFF, _INIT_MODULE = 1, 0x40000000, 0x4321FEDC, 175
#: of virtual time, for a script: it waits for what does not come. A week takes a minute of CPU time at most
_LONGEST_S = 7 * 24 * 3600
_CODE, _WORK = "/run/code", "/run/work"


def _mount(source: str, target: str, kind: str, flags: int = 0, data: str | None = None) -> None:
    os.makedirs(target, exist_ok=True)
    if _libc.mount(source.encode(), target.encode(), kind.encode(), flags, os.fsencode(data) if data else None):
        number = ctypes.get_errno()
        raise OSError(number, f"mount {kind} on {target}: {os.strerror(number)}")


def _mount_all() -> None:
    _mount("proc", "/proc", "proc")
    _mount("sysfs", "/sys", "sysfs")
    _mount("devtmpfs", "/dev", "devtmpfs")
    for folder in ("/tmp", "/run", "/var/tmp"):
        _mount("tmpfs", folder, "tmpfs")
    _mount("none", _CODE, "hostfs", _MS_RDONLY, "/proc/self/fd/9")
    _mount("none", _WORK, "hostfs", 0, "/proc/self/cwd")


def _load_module(path: str, parameters: str) -> None:
    with open(path, "rb") as file:
        image = file.read()
    if _libc.syscall(_INIT_MODULE, image, ctypes.c_ulong(len(image)), parameters.encode()):
        raise OSError(ctypes.get_errno(), f"{path}: {os.strerror(ctypes.get_errno())}")


def main() -> None:
    os.umask(0o022)
    os.environ.clear()
    os.environ.update(PATH="/usr/sbin:/usr/bin:/sbin:/bin", HOME="/tmp", LANG="C.UTF-8", PYTHONDONTWRITEBYTECODE="1")
    _mount_all()
    sys.path[:0] = [_CODE, "/usr/lib/python3/dist-packages"]
    from testbed.packet_scripts import inside
    job = inside.read_job(f"{_CODE}/job.json")
    for module in job.modules:
        _load_module(f"{_CODE}/{module.file}", module.parameters)
    # a namespace may choose only what every user may
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control", encoding="ascii") as file:
        names = file.read()
    with open("/proc/sys/net/ipv4/tcp_allowed_congestion_control", "w", encoding="ascii") as file:
        file.write(names)
    for number, folder in enumerate(job.folders):
        _mount("none", inside.folder_of(number), "hostfs", _MS_RDONLY, folder)
    with open(f"{_WORK}/results.jsonl", "a", encoding="utf-8") as results:
        for place in range(len(job.scripts)):
            inside.say_progress(f"{_WORK}/progress.json", job, place)
            results.write(json.dumps({"script": place, **_in_namespace(job, place)}) + "\n")
            results.flush()


def _in_namespace(job: "Job", place: int) -> dict[str, object]:
    """What became of a script, carried out by a process that has a namespace, a session and descriptors of its own."""
    from testbed.packet_scripts import inside
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(reading)
            os.setsid()
            if _libc.unshare(_CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "unshare")
            text = json.dumps(inside.carry_out(job, place)).encode()
        except BaseException:
            text = json.dumps({"error": traceback.format_exc()}).encode()
        with open(writing, "wb") as pipe:
            pipe.write(text)
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        if not select.select([pipe], [], [], _LONGEST_S)[0]:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return {"ok": False, "line": 0, "what": f"not over after {_LONGEST_S} s of virtual time", "event": "",
                    "lines": [], "virtual_ns": _LONGEST_S * 10**9, "output": "", "trace": []}
        said = pipe.read()
    _, status = os.waitpid(pid, 0)
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if not said:
        return {"error": f"the process of the script ended with status {status}"}
    return dict(json.loads(said))


if __name__ == "__main__":
    try:
        main()
    except BaseException:                       # process 1 must not end: the kernel would panic
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.sync()
        _libc.reboot(_POWER_OFF)
