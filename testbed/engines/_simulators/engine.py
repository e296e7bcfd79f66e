# SPDX-License-Identifier: GPL-2.0-only
"""`SimulatorEngine`: an engine whose runs a driver of simulation/ carries out.

An engine says what is missing, which driver there is, what it is told, and which settings and modules of a kernel
it has something for. The rest is the same: what the driver leaves becomes the raw files of
docs/reference/run-folder.md.
"""
from __future__ import annotations

import abc
import hashlib
import json
import pathlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import traffic
from testbed import PROJECT_DIR
from testbed.core import fields
from testbed.core.errors import RunFailed
from testbed.core.fields import FieldError
from testbed.core.files import write_json
from testbed.core.record import ListOf, Record
from testbed.engines._simulators import changing, idle, process, refusals, tables, workload
from testbed.guest.job import Job
from testbed.guest.tuning import Hosts
from testbed.runs import job_ccas
from testbed.runs.engine import EngineBase, OnProgress, Report, traffic_context, write_workload
from testbed.runs.plan import Plan
from topologies.links import impairments, varying
from traffic.workload.records import Variant, Workload

_TABLES = ("queue", "edge_queue", "sojourn", "tcp_info", "tcp_probe", "retransmissions", "link_changes",
           "opportunities")


class Module(NamedTuple):
    """What a simulator has in place of a module of the kernel."""
    name: str
    file: pathlib.Path
    sha256: str
    congestion_controls: tuple[str, ...]
    warnings: str = ""
    renamed: Mapping[str, str] = {}

    def part_name(self, congestion_control: str) -> str:
        return self.name

    def loaded_for(self, congestion_control: str) -> Sequence[Module]:
        return [self]


class _MeasuredPath(Record):
    """An echo of the idle network; less than 0: no answer."""
    measured_rtt_ns: int


class _Checks(Record):
    """checks.json of a driver."""
    paths = ListOf(_MeasuredPath)
    bottlenecks = ListOf(idle.Saturated)


class _Flows(Record):
    """flows.json of a driver: what it counted of flows."""
    datagrams: Sequence[Mapping[str, object]]
    bulk: Sequence[Mapping[str, object]]


