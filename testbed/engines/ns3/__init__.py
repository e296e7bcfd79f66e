# SPDX-License-Identifier: GPL-2.0-only
"""ns-3, the simulator: the same scenario and the same connections in its own TCP (docs/simulators.md).

One driver, simulation/ns3/driver.cc, is compiled on first use against the installed library and reads
its orders at run time. It leaves CSV files, of which the raw tables are made.
"""
from __future__ import annotations

import hashlib
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import traffic
from testbed import PROJECT_DIR, orders
from testbed.engines.base import Capabilities, EngineBase, OnProgress, Problem, Report, traffic_context, write_workload
from testbed.engines.ns3 import build, ccas, driver_orders
from testbed.errors import EnvironmentProblem, RunFailed
from testbed.files import write_json
from testbed.plan import Plan
from testbed.probes import sojourn
from testbed.simulators import idle, process, tables, workload

Json = dict[str, Any]
_LIBRA = PROJECT_DIR / "kernel-modules" / "tcp_libra"
_TABLES = ("queue", "edge_queue", "tcp_info", "tcp_probe", "retransmissions")
#: of a scenario's section `hosts`, what it can set
_HOSTS = ("ecn", "sack", "slow_start_after_idle", "initcwnd", "sysctls")
_BATCH = 3 * (1 << 20)


class _Module(NamedTuple):
    """A module of which the driver has its own."""
    name: str
    file: pathlib.Path
    sha256: str
    congestion_controls: tuple[str, ...]
    warnings: str = ""


class Engine(EngineBase):
    """Compiles or finds the driver, runs it, makes raw tables of what it leaves."""
    capabilities = Capabilities(clock="simulated", kernel=False, modules=False,
                                probes=("queue", "sojourn", "tcp_info", "tcp_probe"))

    def problems(self) -> list[Problem]:
        return build.problems()

    def prepare(self, report: Report) -> None:
        build.ensure(report)

    def find(self) -> bool:
        return not self.problems() and build.driver().exists()

    def state(self) -> str:
        version = ".".join(map(str, self._version()))
        return f"ready, ns-3.{version[2:]}" if self.find() else \
            f"ns-3.{version[2:]}; the first run compiles the driver"

    def kernel_key(self) -> str:
        return build.key()

    def environment(self) -> Json:
        return {"simulator": "ns-3." + str(self._version()[1]), "kernel_key": build.key()}

    def code_sha256(self) -> str:
        text = "\n".join([super().code_sha256(), build.key()])
        return hashlib.sha256(text.encode()).hexdigest()

    def _version(self) -> tuple[int, int]:
        version = build.version()
        if version is None:
            raise EnvironmentProblem("ns-3's library is missing (apt-get install libns3-dev)")
        return version

    def congestion_controls(self) -> Sequence[str]:
        return sorted(ccas.ALGORITHMS)

    def parameters(self, kernel_cca: str) -> dict[str, str]:
        return ccas.parameters(kernel_cca)

    def refusal(self, variant: Mapping[str, Any]) -> str:
        wrong = ccas.not_possible(variant["sysctls"])
        return f"engine {self.name} cannot set {', '.join(wrong)}" if wrong else ""

    def build_module(self, source: str, report: Report) -> _Module:
        """Of Libra alone there is a class for ns-3."""
        if pathlib.Path(source).resolve() != _LIBRA:
            raise RunFailed(f"{source}: engine {self.name} loads no modules; of those that come with the testbed it "
                            "has libra")
        return self.find_module("")

    def find_module(self, sha256: str) -> _Module:
        own = hashlib.sha256((build.SOURCES / "libra.h").read_bytes() + (_LIBRA / "libra_math.h").read_bytes())
        return _Module("tcp_libra", _LIBRA / "libra_math.h", own.hexdigest(), ("libra",))

    def run(self, plan: Plan, workload_dir: pathlib.Path, folder: pathlib.Path, cpu: int,
            on_progress: OnProgress) -> None:
        work_dir = workload_dir
        network, hosts = plan.scenario["network"], plan.scenario["hosts"]
        wrong = ccas.not_possible(hosts["sysctls"])
        if wrong:
            raise RunFailed(f"hosts.sysctls: engine {self.name} cannot set {', '.join(wrong)}")
        workload.refuse_hosts(hosts, _HOSTS, self.name)
        prepared = json.loads((work_dir / "workload.json").read_text(encoding="utf-8"))
        work = workload.read(prepared, self.name)
        parts = orders.job_parts(self, plan.variants, network, hosts, prepared, work_dir)
        (work_dir / "orders.txt").write_text(driver_orders.text(plan, work, parts, self._version()), encoding="utf-8")
        process.run("the ns-3 driver", [str(build.ensure(lambda text: None)), "orders.txt"], work_dir,
                    folder / "log.txt", on_progress)
        on_progress("collect", 0)
        raw_dir = folder / "raw"
        raw_dir.mkdir()
        _collect(plan, prepared, work, work_dir, raw_dir)


def _collect(plan: Plan, prepared: Json, work: workload.Work, work_dir: pathlib.Path, raw_dir: pathlib.Path) -> None:
    """Raw files of what the driver left."""
    network = plan.scenario["network"]
    write_json(raw_dir / "network.json", network)
    write_workload(prepared, raw_dir)
    measured = json.loads((work_dir / "checks.json").read_text(encoding="utf-8"))
    write_json(raw_dir / "checks.json", idle.checks(
        network, [None if one["measured_rtt_ns"] < 0 else one["measured_rtt_ns"] / 1000 for one in measured["paths"]],
        measured["bottlenecks"]))
    write_json(raw_dir / "counters.json", json.loads((work_dir / "counters.json").read_text(encoding="utf-8")))
    tables.from_csv(work_dir, raw_dir, _TABLES)
    if "sojourn" in plan.scenario["probes"]:
        sojourn.write_tables(_sojourns(work_dir / "sojourn.bin", network), raw_dir, {
            "settings": plan.scenario["probes"]["sojourn"], "network": network, "t0_ns": 0, **plan.timing})
    flows = json.loads((work_dir / "flows.json").read_text(encoding="utf-8"))
    for source in work.sources:
        tables.write_records(source, work_dir)
    tables.datagram_counts(work_dir, prepared, flows["datagrams"])
    write_json(raw_dir / "guest.json", {
        "probes": {}, "accounts": [], "bulk": flows["bulk"],
        "traffic": traffic.collect(prepared, traffic_context(plan, work_dir, str(work_dir)), raw_dir)})


def _sojourns(path: pathlib.Path, network: Json) -> Iterator[tuple[Any, Any, Any]]:
    """Batches of (when a packet left, how long it waited, ifindex of its queue)."""
    import numpy as np
    index = np.array([link["ifindex"] for link in network["links"]])
    with open(path, "rb") as file:
        while (rows := np.fromfile(file, "<i8", _BATCH)).size:
            left, waited, link = rows.reshape(-1, 3).T
            yield left, waited, index[link]
