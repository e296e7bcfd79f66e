# SPDX-License-Identifier: GPL-2.0-only
"""What every engine offers.

An engine answers one question: in which kernel (or simulator) does a run take place, and on
which clock? It turns a plan into raw tables (testbed/raw_tables.py) in a folder.
"""
from __future__ import annotations

import abc
import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from testbed.plan import Plan

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
    parallel: runs may go on side by side without disturbing each other; kernel: a Linux kernel, with settings to
    read back and packets to count; modules: it loads modules; probes: those it has, None for all.
    """
    clock: str
    parallel: bool = True
    kernel: bool = True
    modules: bool = True
    probes: tuple[str, ...] | None = None


class EngineBase(abc.ABC):
    """Carries out plans. One instance serves all runs of a command; `options` come from the CLI."""

    #: as it is named on the command line: the file's or folder's name
    name = ""
    capabilities = Capabilities(clock="real", parallel=False)

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options

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
    def environment(self) -> dict[str, Any]:
        """What runs take place in, JSON-able: kernel_release, kernel_spec, configuration hash ..."""

    @abc.abstractmethod
    def congestion_controls(self) -> Sequence[str]:
        """Names of the CCAs it has."""

    def parameters(self, kernel_cca: str) -> dict[str, str]:
        """{parameter: description} of one of its own CCAs."""
        return {}

    def build_module(self, source: str, report: Report) -> Any:
        """Build the out-of-tree module of `source` (a .c file or a folder) and load it on trial -> object with
        name, file, sha256 (of the sources), congestion_controls, warnings. Raises kernel.ModuleError."""
        from kernel import ModuleError
        raise ModuleError(f"{source}: engine {self.name} loads no modules")

    def find_module(self, sha256: str) -> Any:
        """The module built before from sources with this hash, or None."""
        return None

    def clean_up(self, pid: int) -> None:
        """Remove what process `pid`, killed while it carried out a run, left outside of the results folder."""

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