class SimulatorEngine(EngineBase):
    """Orders to a driver, and raw files from what it left."""

    JITTER = False
    #: of a scenario's section `hosts`, what can be set
    HOSTS: ClassVar[tuple[str, ...]] = ("ecn", "sack", "slow_start_after_idle", "initcwnd", "sysctls")
    #: of links, what it has nothing for: {key of their section: how a user calls it}
    NO_LINKS: ClassVar[Mapping[str, str]] = {name: fields.plain(name) for name in impairments.NAMES}
    #: kinds of queues, and those whose limit can change during a run
    QUEUES: ClassVar[tuple[str, ...]]
    LIMITS: ClassVar[tuple[str, ...]] = ("pfifo", "bfifo")
    #: what of a link can change during a run
    CHANGES: ClassVar[tuple[str, ...]] = varying.QUANTITIES
    #: sysctls that can be honoured, with the values that are possible (None: all); others cannot be set
    SYSCTLS: ClassVar[Mapping[str, Collection[int] | None]]
    #: modules that come with the testbed of which it has the like: {folder: files that decide what that is}
    MODULES: ClassVar[Mapping[str, Sequence[pathlib.Path]]] = {}

    def known_ccas(self) -> Sequence[str] | None:
        return self.congestion_controls()

    @abc.abstractmethod
    def command(self) -> list[str]:
        """What carries out the orders in the file that is named after it."""

    @abc.abstractmethod
    def order_text(self, plan: Plan, work: workload.Work, parts: Job) -> str:
        """The orders of a run. parts: what testbed.runs.job_ccas.job_parts says of kernel settings and parameters."""

    def cannot(self, plan: Plan) -> FieldError | None:
        return next(self._refusals(plan), None)

    def _refusals(self, plan: Plan) -> Iterator[FieldError]:
        """All of a plan's scenario that it has nothing for."""
        scenario, network = plan.scenario, plan.scenario.network
        if network.cells:
            yield FieldError("topology", f"engine {self.name} has no radios")
        if network.ip_version != 4:
            yield FieldError("topology.ip", f"engine {self.name} has no IPv6")
        yield from refusals.of_traffic(scenario.traffic, self.name)
        yield from refusals.of_hosts(scenario.hosts, self.HOSTS, self.name)
        ecn = self.SYSCTLS["net.ipv4.tcp_ecn"]
        if "ecn" in self.HOSTS and ecn is not None and scenario.hosts["ecn"] not in ecn:
            yield FieldError("hosts.ecn", f"engine {self.name} has no {scenario.hosts['ecn']}; one of "
                                          f"{', '.join(map(str, ecn))} expected")
        sysctls = scenario.hosts["sysctls"]
        assert isinstance(sysctls, dict)
        for name, value in sysctls.items():
            if self._not_possible({name: value}):
                yield FieldError(f"hosts.sysctls.{name}", self._cannot_set([f"{value}"]))
        yield from refusals.of_links(scenario.topology, network, self.NO_LINKS, self.QUEUES,
                                     self.CHANGES, self.LIMITS, self.name)

    def refusal(self, variant: Variant) -> str:
        wrong = self._not_possible(variant.sysctls)
        return self._cannot_set([*wrong, *(option.name for option in variant.socket_options)]) \
            if wrong or variant.socket_options else ""

    def _cannot_set(self, wrong: Sequence[str]) -> str:
        return f"engine {self.name} cannot set {', '.join(wrong)}"

    def _not_possible(self, sysctls: Mapping[str, object]) -> list[str]:
        """Those sysctls whose values cannot be had, as name=value."""
        return [f"{name}={value}" for name, value in sysctls.items() if not self._possible(name, str(value))]

    def _possible(self, sysctl: str, value: str) -> bool:
        values = self.SYSCTLS.get(sysctl, ())
        return values is None or value.lstrip("-").isdigit() and int(value) in values

    def build_module(self, source: str, report: Report) -> Module:
        """Of some modules that come with the testbed there is something of the kind here."""
        for folder in self.MODULES:
            if pathlib.Path(source).resolve() == PROJECT_DIR / "kernel-modules" / folder:
                return self._module(folder)
        has = ", ".join(folder.removeprefix("tcp_") for folder in self.MODULES)
        raise RunFailed(f"{source}: engine {self.name} loads no modules; of those that come with the testbed it has "
                        f"{has or 'none'}")

    def find_module(self, sha256: str) -> Module | None:
        return next((module for module in map(self._module, self.MODULES) if module.sha256 == sha256), None)

    def _module(self, folder: str) -> Module:
        digest = hashlib.sha256(folder.encode())
        for path in self.MODULES[folder]:
            digest.update(path.read_bytes())
        return Module(folder, self.MODULES[folder][0], digest.hexdigest(), (folder.removeprefix("tcp_"),))

    def run(self, plan: Plan, workload_dir: pathlib.Path, folder: pathlib.Path, cpu: int,
            on_progress: OnProgress) -> None:
        network, hosts = plan.scenario.network, Hosts(plan.scenario.hosts)
        if problem := self.cannot(plan):
            raise RunFailed(f"{problem.field}: {problem}")
        for variant in plan.variants:
            if reason := self.refusal(variant):
                raise RunFailed(f"{variant.name}: {reason}")
        text = (workload_dir / "workload.json").read_text(encoding="utf-8")
        prepared = Workload(json.loads(text), "workload.json")
        work = workload.read(prepared, self.name)
        workload.write_instants(work, workload_dir)
        changing.write_opportunities(network, plan.timing.duration_us, workload_dir)
        parts = job_ccas.job_parts(self, plan.variants, network, hosts, prepared, workload_dir)
        (workload_dir / "orders.txt").write_text(self.order_text(plan, work, parts), encoding="utf-8")
        process.run(f"the {self.name} driver", [*self.command(), "orders.txt"], workload_dir, folder / "log.txt",
                    on_progress)
        on_progress("collect", 0)
        raw_dir = folder / "raw"
        raw_dir.mkdir()
        self.collect(plan, prepared, work, workload_dir, raw_dir)

    def collect(self, plan: Plan, prepared: Workload, work: workload.Work, work_dir: pathlib.Path,
                raw_dir: pathlib.Path) -> None:
        """Raw files of what the driver left. RunFailed if something is not there."""
        write_json(raw_dir / "network.json", plan.scenario.network)
        write_workload(prepared, raw_dir)
        measured, flows = _Checks(_left(work_dir, "checks.json")), _Flows(_left(work_dir, "flows.json"))
        counters = _left(work_dir, "counters.json")
        write_json(raw_dir / "checks.json", idle.checks(
            plan.scenario.network, [None if one.measured_rtt_ns < 0 else one.measured_rtt_ns / 1000
                                    for one in measured.paths], measured.bottlenecks))
        write_json(raw_dir / "counters.json", counters)
        tables.from_csv(work_dir, raw_dir, _TABLES)
        for source in work.sources:
            tables.write_records(source, work_dir)
        tables.datagram_counts(work_dir, prepared, flows.datagrams)
        write_json(raw_dir / "guest.json", {
            "probes": {}, "accounts": [], "bulk": flows.bulk,
            "traffic": traffic.collect(prepared, traffic_context(plan, work_dir, str(work_dir)), raw_dir)})


def _left(folder: pathlib.Path, name: str) -> dict[str, object]:
    try:
        found: dict[str, object] = json.loads((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise RunFailed(f"the simulator left no {name} that can be read: {problem}") from None
    return found
