# SPDX-License-Identifier: GPL-2.0-only
"""The default engine: a User-Mode-Linux kernel in virtual time, started as an ordinary process.

No root, no KVM, no modules on the host. CPU work takes no virtual time and idle time is
skipped, so neither a slow machine nor a slow program can distort the network, and the
same seed gives the same run to the bit (docs/reproducibility.md).
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import kernel
from kernel import crash, modinfo
from testbed import PROJECT_DIR
from testbed.engines.base import Capabilities, Problem
from testbed.engines.kernel_engine import KernelEngine
from testbed.engines.uml import init, watch
from testbed.errors import EnvironmentProblem, RunFailed

_HERE = pathlib.Path(__file__).parent
#: memory of the guest; what it does not touch is never allocated
GUEST_MEMORY_MB = 1024
#: 14 November 2023: the same first second for every run
_EPOCH_NS = 1_700_000_000_000_000_000


class Engine(KernelEngine):
    """Builds or finds the guest kernel, starts it, watches it, cleans up after it."""
    capabilities = Capabilities(clock="virtual")
    timer_period_us = 0

    def __init__(self, options):
        super().__init__(options)
        self._kernel = None

    def problems(self):
        found = []
        if os.uname().machine != "x86_64":
            found.append(Problem(f"User-Mode Linux needs x86_64, this is {os.uname().machine}", "use --engine host"))
        try:
            memory_dir()
        except EnvironmentProblem as problem:
            found.append(Problem(str(problem), "free some space there, or set TESTBED_GUEST_MEMORY_DIR "
                                               "to a folder on a tmpfs with room"))
        if kernel.find(self.options.get("kernel")) is None:
            found += [Problem(f"{what} is missing (needed to build the guest kernel)", f"apt-get install {package}")
                      for what, package in kernel.missing_tools()]
        return found

    def prepare(self, report):
        self._kernel = kernel.ensure(self.options.get("kernel"), report)

    def find(self):
        self._kernel = kernel.find(self.options.get("kernel"))
        return self._kernel is not None

    def parameters(self, kernel_cca):
        return modinfo.of_builtin(self._kernel, f"tcp_{kernel_cca}")

    def environment(self):
        return {"kernel_spec": self.options.get("kernel"), "kernel_release": self._kernel.release,
                "kernel_source": self._kernel.source, "kernel_key": self._kernel.key,
                "kernel_config_sha256": self._kernel.config_sha256, "guest_memory_mb": GUEST_MEMORY_MB}

    def kernel_key(self):
        return self._kernel.key

    def congestion_controls(self):
        return self._kernel.congestion_controls

    def build_module(self, source, report):
        return kernel.build_module(self._kernel, source, report)

    def find_module(self, sha256):
        return kernel.find_module(self._kernel.key, sha256)

    def guest_dir(self, work_dir):
        return init.WORK_DIR

    def boot(self, work_dir, log_path, cpu, on_progress):
        with open(work_dir / "job.json") as f:
            seed = json.load(f)["seed"]
        scratch = pathlib.Path(tempfile.mkdtemp(prefix="testbed-uml-"))
        memory = memory_dir()
        command = [
            sys.executable, "-I", "-S", str(_HERE / "launch.py"), str(cpu), f"{work_dir}:{scratch}:{memory}",
            str(self._kernel.program), f"mem={GUEST_MEMORY_MB}M", "root=none", "rootfstype=hostfs", "rootflags=/", "ro",
            "time-travel=inf-cpu", f"time-travel-start={_EPOCH_NS}", "norandmaps", "loglevel=8",
            # tens of thousands in TIME_WAIT want a larger table than this little memory gets, but every dump walks it
            "thash_entries=16384",
            "con=null", "con0=null,fd:2", f"uml_dir={scratch}", "umid=guest",
            # 13 to 27 % less CPU time per packet where kernel and host can, the same bytes (docs/kernels.md)
            *(["seccomp=auto"] if "seccomp" in self._kernel.features else []),
            "init=/usr/bin/python3", "--", "-I", "-S", str(_HERE / "init.py"), str(PROJECT_DIR)]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": str(memory), "UML_RANDOM_SEED": str(seed)}
        process = None
        try:
            with open(log_path, "wb") as log:
                process = subprocess.Popen(command, cwd=work_dir, env=environment, stdin=subprocess.DEVNULL,
                                           stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
            watch.watch(process, self._kernel.build_dir / "System.map", work_dir, on_progress)
        except watch.Stalled as problem:
            raise watch.Stalled(str(problem) + _told(log_path)) from None
        finally:
            if process:
                _kill_session(process)
            shutil.rmtree(scratch, ignore_errors=True)
        _check_end(process.returncode, work_dir, log_path)


def memory_dir():
    """Folder for the guest's memory: a tmpfs with room. EnvironmentProblem if there is none."""
    wanted = GUEST_MEMORY_MB << 20
    chosen = os.environ.get("TESTBED_GUEST_MEMORY_DIR")
    tried = []
    for folder in [chosen] if chosen else ["/dev/shm", "/tmp"]:
        try:
            room = os.statvfs(folder)
        except OSError as problem:
            tried.append(f"{folder}: {problem.strerror}")
            continue
        free = room.f_bavail * room.f_frsize
        if free >= wanted and os.access(folder, os.W_OK | os.X_OK):
            return folder
        tried.append(f"{folder} has {free >> 20} MB free" if free < wanted else f"{folder} is not writable")
    raise EnvironmentProblem(f"no space for the guest's memory: {GUEST_MEMORY_MB} MB needed, {'; '.join(tried)}")


def _kill_session(process):
    """Kill the kernel and the processes it runs its user space in (all in its session)."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _told(log_path):
    """Where the kernel was when it was made to stop, as lines to add to a message."""
    trouble = crash.describe(log_path.read_bytes().decode("utf-8", "replace"))
    return ":\n  " + "\n  ".join(trouble.splitlines()[1:]) if trouble else ""


def _check_end(returncode, work_dir, log_path):
    """RunFailed unless the guest said that all went well: UML's own exit code is 0 either way."""
    log = log_path.read_bytes().decode("utf-8", "replace")
    trouble = crash.describe(log)
    status_path = work_dir / "status.json"
    if status_path.exists() and not (trouble and "Kernel panic" in trouble):
        status = json.loads(status_path.read_text())
        if status["ok"]:
            return
        raise RunFailed(f"inside the guest: {status['error']}")
    if trouble:
        raise RunFailed("the guest kernel crashed: " + trouble.replace("\n", "\n  "))
    room = os.statvfs(work_dir)
    if room.f_bavail * room.f_frsize < 1 << 20:
        # then neither status nor log could be written
        raise RunFailed(f"No space left on device: {work_dir.parent.parent.parent}")
    if returncode < 0:
        raise RunFailed(f"the guest kernel was killed by {signal.Signals(-returncode).name}")
    last = "\n  ".join(log.splitlines()[-10:])
    raise RunFailed(f"the guest kernel ended with status {returncode} before its job was done" +
                    (f"; its last words:\n  {last}" if last else ""))
