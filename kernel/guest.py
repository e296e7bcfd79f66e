# SPDX-License-Identifier: GPL-2.0-only
"""How a guest kernel is started: the one command line of first boots, trials of modules and runs.

A guest's process 1 is a Python file in a folder that the guest reaches as FOLDER; its working folder, the
only one it may change, is the host's /proc/self/cwd. So the command line is the same for every run of a
kernel with the same memory and options, whoever starts it and wherever things are.
"""
from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence

from kernel import fault_signals
from kernel.source import KernelError

_LAUNCH = pathlib.Path(__file__).with_name("launch.py")
_FOLDER_FD = 9
#: the folder with process 1, as the guest sees it while it still has the host's /proc
FOLDER = f"/proc/self/fd/{_FOLDER_FD}"
#: what programs in a guest, or compilers, have to read on the host: nobody's data
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/dev/urandom", "/dev/random", *(
    f"/etc/{name}" for name in (
        "alternatives", "bash.bashrc", "bindresvport.blacklist", "debian_version", "ethertypes", "gai.conf", "group",
        "host.conf", "hosts", "iproute2", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "localtime",
        "locale.alias", "mininet", "networks", "nsswitch.conf", "os-release", "passwd", "profile", "protocols",
        "python3", f"python3.{sys.version_info.minor}", "rpc", "services", "ssl/openssl.cnf",
        "terminfo", "timezone")))
_LOOK_EVERY_S = 0.5
#: 14 November 2023: the same first second for every run
_EPOCH_NS = 1_700_000_000_000_000_000


def command(program: pathlib.Path, folder: pathlib.Path, init: Sequence[str], work_dir: pathlib.Path, memory: str, *,
            memory_mb: int, cpu: int | None = None, confine: bool = True, options: Iterable[str] = (),
            virtual_time: bool = True) -> list[str]:
    """The command that boots `program`, to be started in `work_dir` with environment(memory).

    init: path of process 1's file inside `folder`, and its arguments; memory: memory_dir(); confine: let the
    guest read only the system's folders, `folder`, `work_dir` and its own program; virtual_time: else the guest's
    clock is the host's.
    """
    launcher = [sys.executable, "-I", "-S", str(_LAUNCH), "--fixed", "--folder", f"{_FOLDER_FD}={folder}"]
    if cpu is not None:
        launcher += ["--cpu", str(cpu)]
    for path in (str(work_dir), memory):
        launcher += ["--write", path]
    if library := fault_signals.library():
        launcher += ["--preload", str(library), *(["--read", str(library)] if confine else [])]
    if confine:
        for path in (*SYSTEM, str(program.parent), str(folder)):
            launcher += ["--read", path]
    return [*launcher, "--", str(program), f"mem={memory_mb}M", "root=none", "rootfstype=hostfs", "rootflags=/", "ro",
            *(["time-travel=inf-cpu", f"time-travel-start={_EPOCH_NS}"] if virtual_time else []), "norandmaps",
            "loglevel=8", "con=null", "con0=null,fd:2", "uml_dir=uml/", "umid=guest", *options,
            "init=/usr/bin/python3", "--", "-I", "-S", f"{FOLDER}/{init[0]}", *init[1:]]


def environment(memory: str, seed: int = 1) -> dict[str, str]:
    """Environment of the kernel's process: where its memory lies, and what its randomness starts from."""
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": memory, "UML_RANDOM_SEED": str(seed)}


def memory_dir(memory_mb: int) -> str:
    """Folder for a guest's memory: a tmpfs with room. KernelError if there is none."""
    wanted = memory_mb << 20
    chosen = os.environ.get("TESTBED_GUEST_MEMORY_DIR")
    tried = []
    for folder in [chosen] if chosen else ["/dev/shm", "/tmp"]:
        try:
            room = os.statvfs(folder)
        except OSError as problem:
            tried.append(f"{folder}: {problem.strerror}")
            continue
        free = room.f_bavail * room.f_frsize
        if free < wanted:
            tried.append(f"{folder} has {free >> 20} MB free")
        elif not os.access(folder, os.W_OK | os.X_OK):
            tried.append(f"{folder} is not writable")
        elif room.f_flag & os.ST_NOEXEC:
            tried.append(f"{folder} is mounted noexec")
        else:
            return folder
    raise KernelError(f"no space for the guest's memory: {memory_mb} MB needed, {'; '.join(tried)}")


def run_briefly(program: pathlib.Path, folder: pathlib.Path, init: Sequence[str], scratch: pathlib.Path,
                timeout_s: float, memory_mb: int = 64, seed: int = 1, stop: threading.Event | None = None) \
        -> str | None:
    """Boot a guest for a moment; what it said, or None if it did not end, also because of `stop`. Nothing of it is
    left."""
    memory = memory_dir(memory_mb)
    process = subprocess.Popen(command(program, folder, init, scratch, memory, memory_mb=memory_mb), cwd=scratch,
                               env=environment(memory, seed), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    ends = time.monotonic() + timeout_s
    try:
        while (left_s := ends - time.monotonic()) > 0 and not (stop and stop.is_set()):
            try:
                said = process.communicate(timeout=min(left_s, _LOOK_EVERY_S) if stop else left_s)[0]
                return said.decode("utf-8", "replace").replace("\r", "")
            except subprocess.TimeoutExpired:
                pass
        return None
    finally:
        kill_session(process)


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kill a program that was started in a session of its own, with all that is in that session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
