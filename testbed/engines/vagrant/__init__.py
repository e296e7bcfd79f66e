# SPDX-License-Identifier: GPL-2.0-only
"""Engine `host` in the virtual machine of Vagrantfile, driven over ssh.

The first command creates the machine (`vagrant up`); every command brings the project's present code into it. A run's
plan and workload go in, its raw tables come out; sealing, verdict and report are made here as for all engines.
"""
from __future__ import annotations

import functools
import hashlib
import pathlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence

from testbed import PROJECT_DIR, engines
from testbed.core.errors import EnvironmentProblem, RunFailed
from testbed.core.record import Record, Within
from testbed.engines._features import LinuxEngine
from testbed.engines.vagrant.inside import RUN
from testbed.engines.vagrant.machine import INSIDE, Machine
from testbed.runs.engine import Capabilities, EngineBase, OnProgress, Problem, Report
from testbed.runs.plan import Plan
from testbed.scenario import ccas

_HERE = pathlib.Path(__file__).parent


class Facts(Record):
    """What the machine says of itself; with problems only these and the code."""
    problems: Sequence[str]
    #: hash of the code that is there
    code: str
    kernel_key: str
    kernel_release: str = ""
    environment: Mapping[str, object]
    congestion_controls: Sequence[str]
    machine: Mapping[str, object]
    #: of a run in the folder RUN
    guest_dir: str


class Module(Record):
    """A module that was built inside; file: None, it is there; part_names: {what it registers: module as in lsmod}."""
    sha256: str
    warnings: str
    congestion_controls: Sequence[str]
    renamed: Mapping[str, str]
    part_names: Mapping[str, str]
    file: None

    def part_name(self, congestion_control: str) -> str:
        return self.part_names[congestion_control]

    def loaded_for(self, congestion_control: str) -> Sequence[ccas.Part]:
        """None from here: the machine has its own."""
        return []


class Answer(Record):
    """Of the request to build."""
    module = Within(Module)


class Engine(LinuxEngine):
    """What it says of kernel and CCAs it has asked the machine for, once per command."""
    capabilities = Capabilities(clock="real", parallel=False)

    def __init__(self, options: dict[str, object]) -> None:
        super().__init__(options)
        self._machine = Machine()
        self._facts: Facts | None = None
        self._kernel_options: list[str] = []

    def require(self, kernel_options: Sequence[str]) -> None:
        self._kernel_options = sorted({*self._kernel_options, *kernel_options})

    def problems(self) -> list[Problem]:
        return self._machine.problems()

    def prepare(self, report: Report) -> None:
        self._machine.bring_up(report)
        report("bringing the project into the virtual machine (vagrant rsync)")
        self._machine.synchronise()
        facts = self._describe()
        if facts.problems:
            raise EnvironmentProblem("in the virtual machine: " + "; ".join(facts.problems))
        if facts.code != self._inner.code_sha256():
            raise EnvironmentProblem(f"the project in the virtual machine is not this one: does {PROJECT_DIR} reach "
                                     f"{INSIDE} there? (vagrant rsync)")

    def find(self) -> bool:
        if self._facts is None and self._machine.running():
            self._describe()
        return self._facts is not None

    def _describe(self) -> Facts:
        self._facts = Facts(self._machine.ask({"do": "describe", "kernel_options": self._kernel_options}))
        return self._facts

    @property
    def _known(self) -> Facts:
        """What the machine has said."""
        assert self._facts is not None          # see `find` and `prepare`
        return self._facts

    @functools.cached_property
    def _inner(self) -> EngineBase:
        """The engine that runs inside, here only for what it knows of its code."""
        return engines.load("host")

    def state(self) -> str:
        if not self._machine.created():
            return "the first run creates the virtual machine (minutes)"
        return "the virtual machine is there" + ("" if self._machine.running() else ", halted; the next run starts it")

    def kernel_key(self) -> str:
        return self._known.kernel_key

    def kernel_release(self) -> str:
        return self._facts.kernel_release if self._facts else ""

    def environment(self) -> dict[str, object]:
        return {**self._known.environment, "virtual_machine": self._known.machine}

    def code_sha256(self) -> str:
        own = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(_HERE.glob("*.py"))]
        return hashlib.sha256("\n".join([self._inner.code_sha256(), *own]).encode()).hexdigest()

    def congestion_controls(self) -> Sequence[str]:
        return list(self._known.congestion_controls)

    def build_module(self, source: str, report: Report) -> Module:
        path = pathlib.Path(source).resolve()
        if path.is_relative_to(PROJECT_DIR):                # is inside already
            answer = self._machine.ask({"do": "build", "source": f"{INSIDE}/{path.relative_to(PROJECT_DIR)}"},
                                       on_report=report)
        else:
            with tempfile.TemporaryDirectory(prefix="testbed-source-") as name:
                (pathlib.Path(name) / path.name).symlink_to(path)
                answer = self._machine.ask({"do": "build", "source": f"sent/{path.name}"}, send=pathlib.Path(name),
                                           on_report=report)
        return Answer(answer).module

    def guest_dir(self, work_dir: pathlib.Path) -> str:
        return self._known.guest_dir.replace(RUN, self._place(work_dir))

    @staticmethod
    def _place(work_dir: pathlib.Path) -> str:
        """The name of a run's folder inside, which no other run of any command has."""
        return hashlib.sha256(str(work_dir.absolute()).encode()).hexdigest()[:16]

    def run(self, plan: Plan, workload_dir: pathlib.Path, folder: pathlib.Path, cpu: int,
            on_progress: OnProgress) -> None:
        on_progress("send", 0)
        received = folder / "received"
        with tempfile.TemporaryDirectory(prefix="testbed-vagrant-") as name:
            sent = pathlib.Path(name)
            (sent / "work").symlink_to(workload_dir.absolute())
            plan.write(sent)
            try:
                self._machine.ask({"do": "run", "place": self._place(workload_dir)}, send=sent, receive=received,
                                  on_progress=on_progress)
                if not (received / "raw").is_dir():
                    raise RunFailed("the virtual machine sent no raw data")
            finally:
                for part in ("log.txt", "raw"):
                    if (received / part).exists():
                        shutil.move(received / part, folder / part)
                shutil.rmtree(received, ignore_errors=True)
