# SPDX-License-Identifier: GPL-2.0-only
"""What all engines with a real kernel share: orders for the guest, and raw tables from what it left.

An engine says only how a kernel gets to carry out work_dir/job.json (`boot`); the guest, the probes and the
programs are the same everywhere.
"""
from __future__ import annotations

import abc
import hashlib
import json
import pathlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence

import traffic
from testbed import PROJECT_DIR, probes
from testbed.core import raw_tables, terminal
from testbed.core.errors import UsageError
from testbed.core.files import write_json
from testbed.core.raw_files import write_table
from testbed.core.record import Record
from testbed.engines._features import LinuxEngine
from testbed.guest import departures
from testbed.guest.tuning import Hosts
from testbed.probes._context import Context
from testbed.runs import code_bundle, job_ccas
from testbed.runs.engine import OnProgress, traffic_context, write_workload
from testbed.runs.plan import Plan
from testbed.scenario.scenario import Resolved
from topologies import queues
from topologies.links.records import Network
from traffic.workload.records import Variant, Workload

#: {probe: its options}
Probes = Mapping[str, Mapping[str, object]]
#: guest files that go to raw/ as they are
_PLAIN = ("network.json", "checks.json", "late.json", "counters.json", "snmp.json")
#: what the guest says of its progress, before it gives it the name progress.json
PROGRESS_PART = "progress.json.part"


class KernelEngine(LinuxEngine):
    """An engine whose runs take place in a Linux kernel."""

    #: how late timers may fire, for the depth of token buckets (0 where they are exact)
    timer_period_us = 4000
    #: whether CPUs have to be kept from idling (testbed/core/no_idle.py)
    never_idle = False
    #: probes that all its runs have, whatever the scenario says: {name: settings}
    OWN_PROBES: Probes = {}
    #: probes whose instruments the checks before a run use, too (testbed/guest/departures.py)
    CHECKS_USE = ("sojourn",)
    #: files outside of the guest that decide what its runs are told
    DECISIVE: tuple[str, ...] = ("testbed/engines/_kernel_engine.py", "testbed/runs/job_ccas.py",
                                 "testbed/scenario/ccas.py", "kernel/launch.py")

    def code_sha256(self) -> str:
        outside = [hashlib.sha256((PROJECT_DIR / name).read_bytes()).hexdigest() for name in self.DECISIVE]
        return hashlib.sha256("\n".join([code_bundle.digest(), *outside]).encode()).hexdigest()

    @abc.abstractmethod
    def boot(self, work_dir: pathlib.Path, log_path: pathlib.Path, cpu: int, on_progress: OnProgress) -> None:
        """Let a kernel carry out work_dir/job.json; leaves the guest's files in work_dir, its log in log_path."""

    def probe_modules(self, names: Sequence[str]) -> list[pathlib.Path]:
        """Files of kernel modules that make these probes cheaper. They may move instants by less than 1 us."""
        return []

    def radio_modules(self, network: Network) -> dict[str, pathlib.Path]:
        """{name: file} of the kernel modules that make the radios of a network. UsageError if there cannot be any."""
        if network.cells:
            raise UsageError(f"engine {self.name} has no radios: its kernel runs in real time, or is not ours")
        return {}

    def _radios(self, network: Network, work_dir: pathlib.Path) -> dict[str, object]:
        """What the guest is told of them, where there are any."""
        found = {name: job_ccas.put_module(file, work_dir) for name, file in self.radio_modules(network).items()}
        return {"air_modules": found} if found else {}

    def run(self, plan: Plan, workload_dir: pathlib.Path, folder: pathlib.Path, cpu: int,
            on_progress: OnProgress) -> None:
        workload = Workload(json.loads((workload_dir / "workload.json").read_text(encoding="utf-8")), "workload.json")
        network = plan.scenario.network
        asked = {name: settings or {} for name, settings in plan.scenario.probes.items()}
        wanted: Probes = {**_of_queues(network), **asked, **self.OWN_PROBES}
        write_json(workload_dir / "job.json", {
            "network": network, "probes": wanted, "programs": workload.programs,
            "seed": plan.seed, "duration_us": plan.timing.duration_us,
            "measure_from_us": plan.timing.measure_from_us,
            "timer_period_us": self.timer_period_us, "never_idle": self.never_idle,
            "probe_modules": [job_ccas.put_module(file, workload_dir)
                              for file in self.probe_modules([*wanted, *self.CHECKS_USE])],
            **self._radios(network, workload_dir),
            **job_ccas.job_parts(self, plan.variants, network, Hosts(plan.scenario.hosts), workload,
                                 workload_dir).content()})
        on_progress("start", 0)
        self.boot(workload_dir, folder / "log.txt", cpu, on_progress)
        on_progress("collect", 0)
        raw_dir = folder / "raw"
        raw_dir.mkdir()
        _collect(plan, wanted, workload, workload_dir, raw_dir, self.guest_dir(workload_dir))

    def no_shell(self) -> str | None:
        return None

    def shell(self, scenario: Resolved, variants: Sequence[Variant], session: Mapping[str, object]) -> bool:
        network, hosts = scenario.network, Hosts(scenario.hosts)
        if reason := self.lacks(network, hosts.ecn):
            raise UsageError(reason)
        nothing = Workload({"flows": [], "components": []})
        with terminal.session_folder(self.session_dir(), "testbed-shell-") as work_dir:
            write_json(work_dir / "job.json", {
                "network": network, "session": session, "timer_period_us": self.session_timer_period_us,
                **self._radios(network, work_dir),
                **job_ccas.job_parts(self, variants, network, hosts, nothing, work_dir).content()})
            try:
                self.converse(work_dir, work_dir / "log.txt", terminal.reading(session))
            except terminal.Ended:
                return True
            status = read_status(work_dir)
            return status is not None and not status.failed

    @property
    def session_timer_period_us(self) -> int:
        """timer_period_us in real time."""
        return KernelEngine.timer_period_us

    def session_dir(self) -> str:
        """Where a session's work folder is made: where writing its log does not wait for a disk, and never fails."""
        return tempfile.gettempdir()

    @abc.abstractmethod
    def converse(self, work_dir: pathlib.Path, log_path: pathlib.Path, reading: str) -> None:
        """Let a kernel carry out the session of work_dir/job.json, connected with our standard files.

        reading: as testbed/core/terminal.py takes it. RunFailed unless it left a status that all went well.
        """


