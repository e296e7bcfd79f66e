# SPDX-License-Identifier: GPL-2.0-only
"""What every engine offers.

An engine answers one question: in which kernel (or simulator) does a run take place, and on
which clock? It turns a plan into raw tables (testbed/core/raw_tables.py) in a folder.
"""
from __future__ import annotations

import abc
import dataclasses
import hashlib
import pathlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import traffic
from testbed import PROJECT_DIR
from testbed.core import derived
from testbed.core.errors import RunFailed, UsageError
from testbed.core.fields import FieldError
from testbed.core.files import write_json
from testbed.runs.plan import Plan
from testbed.scenario.ccas import Module
from testbed.scenario.scenario import Resolved
from topologies.links.records import Network
from traffic.workload.records import Variant, Workload

#: called with (phase, experiment time in us) while a run goes on
OnProgress = Callable[[str, int], None]
Report = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Problem:
    """Something that keeps an engine from working here, and what would fix it."""
    message: str
    fix: str


@dataclasses.dataclass(frozen=True)
class Capabilities:
    """What an engine can do; recorded with every run, so that checks know what they may ask for.

    clock: "virtual" (time advances only with events), "real" (it waits for nobody) or "simulated";
    parallel: runs may go on side by side without disturbing each other; kernel: a Linux kernel, whose runs leave
    all files of testbed/core/raw_tables.py (others leave what they can); modules: it loads modules; probes: those it
    has, None for all.
    """
    clock: str
    parallel: bool = True
    kernel: bool = True
    modules: bool = True
    probes: tuple[str, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of the command line that an engine declares. It is read without importing the engine: constants only.

    name: its key in the engine's `options`. value: what stands for the value in --help; '' of an option without one,
    which is then False if it begins with --no-, else True. repeats: it may be given several times. recorded: the field
    of environment.json from which a repetition takes it.
    """
    name: str
    flag: str
    help: str
    value: str = ""
    repeats: bool = False
    recorded: str = ""

    def words(self, given: object) -> list[str]:
        """The option as it is typed."""
        if not self.value:
            return [self.flag]
        values = sorted(set(map(str, cast(Iterable[object], given)))) if self.repeats else [str(given)]
        return [word for one in values for word in (self.flag, one)]


class EngineBase(abc.ABC):
    """Carries out plans. One instance serves all runs of a command; `options` come from the CLI."""

    #: as it is named on the command line: the file's or folder's name
    name = ""
    #: its options of the command line, `Option("gpu", "--gpu", "help")`
    OPTIONS: tuple[Option, ...] = ()
    #: whether its networks may have radios
    RADIOS = False
    #: whether hosts may have jitter
    JITTER = True
    capabilities = Capabilities(clock="real", parallel=False)

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options

    @staticmethod
    def parsed(option: str, text: str) -> object:
        """What the text after one of its options means. ValueError with what would be right."""
        return text

    def require(self, kernel_options: Sequence[str]) -> None:
        """Have a kernel with these options (names of kernel.option_names()), besides those that were asked for.

        Called before anything else, for each scenario. FieldError of kernel.options if that cannot be.
        """
        if kernel_options:
            raise FieldError("kernel.options", f"engine {self.name} has no kernel that could have "
                                               f"{', '.join(kernel_options)}")

    @abc.abstractmethod
    def problems(self) -> list[Problem]:
        """What keeps it from working here; empty if runs can be started."""

    @abc.abstractmethod
    def prepare(self, report: Report) -> None:
        """Get ready once per command (build or find a kernel); `report(text)` shows progress."""

    @abc.abstractmethod
    def find(self) -> bool:
        """True if it is ready without preparing anything; then everything below may be asked."""

    @abc.abstractmethod
    def kernel_key(self) -> str:
        """What identifies the kernel or simulator to the bit, as a part of every plan."""

    @abc.abstractmethod
    def environment(self) -> dict[str, object]:
        """What runs take place in, JSON-able: versions, hashes; of a kernel its kernel_release and kernel_spec."""

    def kernel_release(self) -> str:
        """Such as 6.12.1-testbed; '' where there is no Linux kernel."""
        return ""

    def trace_events(self) -> frozenset[str] | None:
        """Names of the trace points that its kernel has without modules; None where only a run finds out."""
        return None

    def state(self) -> str:
        """How ready it is where it has no problems, in words for the user."""
        return "ready"

    def code_sha256(self) -> str:
        """Hash of all code of ours that decides what a run leaves, as a part of every plan.

        By default the engine's own file or folder (what is no Python, too), all that it imports, and what
        makes networks and traffic.
        """
        own = pathlib.Path(str(sys.modules[type(self).__module__].__file__))
        files = [own] if own.name != "__init__.py" else sorted(
            path for path in own.parent.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        python = [path for path in files if path.suffix == ".py"]
        parts = [derived.code_sha256([*python, *(folder for name in ("topologies", "traffic")
                                                 for folder in _packages(PROJECT_DIR / name))])]
        parts += [f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}"
                  for path in files if path not in python]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def radio_sources(self) -> dict[str, str]:
        """{module: hash of its sources} of what makes radios; empty where there are none."""
        return {}

    def code_for(self, network: Network) -> str:
        """As code_sha256, and what makes the radios of a network: runs without any do not depend on it."""
        if not network.cells:
            return self.code_sha256()
        parts = [self.code_sha256(), *(f"{name} {digest}" for name, digest in sorted(self.radio_sources().items()))]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @abc.abstractmethod
    def congestion_controls(self) -> Sequence[str]:
        """Names of the CCAs it has."""

    def known_ccas(self) -> Sequence[str] | None:
        """Names of the CCAs that it will have when it is ready; None if only a kernel that is not built yet knows."""
        return None

    def refusal(self, variant: Variant) -> str:
        """Why it cannot run a variant though it has its CCA; '' if it can.

        What has no kernel sets neither sysctls nor parameters of modules nor socket options, unless it says here that
        it does.
        """
        settings = [] if self.capabilities.kernel else [
            *variant.sysctls, *variant.parameters, *(option.name for option in variant.socket_options)]
        return f"engine {self.name} cannot set {', '.join(settings)}" if settings else ""

    def cannot(self, plan: Plan) -> FieldError | None:
        """What of a plan's scenario it has nothing for, an error of the field that says so; None if it can do it."""
        return None

    def parameters(self, kernel_cca: str) -> dict[str, str]:
        """{parameter: description} of one of its own CCAs."""
        return {}

    def build_module(self, source: str, report: Report) -> Module:
        """Build the out-of-tree module of `source` (a .c file or a folder) and load it on trial.

        Raises kernel.ModuleError or RunFailed.
        """
        raise RunFailed(f"{source}: engine {self.name} loads no modules")

    def find_module(self, sha256: str) -> Module | None:
        """The module built before from sources with this hash, or None."""
        return None

    def clean_up(self, pid: int) -> None:
        """Remove what process `pid`, killed while it carried out a run, left outside of the results folder."""

    def leftovers(self) -> str:
        """What runs that were killed have left outside of the results folder, in words; '' if nothing."""
        return ""

    def repair(self) -> None:
        """Put that back. Raises RunFailed or EnvironmentProblem with what cannot be."""

    def memory_mb(self, plan: Plan, workload_dir: pathlib.Path | None) -> int:
        """Memory in MB of the guest that a run has; 0 where there is none.

        workload_dir: as traffic.prepare made it; None for what is known without: no more than that.
        """
        return 0

    def guest_dir(self, work_dir: pathlib.Path) -> str:
        """`work_dir` as programs inside see it."""
        return str(work_dir)

    @abc.abstractmethod
    def run(self, plan: Plan, workload_dir: pathlib.Path, folder: pathlib.Path, cpu: int,
            on_progress: OnProgress) -> None:
        """Carry out `plan`; leaves raw tables in folder/raw and what it said in folder/log.txt.

        workload_dir: what traffic.prepare made, workload.json and the files it speaks of. on_progress(phase, t_us)
        is called now and then. Raises RunFailed with one clear message; leaves no process behind, however it ends.
        """

    def debug(self, stop: object) -> None:
        """Let gdb have its next run, the only one at that time. stop: a kernel.Stop. UsageError if it cannot."""
        raise UsageError(f"--gdb, --function-trace: engine {self.name} has no kernel in a process of its own; the "
                         "default engine has")

    def shell(self, scenario: Resolved, variants: Sequence[Variant], session: Mapping[str, object]) \
            -> bool:
        """Open Mininet's command line on a scenario's network, in real time; True if all that was asked for was there.

        variants: the first is what hosts use; session: as
        testbed/guest/shell.py takes it. Leaves nothing behind, however it ends. UsageError if it has none.
        """
        raise UsageError(self.no_shell())

    def no_shell(self) -> str | None:
        """Why shell() is not there, in one line; None where it is."""
        return f"engine {self.name} has no shell" + ("" if self.capabilities.kernel else ": it has no kernel")


def traffic_context(plan: Plan, work_dir: pathlib.Path, guest_dir: str, shared_dir: pathlib.Path | None = None,
                    report: Report = print) -> traffic.Context:
    """What kinds of traffic know of a run."""
    return traffic.Context(work_dir=work_dir, guest_dir=guest_dir, network=plan.scenario.network,
                           seed=plan.seed, timing=plan.timing, shared_dir=shared_dir, report=report)


def write_workload(workload: Workload, raw_dir: pathlib.Path) -> None:
    """raw/workload.json: the workload without the programs of it."""
    kept = {key: value for key, value in workload.content().items() if key != "programs"}
    write_json(raw_dir / "workload.json", kept)


def _packages(folder: pathlib.Path) -> list[pathlib.Path]:
    """A package and those in it."""
    return sorted({path.parent for path in folder.rglob("*.py")})
