# SPDX-License-Identifier: GPL-2.0-only
"""The default engine: a User-Mode-Linux kernel in virtual time, started as an ordinary process.

No root, no KVM, no modules on the host. CPU work takes no virtual time and idle time is
skipped, so neither a slow machine nor a slow program can distort the network, and the
same seed gives the same run to the bit (docs/explanation/reproducibility.md).
"""
from __future__ import annotations

import json
import pathlib
import re
import subprocess
from collections.abc import Sequence

import kernel
from kernel import compiling, debugger, guest, host, modinfo, source_lines, trial
from testbed import PROJECT_DIR, probes
from testbed.core import c_libraries, environment, guesses, progress, terminal
from testbed.core.errors import EnvironmentProblem, RunFailed
from testbed.core.files import write_json
from testbed.engines import _watch as watch
from testbed.engines._kernel_engine import PROGRESS_PART, KernelEngine
from testbed.engines.uml import ending, init, inventory, memory
from testbed.guest.job import Job
from testbed.guest.session import READY
from testbed.runs import code_bundle
from testbed.runs.engine import Capabilities, OnProgress, Option, Problem, Report
from testbed.runs.plan import Plan
from topologies import standards
from topologies.links.records import Network

_INIT = "testbed/engines/uml/init.py"
_MODULES = PROJECT_DIR / "kernel-modules"