class Progress(Record):
    """What the guest does, and the time of the experiment."""
    phase: str
    t_us: int


class Status(Record):
    """The guest's last word: whether all went well, or what did not; of a session also whether a command named no
    node."""
    ok: bool
    error: str
    failed: bool


def read_progress(work_dir: pathlib.Path) -> Progress | None:
    """What the guest last said, None before its first word."""
    said = _read(work_dir / "progress.json")
    return None if said is None else Progress(said, "progress.json")


def read_status(work_dir: pathlib.Path) -> Status | None:
    """The guest's last word, None if it had none."""
    status = _read(work_dir / "status.json")
    return Status(status, "status.json") if status and "ok" in status else None


def _read(path: pathlib.Path) -> dict[str, object] | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _collect(plan: Plan, wanted: Probes, workload: Workload, work_dir: pathlib.Path,
             raw_dir: pathlib.Path, guest_dir: str) -> None:
    """Turn what the guest left into the raw files of docs/reference/run-folder.md."""
    for name in _PLAIN:
        shutil.copyfile(work_dir / name, raw_dir / name)
    departures.complete(work_dir, raw_dir / "checks.json", plan.scenario.network)
    write_workload(workload, raw_dir)
    guest = json.loads((work_dir / "guest.json").read_text(encoding="utf-8"))
    for name, settings in wanted.items():
        probe = probes.load(name)
        probe.collect(work_dir, raw_dir, Context(probe.Options(**settings), plan.scenario.network, workload.flows,
                                                 guest["t0_ns"], plan.timing))
    for name in ("link_changes", "opportunities"):
        _write_rows(name, work_dir, raw_dir, guest["t0_ns"])
    guest["traffic"] = traffic.collect(workload, traffic_context(plan, work_dir, guest_dir), raw_dir)
    del guest["t0_ns"]
    write_json(raw_dir / "guest.json", guest)


def _of_queues(network: Network) -> Probes:
    """Probes that a run has because of its queues."""
    return {"ce_marks": {}} if any(queues.traits(link).marks for link in network.links) else {}


def _write_rows(name: str, work_dir: pathlib.Path, raw_dir: pathlib.Path, t0_ns: int) -> None:
    """A table of rows in its order that begin with the clock's reading in ns; none if there are none."""
    import pandas as pd
    rows = json.loads((work_dir / f"{name}.json").read_text(encoding="utf-8"))
    if rows:
        table = pd.DataFrame(rows, columns=raw_tables.TABLES[name].names())
        table["t_us"] = (table["t_us"] - t0_ns) // 1000
        write_table(table, raw_dir, name)
