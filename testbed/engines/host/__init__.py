# SPDX-License-Identifier: GPL-2.0-only
"""The running kernel, on the wall clock: what virtual time is compared with.

Needs root. Nodes are network namespaces of processes in a namespace of their own, which end together; what a run
changes besides (settings, modules, tracing) is in a journal (journal.py) and put back however the run ends.
"""
from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import kernel
from testbed import PROJECT_DIR
from testbed.core import c_libraries, terminal
from testbed.core.errors import RunFailed
from testbed.core.fields import FieldError
from testbed.core.no_idle import prevent_idle, wanted
from testbed.engines._kernel_engine import KernelEngine, read_progress, read_status
from testbed.engines.host import modules, needs, timers
from testbed.engines.host.journal import PATIENCE_S, Busy, Journal
from testbed.guest.job import Job
from testbed.guest.session import READY
from testbed.guest.tuning import machine_sysctls
from testbed.runs import code_bundle
from testbed.runs.engine import Capabilities, OnProgress, Problem, Report
from topologies.linux.namespace import sysctl_path

_HERE = pathlib.Path(__file__).parent
_LAUNCH = PROJECT_DIR / "kernel" / "launch.py"
#: wall seconds without a word from the run: a phase without traffic takes a minute at most
_STALL_S = 600
_LOOK_EVERY_S = 0.2
#: how long a session may take to take its network down
_END_S = 60
_WAITING = "waiting for another run on this kernel"
#: what probes change for the whole kernel (testbed/probes/_ring.py)
_TRACE_OPTIONS = ("/sys/kernel/tracing/options/record-cmd",)