class Engine(KernelEngine):
    """Builds or finds the guest kernel, starts it, watches it, cleans up after it."""
    capabilities = Capabilities(clock="virtual")
    OPTIONS = (
        Option("kernel", "--kernel", "guest kernel: a version such as 6.12 (default), newest, a kernel tree or a "
               "tarball; `run` compares several, separated by commas", value="PATH|VERSION", recorded="kernel_spec"),
        Option("hz", "--hz", "timer ticks per second of the guest kernel: 100, 250, 300 or 1000 (default)", value="N",
               recorded="kernel_hz"),
        Option("kernel_options", "--kernel-option", "build the guest kernel with this option; stock: without the speed "
               "patches (docs/howto/kernels.md); may be repeated",
               value="NAME", repeats=True, recorded="kernel_options"),
        Option("confine", "--no-confine", "do not sandbox guests"))
    RADIOS = True
    DECISIVE = (*KernelEngine.DECISIVE, "testbed/engines/uml/__init__.py", "testbed/engines/uml/memory.py",
                "kernel/guest.py")
    timer_period_us = 0

    def __init__(self, options: dict[str, object]) -> None:
        super().__init__(options)
        self.require(())
        self._found: kernel.Kernel | None = None
        self._code: pathlib.Path | None = None
        self._stop: kernel.Stop | None = None

    @staticmethod
    def parsed(option: str, text: str) -> int | str:
        if option == "hz":
            known = [str(hz) for hz in kernel.HZ]
            if text not in known:
                raise ValueError(f"{text!r}: one of {', '.join(known)} expected")
            return int(text)
        if option == "kernel_options" and text not in kernel.option_names():
            raise ValueError(f"no kernel option {text!r}; {guesses.alternatives(text, kernel.option_names())}")
        return text

    @property
    def _kernel(self) -> kernel.Kernel:
        if self._found is None:
            raise EnvironmentProblem("the guest kernel is not built yet; `testbed kernel` does it")
        return self._found

    @property
    def _asked(self) -> tuple[str | None, int, Sequence[str]]:
        """Which kernel is wanted."""
        return (self.options.get("kernel"), self.options.get("hz", kernel.USUAL_HZ),
                self.options.get("kernel_options", ()))

    @property
    def _confine(self) -> bool:
        return bool(self.options.get("confine", True))

    def require(self, kernel_options: Sequence[str]) -> None:
        wanted = [*self.options.get("kernel_options", ()), *kernel_options]
        if wanted:
            self.options = {**self.options, "kernel_options": list(kernel.ordered_options(wanted))}

    def problems(self) -> list[Problem]:
        found = [Problem(*problem) for problem in host.problems(memory.LEAST_MB)]
        if kernel.find(*self._asked) is None:
            found += [Problem(f"{what} is missing (needed to build the guest kernel)", f"apt-get install {package}")
                      for what, package in kernel.missing_tools()]
        return found

    def prepare(self, report: Report) -> None:
        spec, hz, options = self._asked
        memory.large_pages()            # a choice that is none is said before anything is built
        self._found = kernel.ensure(spec, report, hz, options)
        code_bundle.ensure(report)
        if "wireless" in self._found.options:
            for name in standards.modules():
                kernel.build_module_for(self._found, _MODULES / name, report, lambda files: trial.load(
                    self._kernel, files, for_congestion_control=False))
        for source, names in probes.module_sources(probes.names()).items():
            if self._module_of(source) is None:
                try:
                    kernel.build_module_for(self._found, source, report, lambda files: trial.load(
                        self._kernel, files, for_congestion_control=False))
                except kernel.ModuleError as problem:
                    report(f"{', '.join(names)}: without the module {source.name}, which makes them slower and may "
                           f"move instants by less than 1 us: {problem}")

    def find(self) -> bool:
        self._found = kernel.find(*self._asked)
        return self._found is not None

    def trace_events(self) -> frozenset[str] | None:
        try:
            symbols = (self._kernel.build_dir / "System.map").read_text(encoding="ascii", errors="replace")
        except OSError:
            return None                 # the run finds out
        # DEFINE_EVENT of include/trace/trace_events.h
        return frozenset(re.findall(r" __event_(\w+)$", symbols, re.MULTILINE)) or None

    def parameters(self, kernel_cca: str) -> dict[str, str]:
        return modinfo.of_builtin(self._kernel, f"tcp_{kernel_cca}")

    def environment(self) -> dict[str, object]:
        confined = host.facts()["landlock"] > 0
        self._code = code_bundle.ensure()
        return {"kernel_spec": self.options.get("kernel"), "kernel_hz": self._kernel.hz,
                "kernel_options": list(self._kernel.options), "kernel_release": self._kernel.release,
                "kernel_source": self._kernel.source, "kernel_key": self._kernel.key,
                "kernel_config_sha256": self._kernel.config_sha256, "guest_memory_mb": memory.LEAST_MB,
                "confined": {"writes": confined, "reads": confined and self._confine}, "host_facts": host.facts(),
                "replay_compiled": (self._code / c_libraries.TMIX_CORE).exists(),
                "preload": (self._code / c_libraries.PRELOAD).exists(),
                "probe_modules": {source.name: (module := self._module_of(source)) and module.sha256
                                  for source in probes.module_sources(probes.names())},
                "files_sha256": inventory.hashes(self._kernel.program)}

    def kernel_key(self) -> str:
        return self._kernel.key

    def kernel_release(self) -> str:
        return self._kernel.release

    def has(self, feature: str) -> bool:
        return feature in self._kernel.features

    def state(self) -> str:
        if not self.find():
            return "the guest kernel is not built yet: `testbed kernel` or the first run does it"
        return f"ready, {self._kernel.release} from {self._kernel.source}"

    def congestion_controls(self) -> Sequence[str]:
        return self._kernel.congestion_controls

    def known_ccas(self) -> Sequence[str] | None:
        return self.congestion_controls() if self.find() else \
            kernel.congestion_controls() if kernel.is_debian(self._asked[0]) else None

    def build_module(self, source: str, report: Report) -> kernel.Module:
        return kernel.build_module(self._kernel, source, report)

    def find_module(self, sha256: str) -> kernel.Module | None:
        return kernel.find_module(self._kernel.key, sha256)

    def probe_modules(self, names: Sequence[str]) -> list[pathlib.Path]:
        return [module.file for source in probes.module_sources(names) if (module := self._module_of(source))]

    def radio_sources(self) -> dict[str, str]:
        return {name: kernel.digest_of(_MODULES / name) for name in standards.modules()}

    def radio_modules(self, network: Network) -> dict[str, pathlib.Path]:
        found = {}
        for name in sorted({standards.of(cell).MODULE for cell in network.cells}):
            module = self._module_of(_MODULES / name)
            if module is None:
                raise EnvironmentProblem(f"{_MODULES / name} is not built for this kernel yet; `testbed run` does it")
            found[name] = module.file
        return found

    def _module_of(self, source: pathlib.Path) -> kernel.Module | None:
        """What was built of a probe's source for this kernel."""
        return self.find_module(kernel.digest_of(source))

    def memory_mb(self, plan: Plan, workload_dir: pathlib.Path | None) -> int:
        return memory.of_run_mb(workload_dir, plan.scenario.network)

    def guest_dir(self, work_dir: pathlib.Path) -> str:
        return init.WORK_DIR

    def run(self, plan: Plan, workload_dir: pathlib.Path, folder: pathlib.Path, cpu: int,
            on_progress: OnProgress) -> None:
        memory_mb = self.memory_mb(plan, workload_dir)
        if memory_mb != memory.LEAST_MB:
            record = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
            write_json(folder / "environment.json", {**record, "guest_memory_mb": memory_mb})
        super().run(plan, workload_dir, folder, cpu, on_progress)

    def debug(self, stop: object) -> None:
        assert isinstance(stop, kernel.Stop)
        if why := debugger.missing():
            raise EnvironmentProblem(f"--gdb, --function-trace: {why}")
        self._stop = stop

    def _talk(self, pid: int, stop: kernel.Stop, job: Job, work_dir: pathlib.Path,
              folder: pathlib.Path, types: pathlib.Path) -> None:
        """Let gdb have the guest until it ends or lets go of it."""
        loaded = {file.stem.replace("-", "_"): file for file in (work_dir / "modules").glob("*.ko")}
        # whole objects: of a file of lines alone gdb does not tell the sections apart
        loaded |= {name: whole for name, file in self._debug_files(job).items()
                   if (whole := file.with_suffix(".o")).is_file()}
        try:
            debugger.talk(self._kernel, pid, stop, work_dir / PROGRESS_PART, loaded, types,
                          folder / debugger.CALLS)
        except kernel.KernelError as problem:
            raise RunFailed(str(problem)) from None

    def boot(self, work_dir: pathlib.Path, log_path: pathlib.Path, cpu: int, on_progress: OnProgress) -> None:
        job = Job(json.loads((work_dir / "job.json").read_text(encoding="utf-8")), "job.json")
        memory_mb = memory.of_run_mb(work_dir, job.network)
        tmpfs = _tmpfs(memory_mb)
        command = self._command(work_dir, tmpfs, memory_mb, cpu=cpu)
        stop, process = self._stop, None
        if stop:
            types, command = debugger.types(self._kernel, progress.reporter()), debugger.traced(command)
        try:
            with open(log_path, "wb") as log:
                process = subprocess.Popen(command, cwd=work_dir, env=guest.environment(tmpfs, job.seed),
                                           stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                           start_new_session=True)
            if stop:
                self._talk(process.pid, stop, job, work_dir, log_path.parent, types)
            watch.watch(process, self._kernel.build_dir / "System.map", work_dir, log_path, on_progress)
        except watch.Stalled as problem:
            raise watch.Stalled(str(problem) + watch.last_words(log_path, self._lines(job))) from None
        except watch.Buggy as problem:
            raise watch.Buggy(f"{problem}: {ending.trouble(log_path, self._lines(job))}") from None
        finally:
            if process:
                guest.kill_session(process)
        ending.check(process.returncode, work_dir, log_path, tmpfs, self._lines(job))

    def _lines(self, job: Job) -> source_lines.Lines:
        """What knows the lines of source of the modules in a run."""
        return source_lines.Lines(self._debug_files(job))

    def _debug_files(self, job: Job) -> dict[str, pathlib.Path]:
        """{module of a congestion control in a run: the file with its lines and types}"""
        modules = [module for variant in job.variants
                   if variant.module_sha256 and (module := self.find_module(variant.module_sha256))]
        return {part.name: compiling.debug_file(part.file) for module in modules for part in module.parts}

    def session_dir(self) -> str:
        return _tmpfs(memory.LEAST_MB)

    def converse(self, work_dir: pathlib.Path, log_path: pathlib.Path, reading: str) -> None:
        tmpfs = _tmpfs(memory.LEAST_MB)
        command = self._command(work_dir, tmpfs, memory.LEAST_MB, virtual_time=False, options=["con1=fd:0,fd:1"],
                                large_pages=False)      # each would take milliseconds of the guest's time
        started: list[subprocess.Popen[bytes]] = []

        def start(fd: int, out: int) -> subprocess.Popen[bytes]:
            with open(log_path, "wb") as log:
                started.append(subprocess.Popen(command, cwd=work_dir, env=guest.environment(tmpfs), stdin=fd,
                                                stdout=out, stderr=log, start_new_session=True))
            return started[0]
        try:
            # a guest does not always hear of it when a full terminal takes more, but of pipes it does
            terminal.connect(start, READY, reading, size_file=work_dir / init.SIZE)
        finally:
            for process in started:
                guest.kill_session(process)
        ending.check(started[0].returncode, work_dir, log_path, tmpfs)

    def _command(self, work_dir: pathlib.Path, tmpfs: str, memory_mb: int, *, options: Sequence[str] = (),
                 large_pages: bool = True, cpu: int | None = None, virtual_time: bool = True) -> list[str]:
        # the table of sessions, where nodes have none of their own (testbed/guest/tuning.py): tens of thousands in
        # TIME_WAIT want a larger one than this little memory gets, but every dump walks it
        words = ["thash_entries=16384", *options]
        if "seccomp" in self._kernel.features:
            # 13 to 27 % less CPU time per packet where kernel and host can, the same bytes (docs/howto/kernels.md)
            words.append("seccomp=auto")
        code = self._code or code_bundle.ensure()
        if (code / c_libraries.PRELOAD).exists():
            words.append(f"LD_PRELOAD={guest.FOLDER}/{c_libraries.PRELOAD}")     # part of the environment of process 1
        if not (large_pages and memory.large_pages()):
            words.append("large_pages=no")                  # kernel/patches/speed/0016
        return guest.command(self._kernel.program, code, [_INIT], work_dir, tmpfs,
                             memory_mb=memory_mb, confine=self._confine, options=words, cpu=cpu,
                             virtual_time=virtual_time)


def _tmpfs(memory_mb: int) -> str:
    """Where a guest's memory lies. EnvironmentProblem if there is no room for so much."""
    if memory_mb > memory.LEAST_MB and (there_mb := environment.available_memory_mb()) < memory_mb:
        raise EnvironmentProblem(f"the guest may need {memory_mb} MB of memory: this machine has {there_mb} MB left")
    try:
        return guest.memory_dir(memory_mb)
    except kernel.KernelError as problem:
        raise EnvironmentProblem(str(problem)) from None
