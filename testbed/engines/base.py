# SPDX-License-Identifier: GPL-2.0-only
"""What every engine offers."""
import abc
import dataclasses


@dataclasses.dataclass(frozen=True)
class Problem:
    """Something that keeps an engine from working here, and what would fix it."""
    message: str
    fix: str


class EngineBase(abc.ABC):
    """Runs jobs. One instance serves all runs of an experiment; `options` come from the CLI."""

    #: "virtual": time advances only with events; "real": it does not wait for anybody
    clock = "real"
    #: how late timers may fire, for the depth of token buckets (0 where they are exact)
    timer_period_us = 4000

    def __init__(self, options):
        self.options = options

    @abc.abstractmethod
    def problems(self):
        """List of `Problem`s; empty if runs can be started."""

    @abc.abstractmethod
    def prepare(self, report):
        """Get ready once per experiment (build or find a kernel); `report(text)` shows progress."""

    @abc.abstractmethod
    def find(self):
        """True if it is ready without preparing anything (its kernel is there); then congestion_controls,
        parameters and find_module may be asked."""

    @abc.abstractmethod
    def parameters(self, kernel_cca):
        """{parameter: description} of one of its kernel's own congestion controls."""

    @abc.abstractmethod
    def environment(self):
        """What the run took place in, as a JSON-able dict: kernel release, configuration hash ..."""

    @abc.abstractmethod
    def congestion_controls(self):
        """Names of the congestion controls its kernel has."""

    @abc.abstractmethod
    def build_module(self, source, report):
        """Build the out-of-tree module of `source` (a .c file or a folder) for its kernel and load it on
        trial -> object with name, file, sha256 (of the sources), congestion_controls, warnings.
        Raises kernel.ModuleError."""

    @abc.abstractmethod
    def find_module(self, sha256):
        """The module built before from sources with this hash, or None."""

    @abc.abstractmethod
    def guest_dir(self, work_dir):
        """`work_dir` as programs inside see it."""

    @abc.abstractmethod
    def run(self, work_dir, log_path, cpu, on_progress):
        """Carry out work_dir/job.json; leaves the guest's files in work_dir and its log in log_path.

        on_progress(phase, t_us) is called now and then. Raises RunFailed with one clear
        message; leaves no process behind, however it ends.
        """