class Engine(KernelEngine):
    """Carries out runs one at a time, on all CPUs that the command may use."""
    capabilities = Capabilities(clock="real", parallel=False)
    OWN_PROBES = {"cpu": {}}
    DECISIVE = (*KernelEngine.DECISIVE, *(f"testbed/engines/host/{path.name}" for path in sorted(_HERE.glob("*.py"))))

    def __init__(self, options: dict[str, object]) -> None:
        super().__init__(options)
        self._journal = Journal()
        # a worker is tied to one CPU, which would be too little for a whole network
        self._cpus = os.sched_getaffinity(0)

    @functools.cached_property
    def never_idle(self) -> bool:                           # type: ignore[override]
        return wanted()

    @functools.cached_property
    def timer_lateness_us(self) -> list[int]:
        """Of the timers of this kernel, measured."""
        with prevent_idle(self.never_idle):
            return timers.lateness_us()

    @property
    def timer_period_us(self) -> int:                       # type: ignore[override]
        return timers.period_us(self.timer_lateness_us)

    def require(self, kernel_options: Sequence[str]) -> None:
        if lacking := needs.lacking(kernel_options):
            raise FieldError("kernel.options", "engine host takes the running kernel, which has no "
                                               f"{', '.join(lacking)}")

    def problems(self) -> list[Problem]:
        found = needs.rights()
        if found:
            return found
        try:
            with self._journal.exclusive(waiting=None):
                self._journal.begin()
                try:
                    return needs.kernel_lacks()
                finally:
                    self._put_back()
        except Busy:
            return []                               # the other run shows that all is there

    def prepare(self, report: Report) -> None:
        """Make the code's libraries; the running kernel is as ready as it ever gets."""
        code_bundle.ensure(report)

    def find(self) -> bool:
        return not needs.rights()

    def kernel_key(self) -> str:
        return _kernel_key()

    def kernel_release(self) -> str:
        return os.uname().release

    def state(self) -> str:
        return f"ready, {self.kernel_release()}"

    def environment(self) -> dict[str, object]:
        late, code = self.timer_lateness_us, code_bundle.ensure()
        return {"kernel_release": self.kernel_release(), "kernel_spec": None, "kernel_key": self.kernel_key(),
                "kernel_version": os.uname().version, "cpus_used": len(self._cpus),
                "clock_counts_instructions": self.never_idle, "timer_period_us": self.timer_period_us,
                "replay_compiled": (code / c_libraries.TMIX_CORE).exists(),
                "timer_lateness_us": {"median": late[len(late) // 2], "most": late[-1], "timers": len(late)}}

    def congestion_controls(self) -> Sequence[str]:
        return modules.congestion_controls()

    def build_module(self, source: str, report: Report) -> kernel.Module:
        return kernel.build_module_for(kernel.Headers.of_running(self.kernel_key()), source, report, self._try_modules)

    def find_module(self, sha256: str) -> kernel.Module | None:
        return kernel.find_module(self.kernel_key(), sha256)

    def _try_modules(self, files: Sequence[pathlib.Path]) -> list[list[str]]:
        """Load modules for a moment, for what each registers. TrialError if they do nothing of the kind."""
        found: list[list[str]] = []
        with self._journal.exclusive(lambda: None):
            self._journal.begin()
            self._journal.add(extra_modules=[file.stem for file in files])
            try:
                for file in files:
                    before = modules.available()
                    self._load_on_trial(file)
                    found.append([name for name in modules.available() if name not in before])
            finally:
                self._put_back()
        if not any(found):
            raise kernel.TrialError(f": {' '.join(file.name for file in files)} loads, but registers no congestion "
                                    "control")
        return found

    @staticmethod
    def _load_on_trial(file: pathlib.Path) -> None:
        try:
            modules.load(file)
        except FileExistsError:
            if modules.loaded().keys() & {file.stem.replace("-", "_")}:
                raise kernel.TrialError(f": a module {file.stem} is loaded already: rmmod {file.stem} first") from None
            raise kernel.TrialError(f": {file.name} registers a congestion control of a name that the kernel has "
                                    "already (dmesg says which): give its .name another value") from None
        except OSError as problem:
            raise kernel.TrialError(f": {file.name} cannot be loaded: {problem.strerror} (dmesg says more)") from None

    def clean_up(self, pid: int) -> None:
        # whoever has the lock has put it back before
        with contextlib.suppress(Busy), self._journal.exclusive(waiting=None):
            pass

    def leftovers(self) -> str:
        return "" if needs.rights() else self._journal.left_by_dead()

    def repair(self) -> None:
        if not needs.rights():
            self.clean_up(0)

    def boot(self, work_dir: pathlib.Path, log_path: pathlib.Path, cpu: int, on_progress: OnProgress) -> None:
        def carry_out(command: list[str]) -> None:
            with open(log_path, "wb") as log:
                process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT,
                                           cwd="/", start_new_session=True)
            with _ended(process, work_dir):
                self._watch(process, work_dir, on_progress)
        self._do(work_dir, log_path, carry_out, lambda: on_progress(_WAITING, 0))

    @property
    def session_timer_period_us(self) -> int:
        return self.timer_period_us

    def converse(self, work_dir: pathlib.Path, log_path: pathlib.Path, reading: str) -> None:
        def carry_out(command: list[str]) -> None:
            with contextlib.ExitStack() as ending:
                def start(fd: int, out: int) -> subprocess.Popen[bytes]:
                    with open(log_path, "wb") as log:
                        process = subprocess.Popen(command, stdin=fd, stdout=log, stderr=subprocess.STDOUT, cwd="/",
                                                   start_new_session=True)
                    ending.enter_context(_ended(process, work_dir))
                    while not (pid := _pid_in(work_dir)) and process.poll() is None:
                        time.sleep(0.01)
                    if pid:
                        self._journal.note_process(pid)
                    return process
                with contextlib.suppress(subprocess.TimeoutExpired):
                    terminal.connect(start, READY, reading).wait(timeout=_END_S)
        self._do(work_dir, log_path, carry_out, lambda: print(_WAITING, file=sys.stderr))

    def _do(self, work_dir: pathlib.Path, log_path: pathlib.Path, carry_out: Callable[[list[str]], None],
            waiting: Callable[[], None]) -> None:
        """Carry out work_dir/job.json and put everything of the kernel back. RunFailed if it went wrong."""
        job = Job(json.loads((work_dir / "job.json").read_text(encoding="utf-8")), "job.json")
        code = code_bundle.ensure()
        os.sched_setaffinity(0, self._cpus)
        with self._journal.exclusive(waiting):
            self._journal.begin(_settings(job), list(job.probes) if job.has("probes") else [])
            try:
                self._journal.add(extra_modules=[module.name for module in job.modules])
                for variant in job.variants:
                    if not variant.module_sha256:
                        modules.load_congestion_control(variant.kernel_cca)
                # its first process, and what that starts, are gone when it has ended
                carry_out([sys.executable, "-I", "-S", str(_LAUNCH), "--", "/usr/bin/unshare", "--mount", "--pid",
                           "--fork", "--kill-child=TERM", "--", code_bundle.PYTHON, "-I", "-S", str(_HERE / "enter.py"),
                           str(work_dir), str(code)])
            finally:
                self._put_back()
        status = read_status(work_dir)
        if status is None:
            words = log_path.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-10:]
            raise RunFailed("the run ended before its job was done" + "".join(f"\n  {line}" for line in words))
        if not status.ok:
            raise RunFailed(f"inside the run: {status.error}")

    def _watch(self, process: subprocess.Popen[bytes], work_dir: pathlib.Path, on_progress: OnProgress) -> None:
        noted, progress, since = False, None, time.monotonic()
        while True:
            try:
                process.wait(timeout=_LOOK_EVERY_S)
                return
            except subprocess.TimeoutExpired:
                pass
            if not noted and (pid := _pid_in(work_dir)):
                self._journal.note_process(pid)
                noted = True
            now = read_progress(work_dir)
            if now is not None and now != progress:
                progress, since = now, time.monotonic()
                on_progress(progress.phase, progress.t_us)
            if time.monotonic() - since > _STALL_S:
                raise RunFailed(f"no progress for {_STALL_S} s ({progress.phase if progress else 'start'})")

    def _put_back(self) -> None:
        problems = self._journal.put_back()
        if problems:
            raise RunFailed(f"not as before: {'; '.join(problems)} (testbed doctor --repair tries again)")


def _settings(job: Job) -> list[str]:
    """Paths of all settings of the whole kernel that a job changes."""
    names = [*machine_sysctls(job.network, job.connection_places), "net.ipv4.tcp_allowed_congestion_control"]
    parameters = [f"/sys/module/{module}/parameters/{name}" for module, values in job.builtin_parameters.items()
                  for name in values]
    return [sysctl_path(name) for name in names] + parameters + list(_TRACE_OPTIONS)


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes], work_dir: pathlib.Path) -> Iterator[None]:
    """A run's process is gone after the block, and all that it started: ended in order, where that is possible."""
    try:
        yield
    finally:
        first = _pid_in(work_dir)
        with contextlib.suppress(ProcessLookupError):
            if first is not None and process.poll() is None:
                os.kill(first, signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(PATIENCE_S)
            if process.poll() is None:
                os.kill(first or process.pid, signal.SIGKILL)
        process.wait()                              # which waits for the first process, and that for all others
        if process.stdin:
            process.stdin.close()


def _pid_in(work_dir: pathlib.Path) -> int | None:
    """The id of the run's first process, once it has said it."""
    try:
        return int((work_dir / "process.pid").read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return None


@functools.cache
def _kernel_key() -> str:
    """The release, and a hash of what tells two builds of it apart: version and, where there is one, build id."""
    what = os.uname().version.encode()
    try:
        what += pathlib.Path("/sys/kernel/notes").read_bytes()
    except OSError:
        pass
    return f"{os.uname().release}-{hashlib.sha256(what).hexdigest()[:12]}"
